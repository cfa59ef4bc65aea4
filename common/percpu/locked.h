// Locked: every operation holds a lock in the current CPU's slot. The "interrupts off" of the old
// kernels, at the price of an atomic exchange, and what serves where restartable sequences cannot.
// A thread that is migrated between finding its CPU and taking the lock works on the other CPU's
// slot, correctly.
#pragma once

#include <cstddef>
#include <utility>

#include "common/nodes/topology.h"
#include "common/percpu/current_cpu.h"
#include "common/percpu/drain.h"
#include "common/percpu/exclusive.h"
#include "common/percpu/slot_lock.h"

namespace kmem::percpu {

// The field of a State, which peek() gives as const.
template <auto F, class State>
typename decltype(F)::Type& field_of(const State& state) noexcept {
  auto* const base = const_cast<char*>(reinterpret_cast<const char*>(&state));
  return *reinterpret_cast<typename decltype(F)::Type*>(base + F.offset);
}

struct RealCpu {
  static unsigned cpus() noexcept { return nodes::cpu_ids(); }
  static unsigned cpu(unsigned cpus) noexcept {
    const unsigned id = current_cpu();
    return id < cpus ? id : 0;
  }
  static int node_of(unsigned cpu) noexcept { return nodes::of_cpu(cpu); }
};

// The slots of a closed gate become a cache's.
template <class State, class Where>
void init_slots(const Gate& gate, auto& init) noexcept {
  for (unsigned cpu = 0; cpu < gate.cpus(); ++cpu) {
    reinterpret_cast<SlotHeader*>(gate.real_slot(cpu))->live = 1;
    init(*reinterpret_cast<State*>(gate.real_slot(cpu)), cpu, Where::node_of(cpu));
  }
}

// visit(State&, cpu) for each slot while no operation can reach any.
template <class State>
void drain_gate(Gate& gate, auto& visit) noexcept {
  Guard guard(drain_lock());
  gate.close();
  for (unsigned cpu = 0; cpu < gate.cpus(); ++cpu) {
    visit(*reinterpret_cast<State*>(gate.real_slot(cpu)), cpu);
  }
  gate.open();
}

// Slots of another size: visit(State&, cpu) for each old one, init as in create() for each new one.
template <class State, class Where>
bool resize_gate(Gate& gate, auto& visit, auto& init, std::size_t bytes) noexcept {
  Guard guard(drain_lock());
  if (!gate.reserve(bytes)) return false;
  gate.close();
  for (unsigned cpu = 0; cpu < gate.cpus(); ++cpu) {
    visit(*reinterpret_cast<State*>(gate.real_slot(cpu)), cpu);
  }
  gate.move();
  init_slots<State, Where>(gate, init);
  gate.open();
  return true;
}

// Where says how many CPUs there are and which is the current one: RealCpu or VirtualCpu.
template <class State, class Where>
class LockedSlots {
 public:
  // init(State&, cpu, node) for every CPU id. bytes may exceed sizeof(State): entries follow it.
  template <class Init>
  bool create(Init&& init, std::size_t bytes = sizeof(State)) noexcept {
    if (!start() || !gate_.create(bytes, Where::cpus(), Quiesce::slot_locks)) return false;
    init_slots<State, Where>(gate_, init);
    gate_.open();
    return true;
  }
  void destroy() noexcept { gate_.destroy(); }

  template <class Visit>
  void drain(Visit&& visit) noexcept {
    drain_gate<State>(gate_, visit);
  }
  template <class Visit, class Init>
  bool resize(Visit&& visit, Init&& init, std::size_t bytes) noexcept {
    return resize_gate<State, Where>(gate_, visit, init, bytes);
  }

  template <auto F>
  static Pair detach(State& state) noexcept {
    return exclusive::detach(field_of<F>(state));
  }

