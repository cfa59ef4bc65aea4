// The timed loops of bulk: allocate a batch, free it, again and again. Nothing touches the objects:
// what is measured is the allocator's own work, as in the kernel's slab_bulk_test01.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/loop.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

template <ObjectWorld W>
class BulkLoop final : public Loop {
 public:
  explicit BulkLoop(const Job& job) : threads_(job.threads) {
    CacheSpec spec;
    spec.name = "bulk";
    spec.object_bytes = job.object_bytes;
    spec.flags = slab_flag::hwcache_align;
    cache_ = W::create(spec);
    if (cache_ == nullptr) throw std::runtime_error("the cache of the bulk run cannot be created");
  }
  ~BulkLoop() override { W::destroy(cache_); }
  BulkLoop(const BulkLoop&) = delete;
  BulkLoop& operator=(const BulkLoop&) = delete;

  // The cost of one object allocated and freed.
  Outcome run(const Turn& turn) override {
    return {mean_on_threads(threads_, [&](unsigned) { return measure(turn); }), {}};
  }

 private:
  Sample measure(const Turn& turn) {
    const std::size_t batch = turn.batch;
    const std::size_t loops = std::max<std::size_t>(turn.objects / batch, 1);
    std::vector<void*> array(batch);
    switch (turn.path) {
      case BulkPath::single:
        return run_single(loops * batch);
      case BulkPath::stored:
        return run_stored(loops * batch, array.data());
      case BulkPath::generic:
        return run_generic(loops, batch, array.data());
      case BulkPath::optimized:
        break;
    }
    return run_optimized(loops, batch, array.data());
  }

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

  [[gnu::noinline]] Sample run_stored(std::size_t objects, void** slot) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects; ++i) {
      *slot = W::alloc(cache_, gfp::kernel);
      if (*slot == nullptr) [[unlikely]]
        no_memory();
      asm volatile("" : : "r"(slot) : "memory");
      W::free(cache_, *slot);
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

  unsigned threads_;
  typename W::Cache* cache_;
};

}  // namespace kmem::bench
