// What tests write in objects, so that two owners of one object, or a library that writes in an
// object in use, are found: every byte depends on the tag and on its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/support/random.h"

namespace kmem::test {

inline void fill(void* object, std::size_t bytes, std::uint64_t tag) noexcept {
  auto* at = static_cast<unsigned char*>(object);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = (tag + i) * 0x9e3779b97f4a7c15;
    std::memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
  }
}

// The first offset whose byte is not as filled; bytes if all are.
inline std::size_t first_difference(const void* object, std::size_t bytes,
                                    std::uint64_t tag) noexcept {
  auto* at = static_cast<const unsigned char*>(object);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = (tag + i) * 0x9e3779b97f4a7c15;
    const std::size_t n = bytes - i < 8 ? bytes - i : 8;
    if (std::memcmp(at + i, &word, n) == 0) continue;
    for (std::size_t k = 0; k < n; ++k) {
      if (at[i + k] != reinterpret_cast<const unsigned char*>(&word)[k]) return i + k;
    }
  }
  return bytes;
}
inline bool holds(const void* object, std::size_t bytes, std::uint64_t tag) noexcept {
  return first_difference(object, bytes, tag) == bytes;
}

inline bool all_zero(const void* object, std::size_t bytes) noexcept {
  auto* at = static_cast<const unsigned char*>(object);
  return bytes == 0 || (at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0);
}

inline bool aligned(const void* object, std::size_t align) noexcept {
  return reinterpret_cast<std::uintptr_t>(object) % align == 0;
}

}  // namespace kmem::test
