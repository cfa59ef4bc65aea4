// Every design fills the concept, under every policy that it has.
#include "api/slab_backend.h"
#include "backends/slab/slab.h"
#include "backends/slob/slob.h"
#include "backends/slqb/slqb.h"
#include "backends/slub/slub.h"

namespace kmem {

template <template <class> class Cache, class... Policies>
constexpr bool fills_concept = (SlabBackend<Cache<Policies>> && ...);

using percpu::Locked, percpu::Rseq, percpu::Virtual, percpu::Atomic;
static_assert(fills_concept<slab::Cache, Rseq, Locked, Virtual>);
static_assert(fills_concept<slub::Cache, Rseq, Locked, Virtual, Atomic>);
static_assert(fills_concept<slqb::Cache, Rseq, Locked, Virtual>);
static_assert(SlabBackend<slob::Cache>);

}  // namespace kmem
