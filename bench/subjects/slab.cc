#include "backends/slab/slab.h"
#include "bench/subjects/world_subject.h"

namespace kmem::bench {

std::unique_ptr<Subject> make_slab(const std::string& policy) {
  return make_under_policy<slab::Cache>(policy);
}

}  // namespace kmem::bench
