#include "bench/trace/zstd_frames.h"

#include <algorithm>

namespace kmem::bench::trace {

namespace {
constexpr std::uint32_t frame_magic = 0xFD2FB528;
constexpr std::uint32_t skippable_magic = 0x184D2A50;  // the last four bits are free
constexpr std::uint32_t run_length_block = 1;
}  // namespace

std::size_t ZstdFrames::needed() const noexcept {
  switch (state_) {
    case State::descriptor:
      return 1;
    case State::block:
      return 3;
    default:
      return 4;
  }
}

std::uint32_t ZstdFrames::field() const noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = have_; i-- > 0;) value = value << 8 | bytes_[i];
  return value;
}

void ZstdFrames::feed(const char* bytes, std::size_t count) noexcept {
  while (count > 0 && state_ != State::unknown) {
    if (skip_ > 0) {
      const std::size_t step = std::min<std::uint64_t>(skip_, count);
      skip_ -= step;
      bytes += step;
      count -= step;
      continue;
    }
    bytes_[have_++] = static_cast<std::uint8_t>(*bytes++);
    --count;
    if (have_ == needed()) step();
  }
}

void ZstdFrames::step() noexcept {
  const std::uint32_t value = field();
  have_ = 0;
  switch (state_) {
    case State::magic:
      if (value == frame_magic)
        state_ = State::descriptor;
      else if ((value & ~0xFu) == skippable_magic)
        state_ = State::skippable_size;
      else
        state_ = State::unknown;  // the decompressor will say so
      return;
    case State::skippable_size:
      skip_ = value;
      state_ = State::magic;
      return;
    case State::descriptor:
      return read_descriptor(value);
    case State::block:
      return read_block(value);
    case State::checksum:
      state_ = State::magic;
      return;
    case State::unknown:
      return;
  }
}

void ZstdFrames::read_descriptor(std::uint32_t descriptor) noexcept {
  static constexpr std::uint8_t dictionary_bytes[] = {0, 1, 2, 4};
  static constexpr std::uint8_t content_size_bytes[] = {0, 2, 4, 8};
  const bool single_segment = (descriptor >> 5 & 1) != 0;
  has_checksum_ = (descriptor >> 2 & 1) != 0;
  skip_ = dictionary_bytes[descriptor & 3] + content_size_bytes[descriptor >> 6];
  if (!single_segment) skip_ += 1;                         // the window descriptor
  if (single_segment && descriptor >> 6 == 0) skip_ += 1;  // a content size of one byte
  state_ = State::block;
}

void ZstdFrames::read_block(std::uint32_t header) noexcept {
  const bool last = (header & 1) != 0;
  const std::uint32_t type = header >> 1 & 3;
  skip_ = type == run_length_block ? 1 : header >> 3;
  if (last) state_ = has_checksum_ ? State::checksum : State::magic;
}

}  // namespace kmem::bench::trace
