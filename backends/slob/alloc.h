// SLOB's single allocation: the sources of an object are in Heap::alloc().
#pragma once

#include "backends/slob/slob.h"

namespace kmem::slob {

// The constructor runs at each allocation, but for objects that were parked in constructed state:
// a reader under RCU may still look at them.
inline void* Cache::alloc_node(gfp_t gfp, int node) noexcept {
  void* object = nullptr;
  std::size_t constructed = 0;
  if (!heap().alloc(share_, gfp, node, 1, &object, constructed)) [[unlikely]]
    return nullptr;
  if (constructed == 0) construct(1, &object);
  return object;
}

inline void Cache::construct(std::size_t n, void** objects) noexcept {
  if (ctor_ == nullptr) return;
  for (std::size_t i = 0; i < n; ++i) ctor_(objects[i]);
}

}  // namespace kmem::slob
