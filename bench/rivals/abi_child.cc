// kmem-bench-abi-BACKEND: the loops of kmem-bench over <kmem/slab.h>, as a program that is linked
// with one of the shared libraries. Started by kmem-bench --abi alone.
#include <kmem/slab.h>

#include "bench/rivals/child_main.h"

namespace {

struct AbiWorld {
  using Cache = kmem_cache;
  using CacheSpec = kmem::CacheSpec;

  static Cache* create(const CacheSpec& spec) {
    kmem_cache_args args{};
    args.align = static_cast<unsigned>(spec.align);
    args.ctor = spec.ctor;
    return __kmem_cache_create_args(spec.name, spec.object_bytes, &args,
                                    spec.flags | SLAB_NO_MERGE);
  }
  static void destroy(Cache* cache) { kmem_cache_destroy(cache); }
  static void* alloc(Cache* cache, gfp_t gfp) { return kmem_cache_alloc(cache, gfp); }
  static void free(Cache* cache, void* object) { kmem_cache_free(cache, object); }
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return kmem_cache_alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    kmem_cache_free_bulk(cache, n, objects);
  }
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return __kmem_cache_alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk_generic(Cache* cache, std::size_t n, void** objects) {
    __kmem_cache_free_bulk(cache, n, objects);
  }
  static void* kmalloc(std::size_t bytes, gfp_t gfp, int node) {
    return node == NUMA_NO_NODE ? ::kmalloc(bytes, gfp) : ::kmalloc_node(bytes, gfp, node);
  }
  static void kfree(void* object) { ::kfree(object); }
};

}  // namespace

int main() {
  return kmem::bench::wire::child_main<AbiWorld>("kmem-bench-abi", "--abi", [] {
    return std::string(kmem_backend_name()) + " " + kmem_percpu_policy(nullptr);
  });
}
