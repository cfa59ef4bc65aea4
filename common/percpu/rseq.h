// Rseq: every operation is a restartable sequence: no lock and no atomic instruction. Where the
// system has none (percpu.cc says why), the plain operations are Locked's, and the fast ones find
// the dummy for ever, and refuse: the fast path is the same code in both cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/percpu/locked.h"

#if defined(KMEM_RSEQ_BUILT)
#include "common/percpu/rseq_array_x86_64.h"
#include "common/percpu/rseq_x86_64.h"
#endif

namespace kmem::percpu {

#if defined(KMEM_RSEQ_BUILT)

template <class State>
class RseqCpus {
 public:
  template <class Init>
  bool create(Init&& init, std::size_t bytes = sizeof(State)) noexcept {
    if (!start()) return false;
    if (!use_sequences) return create_fallback(init, bytes);
    if (!gate_.create(bytes, RealCpu::cpus(), Quiesce::membarrier)) return false;
    init_slots<State, RealCpu>(gate_, init);
    gate_.open();
    return true;
  }
  void destroy() noexcept {
    if (!use_sequences) fallback_.destroy();
    if (use_sequences) gate_.destroy();
  }

  template <class Visit>
  void drain(Visit&& visit) noexcept {
    if (!use_sequences) return fallback_.drain(visit);
    drain_gate<State>(gate_, visit);
  }
  template <class Visit, class Init>
  bool resize(Visit&& visit, Init&& init, std::size_t bytes) noexcept {
    if (!use_sequences) return fallback_.resize(visit, init, bytes);
    return resize_gate<State, RealCpu>(gate_, visit, init, bytes);
  }
  template <auto F>
  static Pair detach(State& state) noexcept {
    return exclusive::detach(field_of<F>(state));
  }

  const State& peek(unsigned cpu) const noexcept {
    if (!use_sequences) return fallback_.peek(cpu);
    return *reinterpret_cast<State*>(gate_.real_slot(cpu));
  }
  template <auto F>
  Pair peek_pair(unsigned cpu) const noexcept {
    return exclusive::read(field_of<F>(peek(cpu)));
  }
  unsigned count() const noexcept { return use_sequences ? gate_.cpus() : fallback_.count(); }
  unsigned cpu() const noexcept { return RealCpu::cpu(count()); }
  int node() const noexcept { return RealCpu::node_of(cpu()); }

  // The bare sequences.
  template <auto F>
  KMEM_FAST void* fast_pop(std::size_t link) noexcept {
    if constexpr (owned<F>) return rseq::pop_owned<F.offset>(gate_.word(), link);
    if constexpr (!owned<F>) return rseq::pop_counted<F.offset>(gate_.word(), link);
  }
  template <auto F>
  KMEM_FAST Push fast_push(void* first, void* last, void* owner, std::size_t link) noexcept {
    return rseq::push_owned<F.offset>(gate_.word(), first, last, owner, link);
  }
  template <auto F>
  KMEM_FAST Push fast_push(void* first, void* last, std::uint64_t n, std::uint64_t node,
                           std::size_t link) noexcept {
    return rseq::push_counted<F.offset>(gate_.word(), first, last, n, node, link);
  }
  template <auto F>
  std::size_t fast_take(void** out, std::size_t n, std::size_t link) noexcept {
    if constexpr (owned<F>) return rseq::take_owned<F.offset>(gate_.word(), out, n, link);
    if constexpr (!owned<F>) return rseq::take_counted<F.offset>(gate_.word(), out, n, link);
  }
  template <auto F>
  KMEM_FAST void* fast_pop() noexcept {
    return rseq::pop_array<F.offset>(gate_.word());
  }
  template <auto F>
  KMEM_FAST Push fast_push(void* object, std::uint64_t node) noexcept {
    return rseq::push_array<F.offset>(gate_.word(), object, node);
  }
  template <auto F>
  std::size_t fast_take(void** out, std::size_t n) noexcept {
    return rseq::take_array<F.offset>(gate_.word(), out, n);
  }
  template <auto F>
  std::size_t fast_put(void* const* in, std::size_t n, std::uint64_t node) noexcept {
    return rseq::put_array<F.offset>(gate_.word(), in, n, node);
  }

  // The plain operations, which never refuse for want of sequences.
  template <auto F, class... Args>
  void* pop(Args... args) noexcept {
    return use_sequences ? fast_pop<F>(args...) : fallback_.template pop<F>(args...);
  }
  template <auto F, class... Args>
  Push push(Args... args) noexcept {
    return use_sequences ? fast_push<F>(args...) : fallback_.template push<F>(args...);
  }
  template <auto F, class... Args>
  std::size_t take(void** out, std::size_t n, Args... args) noexcept {
    return use_sequences ? fast_take<F>(out, n, args...)
                         : fallback_.template take<F>(out, n, args...);
  }
  template <auto F>
  std::size_t put(void* const* in, std::size_t n, std::uint64_t node) noexcept {
    return use_sequences ? fast_put<F>(in, n, node) : fallback_.template put<F>(in, n, node);
  }
  template <auto F>
  std::size_t take_oldest(void** out, std::size_t n) noexcept {
    return use_sequences ? rseq::take_oldest_array<F.offset>(gate_.word(), out, n)
                         : fallback_.template take_oldest<F>(out, n);
  }
  template <auto F>
  bool make_room() noexcept {
    return use_sequences ? rseq::make_room_array<F.offset>(gate_.word())
                         : fallback_.template make_room<F>();
  }
  template <auto F>
  Pair read() noexcept {
    if (!use_sequences) return fallback_.template read<F>();
    if constexpr (owned<F>) return rseq::read_pair<F.offset>(gate_.word());
    if constexpr (!owned<F>) return exclusive::pair_of(rseq::read_counted<F.offset>(gate_.word()));
  }
  template <auto F>
  bool cas(Pair expected, Pair desired) noexcept {
    if (!use_sequences) return fallback_.template cas<F>(expected, desired);
    if constexpr (owned<F>) return rseq::cas_pair<F.offset>(gate_.word(), expected, desired);
    if constexpr (!owned<F>)
      return rseq::cas_counted<F.offset>(gate_.word(), exclusive::counted(expected),
                                         exclusive::counted(desired));
  }

 private:
  template <auto F>
  static constexpr bool owned = std::is_same_v<typename decltype(F)::Type, OwnedList>;

  template <class Init>
  bool create_fallback(Init& init, std::size_t bytes) noexcept {
    return gate_.create_closed(RealCpu::cpus()) && fallback_.create(init, bytes);
  }

  Gate gate_;  // first: its first word is all that a fast path loads of this
  LockedSlots<State, RealCpu> fallback_;
};

#else

template <class State>
using RseqCpus = LockedCpus<State>;

#endif

}  // namespace kmem::percpu
