// Assertions of the library's own invariants (never of a caller's arguments: those are refused or
// reported). Active unless NDEBUG is set. The message goes out by write(2): no allocation, no
// stdio.
#pragma once

#include <cstdint>

namespace kmem {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;
[[noreturn]] void check_eq_failed(const char* left_text, const char* right_text, std::uint64_t left,
                                  std::uint64_t right, const char* file, int line) noexcept;

}  // namespace kmem

#ifdef NDEBUG
#define KMEM_ASSERT(condition) static_cast<void>(sizeof(!(condition)))
#define KMEM_ASSERT_EQ(left, right) static_cast<void>(sizeof((left) == (right)))
#else
#define KMEM_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::kmem::assertion_failed(#condition, __FILE__, __LINE__))
#define KMEM_ASSERT_EQ(left, right)                                                \
  ((left) == (right) ? static_cast<void>(0)                                        \
                     : ::kmem::check_eq_failed(#left, #right, std::uint64_t(left), \
                                               std::uint64_t(right), __FILE__, __LINE__))
#endif
