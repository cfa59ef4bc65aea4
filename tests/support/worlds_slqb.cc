#include "backends/slqb/slqb.h"
#include "tests/support/world_of.h"

namespace kmem::test {

static const RegisterWorlds registered{world_under<slqb::Cache, percpu::Rseq>(),
                                       world_under<slqb::Cache, percpu::Locked>(),
                                       world_under<slqb::Cache, percpu::Virtual>()};

}  // namespace kmem::test
