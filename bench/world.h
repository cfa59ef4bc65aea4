// What the measured loops need of an allocator, as static functions that inline. The library's
// worlds are in kmem_world.h, malloc's in rivals/; a test gives a stand-in the same shape.
#pragma once

#include <concepts>
#include <cstddef>

#include "common/slab/spec.h"

namespace kmem::bench {

// Formatted by hand: clang-format 14 breaks compound requirements.
// clang-format off

// Objects of one size from a cache.
template <class W>
concept ObjectWorld = requires(typename W::Cache* cache, const CacheSpec& spec, gfp_t gfp, void* p,
                               void** objects, std::size_t n) {
  { W::create(spec) } -> std::same_as<typename W::Cache*>;                // nullptr: refused
  { W::destroy(cache) } -> std::same_as<void>;                            // no object is live
  { W::alloc(cache, gfp) } -> std::same_as<void*>;
  { W::free(cache, p) } -> std::same_as<void>;
  { W::alloc_bulk(cache, gfp, n, objects) } -> std::same_as<bool>;
  { W::free_bulk(cache, n, objects) } -> std::same_as<void>;
  { W::alloc_bulk_generic(cache, gfp, n, objects) } -> std::same_as<bool>;
  { W::free_bulk_generic(cache, n, objects) } -> std::same_as<void>;
};

// Beside them, memory of any size.
template <class W>
concept KmallocWorld = ObjectWorld<W> && requires(gfp_t gfp, int node, void* p, std::size_t n) {
  { W::kmalloc(n, gfp, node) } -> std::same_as<void*>;
  { W::kfree(p) } -> std::same_as<void>;
};
// clang-format on

}  // namespace kmem::bench
