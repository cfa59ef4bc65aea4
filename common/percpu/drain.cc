#include "common/percpu/drain.h"

#include <unistd.h>

#include <utility>

#include "common/base/assert.h"
#include "common/pages/pages.h"
#include "common/percpu/current_cpu.h"
#include "common/percpu/membarrier.h"
#include "common/percpu/slot_lock.h"

namespace kmem::percpu {
namespace {

constinit SpinLock process_drain_lock{LockRank::drain};
constinit pid_t forking_process = 0;

List& all_gates() noexcept {
  static List gates;
  return gates;
}

}  // namespace

SpinLock& drain_lock() noexcept { return process_drain_lock; }

bool Gate::create(std::size_t bytes, unsigned cpus, Quiesce how) noexcept {
  // Under the drain lock, so that a fork, which holds it, finds the area in order.
  Guard guard(drain_lock());
  place_ = area_alloc(bytes, cpus);
  if (place_.base == nullptr) return false;
  bytes_ = bytes;
  cpus_ = cpus;
  how_ = how;
  base_.store(place_.base, std::memory_order_relaxed);
  gate_.store(place_.dummy, std::memory_order_relaxed);
  all_gates().push_back(&all_);
  return true;
}

bool Gate::create_closed(unsigned cpus) noexcept {
  Guard guard(drain_lock());
  gate_.store(area_dummy(cpus), std::memory_order_relaxed);
  return gate_.load(std::memory_order_relaxed) != nullptr;
}

void Gate::destroy() noexcept {
  Guard guard(drain_lock());
  close();
  List::remove(&all_);
  area_free(place_, bytes_, cpus_);
  place_ = {};
  while (left_ != nullptr) {
    Slots* slots = left_;
    left_ = slots->next;
    area_free(slots->place, slots->bytes, cpus_);
    pages::metadata_free(slots, sizeof(Slots));
  }
}

bool Gate::reserve(std::size_t bytes) noexcept {
  auto* slots = static_cast<Slots*>(pages::metadata_alloc(sizeof(Slots)));
  if (slots == nullptr) return false;
  slots->place = area_alloc(bytes, cpus_);
  slots->bytes = bytes;
  if (slots->place.base == nullptr) {
    pages::metadata_free(slots, sizeof(Slots));
    return false;
  }
  reserved_ = slots;
  return true;
}

void Gate::move() noexcept {
  Slots* slots = reserved_;
  reserved_ = nullptr;
  std::swap(slots->place, place_);
  std::swap(slots->bytes, bytes_);
  slots->next = left_;
  left_ = slots;
  base_.store(place_.base, std::memory_order_relaxed);
}

void Gate::close() noexcept {
  // Relaxed: membarrier() or the slot locks order it before what follows.
  gate_.store(place_.dummy, std::memory_order_relaxed);
  if (how_ == Quiesce::membarrier) {
    restart_all_sequences();
  } else {
    wait_for_slot_locks();
  }
}

void Gate::open() noexcept {
  // Release: pairs with the acquire in is_open(). A sequence that loads the new gate depends on it
  // for the address of all that it reads, which orders it as well.
  gate_.store(place_.base, std::memory_order_release);
}

Gate& Gate::gate_of(ListNode* node) noexcept {
  return *reinterpret_cast<Gate*>(reinterpret_cast<char*>(node) - offsetof(Gate, all_));
}

void Gate::wait_for_slot_locks() noexcept {
  for (unsigned cpu = 0; cpu < cpus_; ++cpu) {
    auto& header = *reinterpret_cast<SlotHeader*>(real_slot(cpu));
    lock_slot(header);
    unlock_slot(header);
  }
}

// A thread that has a slot's lock now only looks at the gate, and finds it closed. In the child it
// is gone, and so must the lock be.
void Gate::forget_slot_locks() noexcept {
  for (unsigned cpu = 0; cpu < cpus_; ++cpu) {
    reinterpret_cast<SlotHeader*>(real_slot(cpu))->lock = 0;
  }
}

void prepare_fork() noexcept {
  drain_lock().lock();
  forking_process = getpid();
  bool sequences = false;
  for (ListNode* node = all_gates().front(); node != nullptr; node = all_gates().after(node)) {
    Gate& gate = Gate::gate_of(node);
    gate.gate_.store(gate.place_.dummy, std::memory_order_relaxed);  // as in close()
    sequences |= gate.how_ == Quiesce::membarrier;
    if (gate.how_ == Quiesce::slot_locks) gate.wait_for_slot_locks();
  }
  if (sequences) restart_all_sequences();
}

void after_fork() noexcept {
  const bool in_child = getpid() != forking_process;
  if (in_child && use_sequences) register_membarrier();
  for (ListNode* node = all_gates().front(); node != nullptr; node = all_gates().after(node)) {
    Gate& gate = Gate::gate_of(node);
    if (in_child && gate.how_ == Quiesce::slot_locks) gate.forget_slot_locks();
    gate.open();
  }
  drain_lock().unlock();
}

}  // namespace kmem::percpu
