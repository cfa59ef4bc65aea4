// Short lists of free single pages, one for each CPU and node, so that most traffic of order 0
// takes no lock that another CPU wants. A list's lock is only ever tried: it is held by another
// thread when that was preempted, or for a drain, and then the buddy allocator serves.
//
// Pages on a list are free: kind is free, head is null. They stay charged (limits.h), and the buddy
// allocator counts them as given out. The newest is at the top and used first; batches go back from
// the bottom.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/pages/page.h"
#include "common/sync/ranked_lock.h"

namespace kmem::pages {

class Buddy;

// All zeros is an empty list that was never used.
class alignas(64) CpuList {
 public:
  static constexpr std::uint32_t batch = 16, high = 64;

  // nullptr: another thread is at the list, or there is no page to be had within the limit.
  Page* pop(Buddy& buddy) noexcept;
  // False: another thread is at the list; the page is still the caller's.
  bool push(Page* page, Buddy& buddy) noexcept;

  void drain(Buddy& buddy) noexcept;
  // Drains the list if nobody used it since the last call.
  void drain_if_idle(Buddy& buddy) noexcept;

  void lock_for_fork() noexcept { lock_.unranked().lock(); }
  void unlock_after_fork() noexcept { lock_.unranked().unlock(); }

  struct Counts {
    std::uint64_t allocations, frees;
    std::size_t pages, pages_least;  // now; since the peak was last noted
  };
  Counts counts() const noexcept;
  void reset_least() noexcept;
  bool used() const noexcept {
    return count_.load(std::memory_order_relaxed) != 0 || operations() != 0;
  }

  // True once in a number of calls: time to look at the clock. Races lose a tick, which is
  // harmless.
  KMEM_FAST bool tick() noexcept {
    constexpr std::uint32_t ticks = 64;
    const std::uint32_t now = ticks_.load(std::memory_order_relaxed) + 1;
    ticks_.store(now, std::memory_order_relaxed);
    return now % ticks == 0;
  }

 private:
  void refill(Buddy& buddy) noexcept;
  void flush(Buddy& buddy, std::uint32_t n) noexcept;
  std::uint64_t operations() const noexcept {
    return allocations_.load(std::memory_order_relaxed) + frees_.load(std::memory_order_relaxed);
  }

  // Written under the lock, read without it by usage().
  RankedSpinLock<LockRank::pages_cpu> lock_;
  std::atomic<std::uint32_t> count_;
  std::atomic<std::uint32_t> least_;
  std::atomic<std::uint32_t> ticks_;
  std::atomic<std::uint64_t> allocations_, frees_;
  std::uint64_t operations_seen_;  // by drain_if_idle()
  Page* pages_[high];
};

}  // namespace kmem::pages
