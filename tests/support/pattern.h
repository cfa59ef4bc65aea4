// What tests write in objects, so that two owners of one object, or a library that writes in an
// object in use, are found: every byte depends on the tag and on its place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/support/random.h"

namespace kmem::test {

void fill(void* object, std::size_t bytes, std::uint64_t tag) noexcept;
// The first offset whose byte is not as filled; bytes if all are.
std::size_t first_difference(const void* object, std::size_t bytes, std::uint64_t tag) noexcept;
inline bool holds(const void* object, std::size_t bytes, std::uint64_t tag) noexcept {
  return first_difference(object, bytes, tag) == bytes;
}
bool all_zero(const void* object, std::size_t bytes) noexcept;

inline bool aligned(const void* object, std::size_t align) noexcept {
  return reinterpret_cast<std::uintptr_t>(object) % align == 0;
}

}  // namespace kmem::test
