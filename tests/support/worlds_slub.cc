#include "backends/slub/slub.h"
#include "tests/support/world_of.h"

namespace kmem::test {

static const RegisterWorlds registered{
    world_under<slub::Cache, percpu::Rseq>(), world_under<slub::Cache, percpu::Locked>(),
    world_under<slub::Cache, percpu::Virtual>(), world_under<slub::Cache, percpu::Atomic>()};

}  // namespace kmem::test
