// How to ask a design for a cache of the traced kernel, of which the trace tells the object size
// and the slot that SLUB gave it.
#pragma once

#include "bench/trace/program.h"
#include "common/slab/spec.h"

namespace kmem::bench::trace {

// The simplest request that makes SLUB's rules give the kernel's slot: as it is; cache-line
// aligned; with the free pointer outside the object (a constructor, or freed by RCU); both; a
// larger alignment; and if none does, a larger object. The other designs get the same request, and
// make of it what they would have made in a kernel.
CacheSpec spec_for(const TracedCache& cache) noexcept;

}  // namespace kmem::bench::trace
