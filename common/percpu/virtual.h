// Virtual: the harness says which CPU each thread is on, of a machine with as many CPUs and nodes
// as it likes. For deterministic tests, and for replaying a trace of a machine larger than this
// one.
#pragma once

#include "common/percpu/locked.h"

namespace kmem::percpu {

[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] extern constinit thread_local unsigned virtual_cpu;

struct VirtualCpu {
  static unsigned cpus() noexcept;
  static unsigned cpu(unsigned cpus) noexcept { return virtual_cpu < cpus ? virtual_cpu : 0; }
  static int node_of(unsigned cpu) noexcept;
};

template <class State>
using VirtualCpus = PlainFast<LockedSlots<State, VirtualCpu>>;

}  // namespace kmem::percpu
