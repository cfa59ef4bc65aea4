#include "common/base/environment.h"

#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "common/base/log.h"

namespace kmem {
namespace {

bool is_size(const char* name) noexcept {
  constexpr std::size_t suffix_length = 6;
  const std::size_t length = std::strlen(name);
  return length > suffix_length && std::strcmp(name + length - suffix_length, "_BYTES") == 0;
}

// The binary logarithm of a size suffix, 0 for none, -1 for a character that is no suffix.
int suffix_shift(char suffix) noexcept {
  switch (suffix) {
    case '\0':
      return 0;
    case 'k':
    case 'K':
      return 10;
    case 'm':
    case 'M':
      return 20;
    case 'g':
    case 'G':
      return 30;
    case 't':
    case 'T':
      return 40;
    default:
      return -1;
  }
}

bool parse_number(const char* text, bool size, std::uint64_t* value) noexcept {
  if (*text < '0' || *text > '9') return false;
  std::uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    const auto digit = static_cast<std::uint64_t>(*text - '0');
    if (__builtin_mul_overflow(number, std::uint64_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, digit, &number)) return false;
  }
  const int shift = size ? suffix_shift(*text) : (*text == '\0' ? 0 : -1);
  if (shift < 0 || (shift > 0 && text[1] != '\0')) return false;
  if (shift > 0 && number >> (64 - shift) != 0) return false;
  *value = number << shift;
  return true;
}

}  // namespace

std::uint64_t environment_number(const char* name, std::uint64_t fallback,
                                 NumberRange range) noexcept {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  std::uint64_t value = 0;
  if (parse_number(text, is_size(name), &value) && value >= range.least && value <= range.most)
    return value;
  warn("%s=%s refused: not a number from %" PRIu64 " to %" PRIu64 "; using %" PRIu64, name, text,
       range.least, range.most, fallback);
  return fallback;
}

}  // namespace kmem
