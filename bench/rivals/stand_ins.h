// What stands in for calls that a rival does not have.
#pragma once

#include <cstring>

#include "bench/world.h"

namespace kmem::bench {

// Bulk calls of a world W without any: loops of its single calls.
template <class W>
struct LoopForBulk {
  template <class Cache>
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return alloc_bulk_generic(cache, gfp, n, objects);
  }
  template <class Cache>
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    free_bulk_generic(cache, n, objects);
  }
  template <class Cache>
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    for (std::size_t i = 0; i < n; ++i) {
      objects[i] = W::alloc(cache, gfp);
      if (objects[i] != nullptr) [[likely]]
        continue;
      free_bulk_generic(cache, i, objects);
      return false;
    }
    return true;
  }
  template <class Cache>
  static void free_bulk_generic(Cache* cache, std::size_t n, void** objects) {
    for (std::size_t i = 0; i < n; ++i) W::free(cache, objects[i]);
  }
};

// An object of an allocator that does not clear, as gfp asks for it.
inline void* cleared(void* object, std::size_t bytes, gfp_t gfp) {
  if ((gfp & gfp::zero) != 0 && object != nullptr) std::memset(object, 0, bytes);
  return object;
}

}  // namespace kmem::bench
