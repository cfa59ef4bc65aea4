// Short lists of free blocks of the small orders, one for each CPU and node, so that most traffic
// of slabs takes no lock that another CPU wants, splits nothing and merges nothing. A list's lock
// is only ever tried by that traffic: it is held by another thread when that was preempted, or for
// a drain, and then the buddy allocator serves.
//
// Blocks on a list are free: kind is free, head is null. They stay charged (limits.h), and the
// buddy allocator counts them as given out. Each order has a stack: the newest is at the top and
// used first; batches go back from the bottom. Batches and stacks hold the same number of pages for
// each order.
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
  static constexpr unsigned order_count = 4;  // slabs of all designs are rarely larger
  static constexpr std::uint32_t batch_pages = 16, high_pages = 64;

  // nullptr: another thread is at the list, or there is no block to be had within the limit.
  Page* pop(unsigned order, Buddy& buddy) noexcept;
  // False: another thread is at the list; the block is still the caller's.
  bool push(Page* head, unsigned order, Buddy& buddy) noexcept;

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

  // True once in a number of calls: time to look at the clock. Races lose a tick, which is
  // harmless.
  KMEM_FAST bool tick() noexcept {
    constexpr std::uint32_t ticks = 64;
    const std::uint32_t now = ticks_.load(std::memory_order_relaxed) + 1;
    ticks_.store(now, std::memory_order_relaxed);
    return now % ticks == 0;
  }

 private:
  static constexpr std::uint32_t high(unsigned order) noexcept { return high_pages >> order; }
  static constexpr std::uint32_t batch(unsigned order) noexcept { return batch_pages >> order; }
  // The stacks lie one behind the other: 64, 32, 16 and 8 entries.
  Page** stack(unsigned order) noexcept {
    return blocks_ + std::size_t{2} * (high_pages - high(order));
  }

  void refill(unsigned order, Buddy& buddy) noexcept;
  void flush(unsigned order, std::uint32_t n, Buddy& buddy) noexcept;
  void flush_all(Buddy& buddy) noexcept;
  void add_pages(std::uint32_t n) noexcept;
  void remove_pages(std::uint32_t n) noexcept;
  bool used() const noexcept;
  std::uint64_t operations() const noexcept;

  // Written under the lock; the atomic ones are read without it by usage().
  RankedSpinLock<LockRank::pages_cpu> lock_;
  std::uint32_t count_[order_count];  // blocks on each stack
  std::atomic<std::uint32_t> pages_;  // in all of them
  std::atomic<std::uint32_t> least_;  // of pages_
  std::atomic<std::uint32_t> ticks_;
  std::atomic<std::uint64_t> allocations_, frees_;
  std::uint64_t operations_seen_;  // by drain_if_idle()
  Page* blocks_[high_pages + high_pages / 2 + high_pages / 4 + high_pages / 8];
};
static_assert(CpuList::batch_pages >> (CpuList::order_count - 1) >= 1);

}  // namespace kmem::pages
