// SLOB's bulk calls: the lock is taken once, objects are carved from each page in one pass, and
// neighbours in the caller's array that are neighbours in memory go back as one block.
#pragma once

#include "backends/slob/slob.h"

namespace kmem::slob {

inline bool Cache::alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept {
  std::size_t constructed = 0;
  if (n == 0) return true;
  if (!heap().alloc(share_, gfp, no_node, n, objects, constructed)) [[unlikely]]
    return false;
  construct(n - constructed, objects + constructed);
  return true;
}

inline void Cache::free_bulk(std::size_t n, void** objects) noexcept {
  if (n == 0) return;
  const std::size_t rejected = heap().free(share_, n, objects);
  for (std::size_t i = 0; i < rejected; ++i) report_double_free(objects[i]);
}

}  // namespace kmem::slob
