// Locks for callers that may not wait: without __GFP_DIRECT_RECLAIM an allocation may run in a
// signal handler, over the holder of a lock, which then cannot go on. A thread that holds none of
// the library's locks is no such handler, and waits like any other.
#pragma once

#include <sched.h>

#include "common/base/flags.h"
#include "common/sync/ranked_lock.h"

namespace kmem {

// False: not had, after a while that lets another thread finish.
template <class L>
[[nodiscard]] bool lock_for(L& lock, gfp_t gfp) noexcept {
  if ((gfp & gfp::direct_reclaim) != 0 || locks_held == 0) return lock.lock(), true;
  constexpr unsigned spins = 16, tries_max = 64 * spins;
  for (unsigned tries = 1; tries <= tries_max; ++tries) {
    if (lock.try_lock()) return true;
    if (tries % spins == 0) sched_yield();
  }
  return false;
}

// Guard for a lock that may not be had: true if it is held.
template <class L>
class [[nodiscard]] GuardFor {
 public:
  GuardFor(L& lock, gfp_t gfp) noexcept : lock_(lock), held_(lock_for(lock, gfp)) {}
  ~GuardFor() {
    if (held_) lock_.unlock();
  }
  GuardFor(const GuardFor&) = delete;
  GuardFor& operator=(const GuardFor&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  L& lock_;
  const bool held_;
};

}  // namespace kmem
