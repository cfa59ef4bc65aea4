// The two clocks of a measurement: the time stamp counter (cycles of the nominal frequency, not of
// the core's own), and the monotonic clock.
#pragma once

#include <time.h>

#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace kmem::bench {

inline std::uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Time for which this thread had a CPU.
inline std::uint64_t thread_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// 0 where there is no counter that programs may read.
inline std::uint64_t now_cycles() noexcept {
#if defined(__x86_64__)
  unsigned core = 0;
  return __rdtscp(&core);  // waits until what is measured has finished
#else
  return 0;
#endif
}

// Cost of one unit of work.
struct Sample {
  double cycles = 0, ns = 0;
};

class Stopwatch {
 public:
  Stopwatch() noexcept : thread_ns_(thread_ns()), ns_(now_ns()), cycles_(now_cycles()) {}

  Sample per(double units) const noexcept {
    const std::uint64_t cycles = now_cycles() - cycles_;
    return {static_cast<double>(cycles) / units, static_cast<double>(now_ns() - ns_) / units};
  }
  // For one thread that waits for nobody, in turns so long that others get its CPU meanwhile: what
  // they had is taken out.
  Sample per_own_time(double units) const noexcept {
    Sample sample = per(1);
    const double own_ns = static_cast<double>(thread_ns() - thread_ns_);
    const double share = sample.ns > own_ns ? own_ns / sample.ns : 1;
    return {sample.cycles * share / units, sample.ns * share / units};
  }

 private:
  std::uint64_t thread_ns_, ns_, cycles_;
};

}  // namespace kmem::bench
