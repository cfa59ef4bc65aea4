// The library's worlds in the shape that the loops want.
#pragma once

#include <string>
#include <vector>

#include "api/kmem.h"
#include "bench/replay_world.h"

namespace kmem::bench {

// What a design keeps outside its caches: nothing, unless subjects/BACKEND.cc says otherwise.
template <class B>
struct Shared {
  static SharedHeap heap() { return {}; }
  static PathCounts kmalloc_paths() { return {}; }
};

template <SlabBackend B>
struct KmemWorld {
  using Library = Kmem<B>;
  using Cache = typename Library::Cache;

  static Cache* create(const CacheSpec& spec) {
    return Library::create(spec, {.has_user_region = false, .no_merge = true});
  }
  static void destroy(Cache* cache) { Library::destroy(cache); }
  KMEM_FAST static void* alloc(Cache* cache, gfp_t gfp) { return cache->alloc(gfp); }
  static void* alloc_node(Cache* cache, gfp_t gfp, int node) {
    return cache->alloc_node(gfp, node);
  }
  KMEM_FAST static void free(Cache* cache, void* object) { cache->free(object); }
  KMEM_FAST static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return cache->alloc_bulk(gfp, n, objects);
  }
  KMEM_FAST static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    cache->free_bulk(n, objects);
  }
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return cache->alloc_bulk_generic(gfp, n, objects);
  }
  static void free_bulk_generic(Cache* cache, std::size_t n, void** objects) {
    cache->free_bulk_generic(n, objects);
  }
  KMEM_FAST static void* kmalloc(std::size_t bytes, gfp_t gfp, int node) {
    return node == no_node ? Library::kmalloc(bytes, gfp) : Library::kmalloc_node(bytes, gfp, node);
  }
  KMEM_FAST static void kfree(void* object) { Library::kfree(object); }

  static void shrink_all() {
    Library::registry().for_each([](Cache& cache) { cache.shrink(); });
  }
  static std::size_t page_bytes() { return pages::usage().allocated_bytes; }
  static PathCounts paths() {
    PathCounts sum{};
    Library::registry().for_each([&](Cache& cache) { sum += cache.backend().path_counts(); });
    return sum += Shared<B>::kmalloc_paths();
  }
  static std::vector<CacheSnapshot> snapshot() {
    std::vector<CacheSnapshot> caches;
    Library::registry().for_each([&](Cache& cache) {
      caches.push_back({cache.name(), cache.backend().geometry(), cache.backend().usage(),
                        cache.backend().path_counts()});
    });
    return caches;
  }
  static SharedHeap heap() { return Shared<B>::heap(); }
  static int slabinfo(int fd) { return Library::slabinfo(fd); }
};

}  // namespace kmem::bench
