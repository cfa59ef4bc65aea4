// Atomic: an OwnedList's pop and push are one 16-byte compare-exchange on (head, transaction id),
// wherever the thread runs by then: no lock, no restart, and the price of a locked instruction.
// What SLUB's fast path looked like in 2007 with "cmpxchg everywhere". For measuring against Rseq;
// all shapes but OwnedList are Locked's.
//
// Every change adds one to the id, so a compare-exchange that succeeds proves that nothing happened
// since the id was read: the link that pop read, perhaps from an object that was handed out and
// overwritten meanwhile, was the link of the head of this list.
//
// The owner has no room in the pair. It is changed by cas() and detach() only, under the slot's
// lock:
//     atomic_owner = null;  compare-exchange (head, id) -> (new head, id + 1);  atomic_owner = new
// and push reads the id first, then the owner. If the owner it read is the old one, either its id
// is too, and one of the two compare-exchanges fails; or the id was read before, and its own fails.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "common/base/attributes.h"
#include "common/percpu/atomic_pair.h"
#include "common/percpu/locked.h"

namespace kmem::percpu {
namespace atomic_list {

// The object may be another thread's by now: the value counts only if the compare-exchange
// succeeds. Not instrumented, since sanitizers are right about it.
__attribute__((no_sanitize("thread"), no_sanitize("address"))) inline void* load_stale_link(
    void* object, std::size_t link) noexcept {
  return *reinterpret_cast<void* volatile*>(static_cast<char*>(object) + link);
}

inline void* next_id(void* id) noexcept {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(id) + 1);
}
inline std::atomic_ref<void*> owner_of(OwnedList& list) noexcept {
  return std::atomic_ref<void*>(list.atomic_owner);
}

KMEM_FAST void* pop(OwnedList& list, std::size_t link) noexcept {
  for (;;) {  // a failure is another's success
    const Pair seen = load_pair(&list);
    if (seen.first == nullptr) return nullptr;
    void* const next = load_stale_link(seen.first, link);
    if (compare_exchange_pair(&list, seen, {next, next_id(seen.second)})) return seen.first;
  }
}

KMEM_FAST Push push(OwnedList& list, void* first, void* last, void* owner,
                    std::size_t link) noexcept {
  for (;;) {  // as in pop()
    const Pair seen = load_pair(&list);
    if (seen.first == first) return Push::duplicate;
    // Acquire: pairs with the release in cas(), see above.
    if (owner_of(list).load(std::memory_order_acquire) != owner) return Push::refused;
    exclusive::store_link(last, link, seen.first);
    if (compare_exchange_pair(&list, seen, {first, next_id(seen.second)})) return Push::done;
  }
}

// Under the slot's lock, which keeps the owner as it is.
inline Pair read(OwnedList& list) noexcept {
  return {load_pair(&list).first, owner_of(list).load(std::memory_order_relaxed)};
}

// Under the slot's lock.
inline bool cas(OwnedList& list, Pair expected, Pair desired) noexcept {
  const Pair seen = load_pair(&list);
  if (read(list) != expected || seen.first != expected.first) return false;
  // The compare-exchange orders the first store before itself; release orders the second after it,
  // and pairs with the acquire in push().
  owner_of(list).store(nullptr, std::memory_order_relaxed);
  const bool done = compare_exchange_pair(&list, seen, {desired.first, next_id(seen.second)});
  owner_of(list).store(done ? desired.second : expected.second, std::memory_order_release);
  return done;
}

// In a drain: others may still be in pop() or push(), having found the slot before the gate closed.
inline Pair detach(OwnedList& list) noexcept {
  for (;;) {  // as in pop()
    const Pair pair = read(list);
    if (cas(list, pair, {nullptr, nullptr})) return pair;
  }
}

}  // namespace atomic_list

template <class State>
class AtomicSlots : public LockedSlots<State, RealCpu> {
  using Base = LockedSlots<State, RealCpu>;
  template <auto F>
  static constexpr bool owned = std::same_as<typename decltype(F)::Type, OwnedList>;

 public:
  using Base::pop;
  using Base::push;
  using Base::take;

  template <auto F>
  void* pop(std::size_t link) noexcept {
    if constexpr (owned<F>) return atomic_list::pop(list<F>(), link);
    if constexpr (!owned<F>) return Base::template pop<F>(link);
  }
  template <auto F>
  Push push(void* first, void* last, void* owner, std::size_t link) noexcept {
    return atomic_list::push(list<F>(), first, last, owner, link);
  }
  // One by one: only the head's link may be followed while others can pop.
  template <auto F>
  std::size_t take(void** out, std::size_t n, std::size_t link) noexcept {
    if constexpr (owned<F>) {
      OwnedList& from = list<F>();
      std::size_t k = 0;
      while (k < n && (out[k] = atomic_list::pop(from, link)) != nullptr) ++k;
      return k;
    } else {
      return Base::template take<F>(out, n, link);
    }
  }
  template <auto F>
  Pair read() noexcept {
    if constexpr (!owned<F>) {
      return Base::template read<F>();
    } else {
      typename Base::Slot slot(Base::gate_);
      return slot ? atomic_list::read(slot.template field<F>()) : Pair{nullptr, nullptr};
    }
  }
  template <auto F>
  bool cas(Pair expected, Pair desired) noexcept {
    if constexpr (!owned<F>) {
      return Base::template cas<F>(expected, desired);
    } else {
      typename Base::Slot slot(Base::gate_);
      return slot && atomic_list::cas(slot.template field<F>(), expected, desired);
    }
  }
  template <auto F>
  static Pair detach(State& state) noexcept {
    if constexpr (owned<F>) {
      return atomic_list::detach(field_of<F>(state));
    } else {
      return Base::template detach<F>(state);
    }
  }
  template <auto F>
  Pair peek_pair(unsigned cpu) const noexcept {
    if constexpr (owned<F>) {
      return atomic_list::read(field_of<F>(Base::state(cpu)));
    } else {
      return Base::template peek_pair<F>(cpu);
    }
  }

 private:
  // The current CPU's, or the dummy's: empty and unowned, so nothing is written there.
  template <auto F>
  OwnedList& list() noexcept {
    return *reinterpret_cast<OwnedList*>(Base::gate_.current_slot(Base::cpu()) + F.offset);
  }
};

template <class State>
using AtomicCpus = PlainFast<AtomicSlots<State>>;

}  // namespace kmem::percpu
