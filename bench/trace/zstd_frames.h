// Follows the frames of a zstd stream as its bytes go by. Boost's decompressor takes a stream that
// ends in the middle of a frame for a complete one; this knows better (RFC 8878, section 3.1).
#pragma once

#include <cstddef>
#include <cstdint>

namespace kmem::bench::trace {

class ZstdFrames {
 public:
  void feed(const char* bytes, std::size_t count) noexcept;
  // Whether the stream may end here: between two frames.
  bool between_frames() const noexcept {
    return state_ == State::magic && have_ == 0 && skip_ == 0;
  }

 private:
  enum class State : std::uint8_t { magic, skippable_size, descriptor, block, checksum, unknown };

  std::size_t needed() const noexcept;
  std::uint32_t field() const noexcept;  // the bytes gathered, little endian
  void step() noexcept;
  void read_descriptor(std::uint32_t descriptor) noexcept;
  void read_block(std::uint32_t header) noexcept;

  State state_ = State::magic;
  bool has_checksum_ = false;
  std::uint8_t bytes_[4] = {};
  std::size_t have_ = 0;
  std::uint64_t skip_ = 0;  // bytes of a body that mean nothing here
};

}  // namespace kmem::bench::trace
