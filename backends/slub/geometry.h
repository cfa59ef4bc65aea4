// What SLUB chooses for a cache: pure functions of what is asked and of how many CPUs there are.
// The rules are those of Linux 6.12; tests/backends/slub/geometry_test.cc holds them against what a
// real kernel chose.
#pragma once

#include "common/slab/spec.h"

namespace kmem::slub {

inline constexpr unsigned max_preferred_order = 3;  // PAGE_ALLOC_COSTLY_ORDER
inline constexpr unsigned max_objects = 32767;      // what 15 bits of a slab's counters can hold

// objects == 0: no slab can hold the object.
Geometry geometry(const CacheSpec& spec, unsigned cpus) noexcept;

}  // namespace kmem::slub
