// Sleeping on a word until another thread of the process changes it. For rare, long waits: what is
// short is a spin lock (ranked_lock.h). Neither call allocates, takes a lock or may be cancelled.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace kmem {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(sizeof(FutexWord) == sizeof(std::uint32_t) && FutexWord::is_always_lock_free);

// A moment of CLOCK_MONOTONIC.
class Deadline {
 public:
  static Deadline after_ms(unsigned ms) noexcept {
    constexpr long ns_per_s = 1'000'000'000;
    Deadline deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline.at_);
    deadline.at_.tv_sec += ms / 1000;
    deadline.at_.tv_nsec += static_cast<long>(ms % 1000) * 1'000'000;
    if (deadline.at_.tv_nsec >= ns_per_s) {
      ++deadline.at_.tv_sec;
      deadline.at_.tv_nsec -= ns_per_s;
    }
    return deadline;
  }
  bool passed() const noexcept {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > at_.tv_sec || (now.tv_sec == at_.tv_sec && now.tv_nsec >= at_.tv_nsec);
  }
  const timespec* get() const noexcept { return &at_; }

 private:
  timespec at_{};
};

// Sleeps while word is expected, until a wake or the deadline. May come back for no reason at all:
// the caller looks at the word, and at the deadline, again.
inline void futex_wait(const FutexWord& word, std::uint32_t expected,
                       const Deadline& deadline) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline.get(), nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

// The word is only a name: it may be gone already, when the sleeper saw it change by itself.
inline void futex_wake(const FutexWord* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace kmem
