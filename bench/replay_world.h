// What a replay needs of a world beside its objects: nodes, and a look at its memory.
#pragma once

#include <string>
#include <vector>

#include "bench/subjects.h"
#include "bench/world.h"

namespace kmem::bench {

// Formatted by hand: clang-format 14 breaks compound requirements.
// clang-format off
template <class W>
concept ReplayWorld = KmallocWorld<W> && requires(typename W::Cache* cache, gfp_t gfp, int node,
                                                  int fd) {
  { W::alloc_node(cache, gfp, node) } -> std::same_as<void*>;
  { W::shrink_all() } -> std::same_as<void>;
  { W::page_bytes() } -> std::same_as<std::size_t>;  // in slabs and large blocks
  { W::paths() } -> std::same_as<PathCounts>;                             // since the start
  { W::snapshot() } -> std::same_as<std::vector<CacheSnapshot>>;
  { W::heap() } -> std::same_as<SharedHeap>;
  { W::slabinfo(fd) } -> std::same_as<int>;
};
// clang-format on

inline PathCounts& operator+=(PathCounts& sum, const PathCounts& other) noexcept {
  sum.alloc_fast += other.alloc_fast;
  sum.alloc_slow += other.alloc_slow;
  sum.free_fast += other.free_fast;
  sum.free_slow += other.free_slow;
  sum.locks += other.locks;
  sum.remote_frees += other.remote_frees;
  sum.slabs_created += other.slabs_created;
  sum.slabs_freed += other.slabs_freed;
  return sum;
}

inline PathCounts operator-(const PathCounts& a, const PathCounts& b) noexcept {
  return {a.alloc_fast - b.alloc_fast,
          a.alloc_slow - b.alloc_slow,
          a.free_fast - b.free_fast,
          a.free_slow - b.free_slow,
          a.locks - b.locks,
          a.remote_frees - b.remote_frees,
          a.slabs_created - b.slabs_created,
          a.slabs_freed - b.slabs_freed};
}

}  // namespace kmem::bench
