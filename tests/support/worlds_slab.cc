#include "backends/slab/slab.h"
#include "tests/support/world_of.h"

namespace kmem::test {

static const RegisterWorlds registered{world_under<slab::Cache, percpu::Rseq>(),
                                       world_under<slab::Cache, percpu::Locked>(),
                                       world_under<slab::Cache, percpu::Virtual>()};

}  // namespace kmem::test
