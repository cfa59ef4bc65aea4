#include "tests/support/random.h"

#include <cstdlib>
#include <random>
#include <string>

namespace kmem::test {

std::uint64_t process_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("KMEM_TEST_SEED");
    if (text == nullptr || *text == 0) return std::uint64_t{20070506};
    if (std::string(text) == "random") return std::uint64_t{std::random_device{}()};
    return std::uint64_t{std::strtoull(text, nullptr, 0)};
  }();
  return seed;
}

Random::Random(std::string_view stream, std::uint64_t number) noexcept
    : state_(process_seed() + number) {
  for (const char c : stream) state_ = mix64(state_ ^ static_cast<unsigned char>(c));
}

std::size_t scaled(std::size_t count) {
  static const double scale = [] {
    const char* text = std::getenv("KMEM_TEST_SCALE");
    const double value = text != nullptr ? std::strtod(text, nullptr) : 1.0;
    return value > 0 ? value : 1.0;
  }();
  const auto result = static_cast<std::size_t>(static_cast<double>(count) * scale);
  return result > 0 ? result : 1;
}

}  // namespace kmem::test
