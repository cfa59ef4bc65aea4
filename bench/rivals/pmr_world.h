// The pool resources of the C++ library in the shape that the loops want, one a cache.
#pragma once

#include <algorithm>
#include <memory_resource>
#include <new>
#include <type_traits>

#include "bench/rivals/stand_ins.h"
#include "bench/world.h"

namespace kmem::bench {

template <class Resource>
struct PmrWorld : LoopForBulk<PmrWorld<Resource>> {
  struct Cache {
    std::size_t bytes, align;
    Resource resource;
  };
  static constexpr bool one_thread =
      std::is_same_v<Resource, std::pmr::unsynchronized_pool_resource>;
  // It looks through all threads' pools for the object's under one lock: 100 microseconds seen.
  static constexpr bool slow_hand_over = !one_thread;

  static Cache* create(const CacheSpec& spec) {
    // A larger block than it is told of would not be pooled (nor is one above the library's limit).
    return new Cache{spec.object_bytes, std::max(spec.align, alignof(void*)),
                     Resource(std::pmr::pool_options{0, spec.object_bytes})};
  }
  static void destroy(Cache* cache) { delete cache; }
  static void* alloc(Cache* cache, gfp_t gfp) {
    try {
      return cleared(cache->resource.allocate(cache->bytes, cache->align), cache->bytes, gfp);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  static void free(Cache* cache, void* object) {
    cache->resource.deallocate(object, cache->bytes, cache->align);
  }
};

}  // namespace kmem::bench
