#include "tests/support/pattern.h"

#include <cstring>

namespace kmem::test {

void fill(void* object, std::size_t bytes, std::uint64_t tag) noexcept {
  auto* at = static_cast<unsigned char*>(object);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = (tag + i) * 0x9e3779b97f4a7c15;
    std::memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
  }
}

std::size_t first_difference(const void* object, std::size_t bytes, std::uint64_t tag) noexcept {
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
bool all_zero(const void* object, std::size_t bytes) noexcept {
  auto* at = static_cast<const unsigned char*>(object);
  return bytes == 0 || (at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0);
}

}  // namespace kmem::test
