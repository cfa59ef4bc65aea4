// Numbers from the environment (KMEM_*), read at start. A value that is malformed or out of range
// is refused with one warning line, and the default holds: a typing error must not pass unnoticed.
#pragma once

#include <cstdint>

namespace kmem {

struct NumberRange {
  std::uint64_t least, most;
};

// A decimal number; with a suffix K, M, G or T (powers of 1,024) where the variable's name ends in
// _BYTES. fallback if the variable is unset or refused.
std::uint64_t environment_number(const char* name, std::uint64_t fallback,
                                 NumberRange range) noexcept;

}  // namespace kmem
