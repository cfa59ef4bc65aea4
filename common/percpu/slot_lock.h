// The lock in a slot's header, for the policies that have one. Not a SpinLock: it lies in memory
// that is zero by convention, and it must be refused, not waited for, in a signal handler that
// interrupts its holder.
#pragma once

#include <atomic>

#include "common/percpu/sequences.h"
#include "common/sync/ranked_lock.h"

namespace kmem::percpu {

// True while this thread holds a slot's lock, or is about to. Only a signal handler can find it
// set.
// constinit: no wrapper function stands between us and the variable.
[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] extern constinit thread_local bool in_slot;

void lock_slot_contended(std::atomic_ref<std::uint32_t> word) noexcept;

inline void lock_slot(SlotHeader& header) noexcept {
  note_acquire(LockRank::cpu);
  std::atomic_ref<std::uint32_t> word(header.lock);
  // Acquire: pairs with the release in unlock_slot(), so that we see the last holder's State.
  if (word.exchange(1, std::memory_order_acquire) != 0) [[unlikely]]
    lock_slot_contended(word);
}
inline void unlock_slot(SlotHeader& header) noexcept {
  // Release: pairs with the acquire in lock_slot().
  std::atomic_ref<std::uint32_t>(header.lock).store(0, std::memory_order_release);
  note_release(LockRank::cpu);
}

// Holds the current CPU's slot of a gate, or nothing: a drain is under way, or this is a signal
// handler over an operation. Where is RealCpu or VirtualCpu.
template <class Where>
class [[nodiscard]] SlotGuard {
 public:
  explicit SlotGuard(const auto& gate) noexcept {
    if (in_slot) return;
    in_slot = true;
    // A handler sees in_slot before the lock is taken, and until after it is given back.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const unsigned cpu = Where::cpu(gate.cpus());
    char* const slot = gate.current_slot(cpu);
    auto& header = *reinterpret_cast<SlotHeader*>(slot);
    if (header.live != 0) {  // the dummy cannot be written
      lock_slot(header);
      // Under the lock: close() changes the gate, then takes every lock once. Either it finds us
      // holding this one, or we see the new gate.
      if (gate.current_slot(cpu) == slot) {
        slot_ = slot;
        return;
      }
      unlock_slot(header);
    }
    leave();
  }
  ~SlotGuard() {
    if (slot_ == nullptr) return;
    unlock_slot(*reinterpret_cast<SlotHeader*>(slot_));
    leave();
  }
  SlotGuard(const SlotGuard&) = delete;
  SlotGuard& operator=(const SlotGuard&) = delete;

  explicit operator bool() const noexcept { return slot_ != nullptr; }
  template <auto F>
  typename decltype(F)::Type& field() const noexcept {
    return *reinterpret_cast<typename decltype(F)::Type*>(slot_ + F.offset);
  }
  SlotHeader& header() const noexcept { return *reinterpret_cast<SlotHeader*>(slot_); }

 private:
  static void leave() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    in_slot = false;
  }
  char* slot_ = nullptr;
};

}  // namespace kmem::percpu
