#include "common/sync/ranked_lock.h"

#include <sched.h>

#include <cstdlib>

#include "common/base/bits.h"
#include "common/base/log.h"

namespace kmem {

constinit thread_local unsigned locks_held = 0;

#ifndef NDEBUG
namespace {

// Bit r is set while this thread holds a lock of rank r. Initial-exec: a signal handler may be the
// first on its thread to take a lock, and the dynamic models would call malloc then.
[[gnu::tls_model("initial-exec")]] thread_local constinit std::uint32_t held_ranks = 0;

std::uint32_t bit_of(LockRank rank) noexcept { return std::uint32_t{1} << static_cast<int>(rank); }

}  // namespace

void note_acquire(LockRank rank) noexcept {
  const std::uint32_t bit = bit_of(rank);
  if (held_ranks >= bit) {
    log_line("kmem: lock order broken: %s taken while %s is held",
             lock_rank_names[static_cast<int>(rank)], lock_rank_names[log2_floor(held_ranks)]);
    std::abort();
  }
  held_ranks |= bit;
}

void note_release(LockRank rank) noexcept {
  if ((held_ranks & bit_of(rank)) == 0) {
    log_line("kmem: lock %s released by a thread that does not hold it",
             lock_rank_names[static_cast<int>(rank)]);
    std::abort();
  }
  held_ranks &= ~bit_of(rank);
}
#endif

void SpinWord::lock_contended() noexcept {
  constexpr int spins_before_yield = 64;
  for (int spins = 0;; ++spins) {
    if (spins < spins_before_yield) {
      __builtin_ia32_pause();
    } else {
      sched_yield();  // the holder is likely preempted, perhaps by us
    }
    // Read first, so that waiters share the line until it changes. Acquire: as in lock().
    if (held_.load(std::memory_order_relaxed) == 0 &&
        held_.exchange(1, std::memory_order_acquire) == 0)
      return;
  }
}

}  // namespace kmem
