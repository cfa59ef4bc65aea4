#include "backends/slob/slob.h"
#include "bench/subjects/world_subject.h"

namespace kmem::bench {

template <>
struct Shared<slob::Cache> {
  static SharedHeap heap() {
    const slob::Heap::Usage usage = slob::heap().usage();
    return {usage.block_pages * pages::page_bytes, usage.whole_pages * pages::page_bytes,
            usage.map_pages * pages::page_bytes, usage.free_bytes};
  }
  static PathCounts kmalloc_paths() { return slob::heap().kmalloc_counts(); }
};

namespace {

// One world whatever the policy: there is nothing per CPU that a policy could reach.
struct NoPolicy {
  static percpu::Running running() noexcept {
    return {"none", "none", "SLOB has no per-CPU state"};
  }
};

}  // namespace

std::unique_ptr<Subject> make_slob(const std::string&) {
  return std::make_unique<WorldSubject<slob::Cache, NoPolicy>>();
}

}  // namespace kmem::bench