  const State& peek(unsigned cpu) const noexcept { return state(cpu); }
  template <auto F>
  Pair peek_pair(unsigned cpu) const noexcept {
    return exclusive::read(field_of<F>(state(cpu)));
  }
  unsigned count() const noexcept { return gate_.cpus(); }
  unsigned cpu() const noexcept { return Where::cpu(gate_.cpus()); }
  int node() const noexcept { return Where::node_of(cpu()); }

  template <auto F>
  void* pop(std::size_t link) noexcept {
    Slot slot(gate_);
    return slot ? exclusive::pop(slot.template field<F>(), link) : nullptr;
  }
  template <auto F>
  Push push(void* first, void* last, void* owner, std::size_t link) noexcept {
    Slot slot(gate_);
    if (!slot) return Push::refused;
    return exclusive::push(slot.template field<F>(), first, last, owner, link);
  }
  template <auto F>
  Push push(void* first, void* last, std::uint64_t n, std::uint64_t node,
            std::size_t link) noexcept {
    Slot slot(gate_);
    if (!slot) return Push::refused;
    return exclusive::push(slot.template field<F>(), first, last, n, node, link);
  }
  template <auto F>
  std::size_t take(void** out, std::size_t n, std::size_t link) noexcept {
    Slot slot(gate_);
    return slot ? exclusive::take(slot.template field<F>(), out, n, link) : 0;
  }
  template <auto F>
  Pair read() noexcept {
    Slot slot(gate_);
    return slot ? exclusive::read(slot.template field<F>()) : Pair{nullptr, nullptr};
  }
  template <auto F>
  bool cas(Pair expected, Pair desired) noexcept {
    Slot slot(gate_);
    return slot && exclusive::cas(slot.template field<F>(), expected, desired);
  }

  template <auto F>
  void* pop() noexcept {
    Slot slot(gate_);
    return slot ? exclusive::pop(slot.template field<F>()) : nullptr;
  }
  template <auto F>
  Push push(void* object, std::uint64_t node) noexcept {
    Slot slot(gate_);
    return slot ? exclusive::push(slot.template field<F>(), object, node) : Push::refused;
  }
  template <auto F>
  std::size_t take(void** out, std::size_t n) noexcept {
    Slot slot(gate_);
    return slot ? exclusive::take(slot.template field<F>(), out, n) : 0;
  }
  template <auto F>
  std::size_t put(void* const* in, std::size_t n, std::uint64_t node) noexcept {
    Slot slot(gate_);
    return slot ? exclusive::put(slot.template field<F>(), in, n, node) : 0;
  }
  template <auto F>
  std::size_t take_oldest(void** out, std::size_t n) noexcept {
    Slot slot(gate_);
    return slot ? exclusive::take_oldest(slot.template field<F>(), out, n) : 0;
  }
  template <auto F>
  bool make_room() noexcept {
    Slot slot(gate_);
    return slot && exclusive::make_room(slot.template field<F>());
  }

 protected:
  using Slot = SlotGuard<Where>;

  State& state(unsigned cpu) const noexcept {
    return *reinterpret_cast<State*>(gate_.real_slot(cpu));
  }

  Gate gate_;
};

// The fast_ names: nothing is faster here than the plain operation.
template <class Slots>
class PlainFast : public Slots {
 public:
  template <auto F, class... Args>
  void* fast_pop(Args... args) noexcept {
    return Slots::template pop<F>(args...);
  }
  template <auto F, class... Args>
  Push fast_push(Args... args) noexcept {
    return Slots::template push<F>(args...);
  }
  template <auto F, class... Args>
  std::size_t fast_take(Args... args) noexcept {
    return Slots::template take<F>(args...);
  }
  template <auto F>
  std::size_t fast_put(void* const* in, std::size_t n, std::uint64_t node) noexcept {
    return Slots::template put<F>(in, n, node);
  }
};

template <class State>
using LockedCpus = PlainFast<LockedSlots<State, RealCpu>>;

}  // namespace kmem::percpu
