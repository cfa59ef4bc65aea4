// The backend behind the C symbols of this library file: one of KMEM_BACKEND_SLAB, _SLUB, _SLOB,
// _SLQB is defined by the build (api/meson.build).
#pragma once

#include "api/kmem.h"
#include "common/percpu/policies.h"

#if defined(KMEM_BACKEND_SLAB)
#include "backends/slab/slab.h"
namespace kmem {
using Chosen = slab::Cache<percpu::Rseq>;
inline percpu::Running chosen_policy_running() noexcept { return percpu::Rseq::running(); }
}  // namespace kmem
#elif defined(KMEM_BACKEND_SLOB)
#include "backends/slob/slob.h"
namespace kmem {
using Chosen = slob::Cache;
inline percpu::Running chosen_policy_running() noexcept {
  return {"none", "none", "SLOB has no per-CPU state"};
}
}  // namespace kmem
#elif defined(KMEM_BACKEND_SLQB)
#include "backends/slqb/slqb.h"
namespace kmem {
using Chosen = slqb::Cache<percpu::Rseq>;
inline percpu::Running chosen_policy_running() noexcept { return percpu::Rseq::running(); }
}  // namespace kmem
#elif defined(KMEM_BACKEND_SLUB)
#include "backends/slub/slub.h"
namespace kmem {
using Chosen = slub::Cache<percpu::Rseq>;
inline percpu::Running chosen_policy_running() noexcept { return percpu::Rseq::running(); }
}  // namespace kmem
#else
#error "the build must say which backend"
#endif
