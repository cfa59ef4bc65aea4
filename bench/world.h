// What the measured loops need of an allocator, as static functions that inline; and the library's
// worlds in that shape. A test gives a stand-in over malloc the same shape.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

#include "api/kmem.h"
#include "bench/subjects.h"

namespace kmem::bench {

// Formatted by hand: clang-format 14 breaks compound requirements.
// clang-format off
template <class W>
concept World = requires(typename W::Cache* cache, const CacheSpec& spec, gfp_t gfp, int node,
                         void* p, void** objects, std::size_t n, int fd) {
  { W::create(spec) } -> std::same_as<typename W::Cache*>;                // nullptr: refused
  { W::destroy(cache) } -> std::same_as<void>;                            // no object is live
  { W::alloc(cache, gfp) } -> std::same_as<void*>;
  { W::alloc_node(cache, gfp, node) } -> std::same_as<void*>;
  { W::free(cache, p) } -> std::same_as<void>;
  { W::alloc_bulk(cache, gfp, n, objects) } -> std::same_as<bool>;
  { W::free_bulk(cache, n, objects) } -> std::same_as<void>;
  { W::alloc_bulk_generic(cache, gfp, n, objects) } -> std::same_as<bool>;
  { W::free_bulk_generic(cache, n, objects) } -> std::same_as<void>;
  { W::kmalloc(n, gfp, node) } -> std::same_as<void*>;
  { W::kfree(p) } -> std::same_as<void>;
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
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return cache->alloc_bulk(gfp, n, objects);
  }
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
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
