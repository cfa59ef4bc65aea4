// A short turn in which the scheduler took the CPU away is measured again: what it lost is not the
// allocator's cost.
#pragma once

#include <sys/resource.h>

#include <utility>

#include "bench/clock.h"

namespace kmem::bench {

// Beyond this a turn on a busy machine is always interrupted; to repeat it helps nobody.
inline constexpr std::uint64_t short_turn_ns = 20'000'000;
inline constexpr unsigned default_repeats = 4;

// Times that this thread lost its CPU against its will.
inline long preemptions() noexcept {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

// What measure() returns, of the first of at most 1 + repeats tries that nothing interrupted.
template <class Measure>
auto undisturbed(Measure&& measure, unsigned repeats = default_repeats) {
  for (;; --repeats) {
    const long before = preemptions();
    const std::uint64_t start_ns = now_ns();
    auto outcome = measure();
    const bool is_short = now_ns() - start_ns < short_turn_ns;
    if (repeats == 0 || !is_short || preemptions() == before) return outcome;
  }
}

}  // namespace kmem::bench
