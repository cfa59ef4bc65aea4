#include "backends/slqb/slqb.h"
#include "bench/subjects/world_subject.h"

namespace kmem::bench {

std::unique_ptr<Subject> make_slqb(const std::string& policy) {
  return make_under_policy<slqb::Cache>(policy);
}

}  // namespace kmem::bench
