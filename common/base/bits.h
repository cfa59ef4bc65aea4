// Arithmetic on sizes and alignments. All arguments are values the caller has checked for range.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kmem {

// align is a power of two.
constexpr std::size_t align_up(std::size_t value, std::size_t align) noexcept {
  return (value + align - 1) & ~(align - 1);
}
constexpr std::size_t align_down(std::size_t value, std::size_t align) noexcept {
  return value & ~(align - 1);
}
constexpr std::size_t divide_up(std::size_t value, std::size_t by) noexcept {
  return (value + by - 1) / by;
}
// Floor of the binary logarithm; value > 0.
constexpr unsigned log2_floor(std::size_t value) noexcept {
  return static_cast<unsigned>(std::bit_width(value)) - 1;
}

inline constexpr std::size_t cache_line_bytes = 64;

}  // namespace kmem
