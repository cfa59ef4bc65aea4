// The timed loop of node, in the small: single pairs on one CPU while another takes the lock of the
// cache's node all the time, by asking the cache how many slabs it has. Whose hot fields share a
// cache line with that lock waits for the line at every call.
#pragma once

#include <atomic>
#include <stdexcept>

#include "bench/loop.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

template <class W>
concept NodeWorld = ObjectWorld<W> && requires(typename W::Cache* cache) {
  cache->backend().usage();
};

// Turn::batch: 0, the other thread asks another cache, which shares no line with the first (the
// control); 1, the same.
template <NodeWorld W>
class NodeLineLoop final : public Loop {
 public:
  explicit NodeLineLoop(const Job& job) {
    CacheSpec spec;
    spec.name = "node-line";
    spec.object_bytes = job.object_bytes;
    spec.flags = slab_flag::hwcache_align;
    cache_ = W::create(spec);
    spec.name = "node-line-control";
    control_ = cache_ == nullptr ? nullptr : W::create(spec);
    if (control_ != nullptr) return;
    if (cache_ != nullptr) W::destroy(cache_);
    throw std::runtime_error("the caches of the node run cannot be created");
  }
  ~NodeLineLoop() override {
    W::destroy(control_);
    W::destroy(cache_);
  }
  NodeLineLoop(const NodeLineLoop&) = delete;
  NodeLineLoop& operator=(const NodeLineLoop&) = delete;

  // The cost of one object allocated and freed. values: how often the lock was taken meanwhile.
  Outcome run(const Turn& turn) override {
    typename W::Cache* const asked = turn.batch == 0 ? control_ : cache_;
    std::atomic<bool> done{false};
    std::uint64_t times = 0;
    Sample cost;
    on_threads(2, [&](unsigned i) {
      pin_to_allowed_cpu(i);
      if (i == 1) {
        while (!done.load(std::memory_order_relaxed)) {
          static_cast<void>(asked->backend().usage());
          ++times;
        }
        return;
      }
      struct Done {
        std::atomic<bool>& flag;
        ~Done() { flag.store(true, std::memory_order_relaxed); }
      } const at_end{done};
      cost = pairs(turn.objects);
    });
    return {cost, {static_cast<double>(times)}};
  }

 private:
  [[gnu::noinline]] Sample pairs(std::uint64_t objects) {
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < objects; ++i) {
      void* object = W::alloc(cache_, gfp::kernel);
      if (object == nullptr) [[unlikely]]
        throw std::runtime_error("no memory in the node run");
      asm volatile("" : "+r"(object) : : "memory");
      W::free(cache_, object);
    }
    return watch.per(static_cast<double>(objects));
  }

  typename W::Cache* cache_ = nullptr;
  typename W::Cache* control_ = nullptr;
};

}  // namespace kmem::bench
