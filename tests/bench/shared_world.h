// The stand-in over malloc, for loops that run on several threads: one lock around it.
#pragma once

#include <mutex>

#include "tests/bench/malloc_world.h"

namespace kmem::bench {

struct SharedWorld {
  using Cache = MallocWorld::Cache;
  static inline std::mutex mutex;
  static inline std::size_t allocs = 0, zeroed = 0, kmallocs = 0;

  static void reset() {
    MallocWorld::reset();
    allocs = zeroed = kmallocs = 0;
  }
  static Cache* create(const CacheSpec& spec) { return MallocWorld::create(spec); }
  static void destroy(Cache* cache) { MallocWorld::destroy(cache); }
  static void* alloc(Cache* cache, gfp_t gfp) {
    const std::lock_guard guard(mutex);
    ++allocs;
    if ((gfp & gfp::zero) != 0) ++zeroed;
    return MallocWorld::alloc(cache, gfp);
  }
  static void free(Cache* cache, void* object) {
    const std::lock_guard guard(mutex);
    MallocWorld::free(cache, object);
  }
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    const std::lock_guard guard(mutex);
    return MallocWorld::alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    const std::lock_guard guard(mutex);
    MallocWorld::free_bulk(cache, n, objects);
  }
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk_generic(Cache* cache, std::size_t n, void** objects) {
    free_bulk(cache, n, objects);
  }
  static void* kmalloc(std::size_t bytes, gfp_t gfp, int node) {
    const std::lock_guard guard(mutex);
    ++kmallocs;
    return MallocWorld::kmalloc(bytes, gfp, node);
  }
  static void kfree(void* object) {
    const std::lock_guard guard(mutex);
    MallocWorld::kfree(object);
  }
};

}  // namespace kmem::bench
