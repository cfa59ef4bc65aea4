#include "backends/slob/slob.h"
#include "tests/support/world_of.h"

namespace kmem::test {

static percpu::Running no_policy() noexcept {
  return {"none", "none", "SLOB has no per-CPU state"};
}
static const WorldOf<slob::Cache> world("none", &no_policy);
static const RegisterWorlds registered{&world};

}  // namespace kmem::test
