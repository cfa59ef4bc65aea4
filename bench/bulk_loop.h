// The timed loops of bulk: allocate a batch, free it, again and again. Nothing touches the objects:
// what is measured is the allocator's own work, as in the kernel's slab_bulk_test01.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/world.h"

namespace kmem::bench {

template <World W>
class WorldBulkBench final : public BulkBench {
 public:
  explicit WorldBulkBench(std::size_t object_bytes) {
    CacheSpec spec;
    spec.name = "bulk";
    spec.object_bytes = object_bytes;
    spec.flags = slab_flag::hwcache_align;
    cache_ = W::create(spec);
    if (cache_ == nullptr) throw std::runtime_error("the cache of the bulk run cannot be created");
  }
  ~WorldBulkBench() override { W::destroy(cache_); }
  WorldBulkBench(const WorldBulkBench&) = delete;
  WorldBulkBench& operator=(const WorldBulkBench&) = delete;

  Sample measure(BulkPath path, std::size_t batch, std::size_t objects) override {
    const std::size_t loops = std::max<std::size_t>(objects / batch, 1);
    std::vector<void*> array(batch);
    switch (path) {
      case BulkPath::single:
        return run_single(loops * batch);
      case BulkPath::generic:
        return run_generic(loops, batch, array.data());
      case BulkPath::optimized:
        break;
    }
    return run_optimized(loops, batch, array.data());
  }

 private:
  [[noreturn]] static void no_memory() { throw std::runtime_error("no memory in the bulk run"); }

  [[gnu::noinline]] Sample run_single(std::size_t objects) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects; ++i) {
      void* object = W::alloc(cache_, gfp::kernel);
      if (object == nullptr) [[unlikely]]
        no_memory();
      asm volatile("" : "+r"(object) : : "memory");
      W::free(cache_, object);
    }
    return watch.per(static_cast<double>(objects));
  }

  [[gnu::noinline]] Sample run_generic(std::size_t loops, std::size_t batch, void** array) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < loops; ++i) {
      if (!W::alloc_bulk_generic(cache_, gfp::kernel, batch, array)) [[unlikely]]
        no_memory();
      asm volatile("" : : "r"(array) : "memory");
      W::free_bulk_generic(cache_, batch, array);
    }
    return watch.per(static_cast<double>(loops * batch));
  }

  [[gnu::noinline]] Sample run_optimized(std::size_t loops, std::size_t batch, void** array) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < loops; ++i) {
      if (!W::alloc_bulk(cache_, gfp::kernel, batch, array)) [[unlikely]]
        no_memory();
      asm volatile("" : : "r"(array) : "memory");
      W::free_bulk(cache_, batch, array);
    }
    return watch.per(static_cast<double>(loops * batch));
  }

  typename W::Cache* cache_;
};

}  // namespace kmem::bench
