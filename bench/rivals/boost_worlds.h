// Boost's pools of chunks of one size in the shape that the loops want. Chunks are aligned to
// words, as the library gives them: an alignment beyond that is refused.
#pragma once

#include <boost/pool/pool.hpp>
#include <boost/pool/singleton_pool.hpp>
#include <type_traits>

#include "bench/rivals/stand_ins.h"
#include "bench/world.h"

namespace kmem::bench {

// boost::pool<>: one a cache, without any lock. free(), not ordered_free(): the fast one.
struct BoostPoolWorld : LoopForBulk<BoostPoolWorld> {
  struct Cache {
    std::size_t bytes;
    boost::pool<> pool;
  };
  static constexpr bool one_thread = true;

  static Cache* create(const CacheSpec& spec) {
    if (spec.align > alignof(void*)) return nullptr;
    return new Cache{spec.object_bytes, boost::pool<>(spec.object_bytes)};
  }
  static void destroy(Cache* cache) { delete cache; }
  static void* alloc(Cache* cache, gfp_t gfp) {
    return cleared(cache->pool.malloc(), cache->bytes, gfp);
  }
  static void free(Cache* cache, void* object) { cache->pool.free(object); }
};

// boost::singleton_pool of one size, which the compiler is told: a call goes through a pointer.
struct SingletonPool {
  std::size_t bytes;
  void* (*alloc)();
  void (*free)(void* object);
};

template <unsigned bytes>
constexpr SingletonPool singleton_pool() {
  using Pool = boost::singleton_pool<SingletonPool, bytes>;
  static_assert(!std::is_same_v<typename Pool::mutex, boost::details::pool::null_mutex>);
  return {bytes, [] { return Pool::malloc(); }, [](void* object) { Pool::free(object); }};
}

// Common sizes, and those of the workloads' caches.
inline constexpr SingletonPool singleton_pools[] = {
    singleton_pool<8>(),    singleton_pool<16>(),   singleton_pool<24>(),   singleton_pool<32>(),
    singleton_pool<48>(),   singleton_pool<64>(),   singleton_pool<96>(),   singleton_pool<128>(),
    singleton_pool<184>(),  singleton_pool<192>(),  singleton_pool<224>(),  singleton_pool<256>(),
    singleton_pool<384>(),  singleton_pool<512>(),  singleton_pool<768>(),  singleton_pool<1024>(),
    singleton_pool<2048>(), singleton_pool<2304>(), singleton_pool<4096>(), singleton_pool<8192>()};

// Caches of one size are one pool, which lives as long as the process.
struct BoostSingletonWorld : LoopForBulk<BoostSingletonWorld> {
  using Cache = const SingletonPool;

  static Cache* create(const CacheSpec& spec) {
    return spec.align > alignof(void*) ? nullptr : find(spec.object_bytes);
  }
  static void destroy(Cache*) {}
  static void* alloc(Cache* cache, gfp_t gfp) { return cleared(cache->alloc(), cache->bytes, gfp); }
  static void free(Cache* cache, void* object) { cache->free(object); }

  static bool takes(std::size_t bytes) { return find(bytes) != nullptr; }

 private:
  static Cache* find(std::size_t bytes) {
    for (const SingletonPool& pool : singleton_pools)
      if (pool.bytes == bytes) return &pool;
    return nullptr;
  }
};

}  // namespace kmem::bench
