#include "backends/slub/slub.h"
#include "bench/subjects/world_subject.h"

namespace kmem::bench {

std::unique_ptr<Subject> make_slub(const std::string& policy) {
  using percpu::Atomic;
  if (policy == Atomic::name) return std::make_unique<WorldSubject<slub::Cache<Atomic>, Atomic>>();
  return make_under_policy<slub::Cache>(policy);
}

}  // namespace kmem::bench
