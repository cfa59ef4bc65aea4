// Bulk calls as plain loops over single calls: what a design falls back to, and what its own bulk
// path is measured against. Cache is anything with alloc(gfp) and free(object).
#pragma once

#include <cstddef>

#include "common/base/attributes.h"
#include "common/base/flags.h"

namespace kmem {

// Out of line on purpose, and one call an object: the kernel's generic forms pay for that too.
template <class Cache>
KMEM_SLOW void free_bulk_generic(Cache& cache, std::size_t n, void** objects) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (objects[i] != nullptr) cache.free_single(objects[i]);
  }
}

// All or nothing: what was got is freed when one allocation fails.
template <class Cache>
KMEM_SLOW bool alloc_bulk_generic(Cache& cache, gfp_t gfp, std::size_t n, void** objects) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    objects[i] = cache.alloc_single(gfp);
    if (objects[i] == nullptr) {
      free_bulk_generic(cache, i, objects);
      return false;
    }
  }
  return true;
}

}  // namespace kmem
