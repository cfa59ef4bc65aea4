// What a drain and a fork need of every cache: a gate. Operations find a cache's slots through one
// pointer, and that pointer leads either to the real slots or to the dummy area, where every
// operation refuses. To close a gate is to point it at the dummy and to wait until no operation
// that saw the old value is alive. Proof sketch in README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/base/intrusive_list.h"
#include "common/percpu/area.h"
#include "common/sync/ranked_lock.h"

namespace kmem::percpu {

// One at a time over the process: who may close gates. Rank drain.
SpinLock& drain_lock() noexcept;

enum class Quiesce : std::uint8_t {
  membarrier,  // operations are restartable sequences: one system call restarts them all
  slot_locks,  // operations hold their slot's lock: taking each lock once waits for them
};

// The slots of one cache.
class Gate {
 public:
  Gate() noexcept = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Slots of bytes each for cpus CPUs, zeroed; closed until open(). False: no memory.
  bool create(std::size_t bytes, unsigned cpus, Quiesce how) noexcept;
  // No slots, and never to be opened: every operation refuses.
  bool create_closed(unsigned cpus) noexcept;
  void destroy() noexcept;

  // Under drain_lock(). After close() no operation reaches a real slot, until open().
  void close() noexcept;
  void open() noexcept;
  // Under drain_lock(). Slots of another size: reserve() finds room for them, false: no memory;
  // move(), between close() and open(), makes them the real ones, zeroed.
  bool reserve(std::size_t bytes) noexcept;
  void move() noexcept;

  // Acquire: pairs with the release in open(), so that what the drain did to a slot is seen. A
  // stale value is the case that close() waits for.
  char* current_slot(unsigned cpu) const noexcept {
    return unit_of(gate_.load(std::memory_order_acquire), cpu);
  }
  char* real_slot(unsigned cpu) const noexcept {
    return unit_of(base_.load(std::memory_order_relaxed), cpu);
  }
  unsigned cpus() const noexcept { return cpus_; }
  // For the sequences, which load it themselves.
  const std::atomic<char*>& word() const noexcept { return gate_; }

 private:
  friend void prepare_fork() noexcept;
  friend void after_fork() noexcept;

  // Slots that move() left behind: kept until destroy(), because an operation may have found its
  // slot there before close(), and lock it only now, to see that the gate has changed.
  struct Slots {
    Slots* next;
    Place place;
    std::size_t bytes;
  };

  static Gate& gate_of(ListNode* node) noexcept;
  void wait_for_slot_locks() noexcept;
  void forget_slot_locks() noexcept;

  std::atomic<char*> gate_{nullptr};
  std::atomic<char*> base_{nullptr};  // place_.base
  Place place_;
  std::size_t bytes_ = 0;
  Slots* reserved_ = nullptr;  // between reserve() and move()
  Slots* left_ = nullptr;
  unsigned cpus_ = 0;
  Quiesce how_ = Quiesce::slot_locks;
  ListNode all_;  // every created gate; under drain_lock()
};

}  // namespace kmem::percpu
