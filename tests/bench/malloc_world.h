// A stand-in for the library's worlds: malloc, with an account of what it was asked to do.
#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "bench/replay_world.h"
#include "common/percpu/virtual.h"

namespace kmem::bench {

struct MallocWorld {
  struct Cache {
    CacheSpec spec;
    std::string name;
    std::size_t live = 0, allocs = 0;
  };
  struct Block {
    Cache* cache;  // null: kmalloc
    std::size_t bytes;
    unsigned cpu;
  };

  static inline std::map<void*, Block> blocks;
  static inline std::vector<Cache*> caches;
  static inline std::size_t live_bytes = 0, cross_cpu_frees = 0, fail_after = SIZE_MAX, shrinks = 0;
  static inline gfp_t gfp_seen = 0;
  static inline std::vector<int> nodes_seen;

  static void reset() {
    cross_cpu_frees = shrinks = 0;
    fail_after = SIZE_MAX;
    gfp_seen = 0;
    nodes_seen.clear();
  }

  static Cache* create(const CacheSpec& spec) {
    caches.push_back(new Cache{spec, spec.name});
    return caches.back();
  }
  static void destroy(Cache* cache) {
    std::erase(caches, cache);
    delete cache;
  }
  static void* take(Cache* cache, std::size_t bytes, gfp_t gfp) {
    gfp_seen |= gfp;
    if (fail_after-- == 0) return nullptr;
    void* object = std::malloc(bytes);
    blocks[object] = {cache, bytes, percpu::VirtualCpu::cpu(4096)};
    live_bytes += bytes;
    if (cache != nullptr) ++cache->live, ++cache->allocs;
    return object;
  }
  static void give(void* object) {
    const Block block = blocks.at(object);
    if (block.cpu != percpu::VirtualCpu::cpu(4096)) ++cross_cpu_frees;
    live_bytes -= block.bytes;
    if (block.cache != nullptr) --block.cache->live;
    blocks.erase(object);
    std::free(object);
  }
  static void* alloc(Cache* cache, gfp_t gfp) { return take(cache, cache->spec.object_bytes, gfp); }
  static void* alloc_node(Cache* cache, gfp_t gfp, int node) {
    nodes_seen.push_back(node);
    return alloc(cache, gfp);
  }
  static void free(Cache* cache, void* object) {
    if (blocks.at(object).cache != cache) std::abort();
    give(object);
  }
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    for (std::size_t i = 0; i < n; ++i) objects[i] = alloc(cache, gfp);
    return true;
  }
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    for (std::size_t i = 0; i < n; ++i) free(cache, objects[i]);
  }
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk_generic(Cache* cache, std::size_t n, void** objects) {
    free_bulk(cache, n, objects);
  }
  static void* kmalloc(std::size_t bytes, gfp_t gfp, int) { return take(nullptr, bytes, gfp); }
  static void kfree(void* object) { give(object); }
  static void shrink_all() { ++shrinks; }
  static std::size_t page_bytes() { return live_bytes; }
  static PathCounts paths() { return {}; }
  static std::vector<CacheSnapshot> snapshot() {
    std::vector<CacheSnapshot> all;
    for (const Cache* cache : caches) {
      CacheSnapshot one;
      one.name = cache->name;
      one.usage.active_objects = cache->live;
      all.push_back(one);
    }
    return all;
  }
  static SharedHeap heap() { return {}; }
  static int slabinfo(int) { return 0; }
};
static_assert(ReplayWorld<MallocWorld>);

}  // namespace kmem::bench
