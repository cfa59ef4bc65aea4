#pragma once

#include "common/percpu/locked.h"

namespace kmem::percpu {

template <class State>
using RseqCpus = PlainFast<LockedSlots<State, RealCpu>>;

}  // namespace kmem::percpu
