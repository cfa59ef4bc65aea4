// The policies, by name: how a backend reaches its per-CPU state. A backend is a template over one,
// Cache<Policy>, and keeps a typename Policy::template Cpus<State> cpus_ (sequences.h says what
// that can do).
#pragma once

#include <concepts>
#include <cstdint>

#include "common/percpu/atomic.h"
#include "common/percpu/locked.h"
#include "common/percpu/rseq.h"
#include "common/percpu/virtual.h"

namespace kmem::percpu {

// Restartable sequences; Locked where the system has none.
struct Rseq {
  static constexpr const char* name = "rseq";
  static constexpr std::uint8_t id = 1;
  static constexpr bool counts_fast_paths = false;
  template <class State>
  using Cpus = RseqCpus<State>;
  static Running running() noexcept;
};

struct Locked {
  static constexpr const char* name = "locked";
  static constexpr std::uint8_t id = 2;
  static constexpr bool counts_fast_paths = false;
  template <class State>
  using Cpus = LockedCpus<State>;
  static Running running() noexcept;
};

struct Virtual {
  static constexpr const char* name = "virtual";
  static constexpr std::uint8_t id = 3;
  static constexpr bool counts_fast_paths = true;
  template <class State>
  using Cpus = VirtualCpus<State>;
  static Running running() noexcept;
};

// For SLUB: OwnedList's single operations by 16-byte compare-exchange, without locks.
struct Atomic {
  static constexpr const char* name = "atomic";
  static constexpr std::uint8_t id = 4;
  static constexpr bool counts_fast_paths = false;
  template <class State>
  using Cpus = AtomicCpus<State>;
  static Running running() noexcept;
};

template <class P>
concept CpuPolicy = requires {
  { P::name } -> std::convertible_to<const char*>;
  { P::id } -> std::convertible_to<std::uint8_t>;
  { P::counts_fast_paths } -> std::convertible_to<bool>;
  { P::running() }
  noexcept->std::same_as<Running>;
};
static_assert(CpuPolicy<Rseq> && CpuPolicy<Locked> && CpuPolicy<Virtual> && CpuPolicy<Atomic>);

}  // namespace kmem::percpu
