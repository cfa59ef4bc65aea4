// The same turn on several threads at once.
#pragma once

#include <sched.h>

#include <algorithm>
#include <barrier>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "bench/clock.h"

namespace kmem::bench {

// The calling thread stays on the i-th CPU that it may use, counted round. Where that is refused it
// stays where the scheduler puts it.
inline void pin_to_allowed_cpu(unsigned i) noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  unsigned skip = i % static_cast<unsigned>(std::max(CPU_COUNT(&allowed), 1));
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    static_cast<void>(sched_setaffinity(0, sizeof one, &one));
    return;
  }
}

// work(i) for each i below threads, all begun together; one thread is the caller's own. The first
// exception that one threw is thrown again when all have ended.
template <class Work>
void on_threads(unsigned threads, Work&& work) {
  if (threads == 1) return work(0U);
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::exception_ptr> errors(threads);
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

// What a unit cost each of them, on the average.
template <class Work>
Sample mean_on_threads(unsigned threads, Work&& work) {
  std::vector<Sample> samples(threads);
  on_threads(threads, [&](unsigned i) { samples[i] = work(i); });
  Sample mean;
  for (const Sample& sample : samples) {
    mean.cycles += sample.cycles / threads;
    mean.ns += sample.ns / threads;
  }
  return mean;
}

// What a unit cost all of them together: from the moment in which the last is ready until the last
// has ended. For work that threads share, and where there are more of them than CPUs.
template <class Work>
Sample total_on_threads(unsigned threads, double units, Work&& work) {
  std::optional<Stopwatch> watch;
  Sample total;
  std::barrier start(static_cast<std::ptrdiff_t>(threads), [&]() noexcept { watch.emplace(); });
  std::barrier end(static_cast<std::ptrdiff_t>(threads),
                   [&]() noexcept { total = watch->per(units); });
  on_threads(threads, [&](unsigned i) {
    start.arrive_and_wait();
    struct End {
      decltype(end)& barrier;
      ~End() { barrier.arrive_and_wait(); }
    } const at_end{end};
    work(i);
  });
  return total;
}

}  // namespace kmem::bench
