#include "common/base/assert.h"

#include <cinttypes>
#include <cstdlib>

#include "common/base/log.h"

namespace kmem {

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  log_line("kmem: %s:%d: assertion failed: %s", file, line, expression);
  std::abort();
}

void check_eq_failed(const char* left_text, const char* right_text, std::uint64_t left,
                     std::uint64_t right, const char* file, int line) noexcept {
  log_line("kmem: %s:%d: assertion failed: %s == %s (%" PRIu64 " against %" PRIu64 ")", file, line,
           left_text, right_text, left, right);
  std::abort();
}

}  // namespace kmem
