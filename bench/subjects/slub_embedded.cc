// SLUB with its first node beside the cache's hot fields: compiled for the node workload alone.
#include "backends/slub/alloc.h"
#include "backends/slub/bulk.h"
#include "backends/slub/drain.h"
#include "backends/slub/free.h"
#include "bench/subjects/world_subject.h"

namespace kmem::bench {

namespace {

template <class Policy>
class Embedded final : public WorldSubject<slub::Cache<slub::EmbeddedNode<Policy>>, Policy> {
 public:
  std::string name() const override { return "slub (embedded node)"; }
};

}  // namespace

std::unique_ptr<Subject> make_slub_with_embedded_node() {
  return std::make_unique<Embedded<percpu::Rseq>>();
}

}  // namespace kmem::bench
