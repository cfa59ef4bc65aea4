// Randomness that can be repeated: one seed for the process, KMEM_TEST_SEED (a number, or
// "random"), printed at start. A stream's name keeps tests independent of the order in which they
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kmem::test {

std::uint64_t process_seed();

constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(std::string_view stream, std::uint64_t number = 0) noexcept;

  std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15); }
  std::size_t below(std::size_t bound) noexcept { return next() % bound; }
  std::size_t between(std::size_t low, std::size_t high) noexcept {
    return low + below(high - low + 1);
  }
  bool chance(unsigned percent) noexcept { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

// Iterations and threads for slow builds (sanitizers, valgrind): KMEM_TEST_SCALE, a fraction or a
// factor, 1 unless set. The result is at least 1.
std::size_t scaled(std::size_t count);

}  // namespace kmem::test
