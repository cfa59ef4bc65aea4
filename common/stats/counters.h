// Event counters of one cache, one row a CPU, summed by a reader at any time: each is exact once
// traffic stops, and never behind by more than the operations in flight.
//
// Slow paths always count. Fast paths count only where the policy says that it can afford it
// (Policy::counts_fast_paths): replay and tests do, a production Rseq cache does not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/pages/pages.h"

namespace kmem::stats {

// Event is an enum class whose last member is count.
template <class Event>
class Counters {
 public:
  static constexpr std::size_t event_count = static_cast<std::size_t>(Event::count);

  bool create(unsigned cpus) noexcept {
    cpus_ = cpus;
    rows_ = static_cast<Row*>(pages::metadata_alloc(cpus * sizeof(Row)));
    return rows_ != nullptr;
  }
  void destroy() noexcept {
    if (rows_ != nullptr) pages::metadata_free(rows_, cpus_ * sizeof(Row));
    rows_ = nullptr;
  }
  // cpu is a hint that keeps rows apart; any value below cpus is correct.
  void add(unsigned cpu, Event event, std::uint64_t n = 1) noexcept {
    rows_[cpu < cpus_ ? cpu : 0].value[static_cast<std::size_t>(event)].fetch_add(
        n, std::memory_order_relaxed);
  }
  std::uint64_t sum(Event event) const noexcept {
    std::uint64_t total = 0;
    for (unsigned cpu = 0; cpu < cpus_; ++cpu)
      total += rows_[cpu].value[static_cast<std::size_t>(event)].load(std::memory_order_relaxed);
    return total;
  }
  void clear() noexcept {
    for (unsigned cpu = 0; cpu < cpus_; ++cpu)
      for (auto& value : rows_[cpu].value) value.store(0, std::memory_order_relaxed);
  }

 private:
  struct alignas(64) Row {
    std::atomic<std::uint64_t> value[event_count];
  };
  Row* rows_ = nullptr;
  unsigned cpus_ = 0;
};

}  // namespace kmem::stats
