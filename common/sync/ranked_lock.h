// Locks that know their rank (lock_rank.h). Spins briefly, then yields the CPU: a holder may have
// been preempted, and there may be more threads than CPUs.
#pragma once

#include <atomic>

#include "common/base/assert.h"
#include "common/base/attributes.h"
#include "common/sync/lock_rank.h"

namespace kmem {

// Per-thread bookkeeping behind the check; nothing at all with NDEBUG. Both name the locks' ranks
// and abort when the order is broken.
#ifdef NDEBUG
inline void note_acquire(LockRank) noexcept {}
inline void note_release(LockRank) noexcept {}
#else
void note_acquire(LockRank rank) noexcept;
void note_release(LockRank rank) noexcept;
#endif

// How many of the library's locks this thread holds, or is about to: in a signal handler, whether
// it interrupted their holder. Raised before a lock is tried and lowered after it is let go, so
// that a handler never sees too few.
[[gnu::visibility("hidden"),
  gnu::tls_model("initial-exec")]] extern constinit thread_local unsigned locks_held;

// The lock itself, without a rank. All zeros is a free lock: arrays of them need no construction.
class SpinWord {
 public:
  void lock() noexcept {
    locks_held = locks_held + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire: pairs with the release in unlock(), so that we see what the last holder wrote.
    if (held_.exchange(1, std::memory_order_acquire) != 0) [[unlikely]]
      lock_contended();
  }
  bool try_lock() noexcept {
    locks_held = locks_held + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Acquire: as in lock().
    if (held_.exchange(1, std::memory_order_acquire) == 0) return true;
    locks_held = locks_held - 1;
    return false;
  }
  void unlock() noexcept {
    held_.store(0, std::memory_order_release);  // pairs with the acquire in lock()
    std::atomic_signal_fence(std::memory_order_seq_cst);
    locks_held = locks_held - 1;
  }

 private:
  void lock_contended() noexcept;

  std::atomic<std::uint32_t> held_{0};
};

class SpinLock {
 public:
  constexpr explicit SpinLock(LockRank rank) noexcept : rank_(rank) {}
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept {
    note_acquire(rank_);
    word_.lock();
  }
  bool try_lock() noexcept {
    if (!word_.try_lock()) return false;
    note_acquire(rank_);
    return true;
  }
  void unlock() noexcept {
    note_release(rank_);
    word_.unlock();
  }
  // For fork handlers, which hold all locks of a rank at once: its word, without the check.
  SpinWord& unranked() noexcept { return word_; }

 private:
  SpinWord word_;
  const LockRank rank_;
};

// The same with the rank in the type: memory that is all zeros holds free locks of it.
template <LockRank rank>
class RankedSpinLock {
 public:
  void lock() noexcept {
    note_acquire(rank);
    word_.lock();
  }
  bool try_lock() noexcept {
    if (!word_.try_lock()) return false;
    note_acquire(rank);
    return true;
  }
  void unlock() noexcept {
    note_release(rank);
    word_.unlock();
  }
  SpinWord& unranked() noexcept { return word_; }  // as SpinLock's

 private:
  SpinWord word_;
};

// std::lock_guard without its header.
template <class L>
class [[nodiscard]] Guard {
 public:
  explicit Guard(L& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  L& lock_;
};

}  // namespace kmem
