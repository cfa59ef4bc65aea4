// The timed loop of remote: one thread allocates, another frees, pointers pass through a ring, each
// thread on a CPU of its own where there are two. No thread ever frees what it allocated. Nothing
// touches the objects but the allocator.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/loop.h"
#include "bench/mailbox.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

template <ObjectWorld W>
class RemoteLoop final : public Loop {
 public:
  explicit RemoteLoop(const Job& job) {
    CacheSpec spec;
    spec.name = "remote";
    spec.object_bytes = job.object_bytes;
    spec.flags = slab_flag::hwcache_align;
    cache_ = W::create(spec);
    if (cache_ == nullptr)
      throw std::runtime_error("the cache of the remote run cannot be created");
  }
  ~RemoteLoop() override { W::destroy(cache_); }
  RemoteLoop(const RemoteLoop&) = delete;
  RemoteLoop& operator=(const RemoteLoop&) = delete;

  // The cost of an object: the time in which all are allocated, passed and freed, shared out.
  Outcome run(const Turn& turn) override {
    const std::size_t batch = turn.batch;
    const std::size_t loops = std::max<std::size_t>(turn.objects / batch, 1);
    const bool in_bulk = turn.path == BulkPath::optimized;
    stopped_.store(false, std::memory_order_relaxed);
    std::vector<void*> sent(batch), received(batch);
    try {
      return {total_on_threads(2, static_cast<double>(loops * batch),
                               [&](unsigned i) {
                                 pin_to_allowed_cpu(i);
                                 if (i == 0) return produce(loops, sent, in_bulk);
                                 consume(loops * batch, received, in_bulk);
                               }),
              {}};
    } catch (...) {
      for (void* left = nullptr; ring_.pop(left);) W::free(cache_, left);
      throw;
    }
  }

 private:
  // Of pointers: deep enough for either thread to work on while the other is off its CPU.
  static constexpr std::size_t capacity = 1024;
  using Ring = boost::lockfree::spsc_queue<void*, boost::lockfree::capacity<capacity>>;

  [[gnu::noinline]] void produce(std::size_t loops, std::vector<void*>& array, bool in_bulk) {
    for (std::size_t i = 0; i < loops; ++i) {
      if (!allocate(array, in_bulk)) [[unlikely]] {
        stopped_.store(true, std::memory_order_relaxed);
        throw std::runtime_error("no memory in the remote run");
      }
      send(array);
    }
  }

  [[gnu::noinline]] void consume(std::size_t objects, std::vector<void*>& array, bool in_bulk) {
    while (objects > 0) {
      const std::size_t n = receive(array);
      if (n == 0) return;
      if (in_bulk)
        W::free_bulk(cache_, n, array.data());
      else
        for (std::size_t i = 0; i < n; ++i) W::free(cache_, array[i]);
      objects -= n;
    }
  }

  // All of them, or none.
  bool allocate(std::vector<void*>& array, bool in_bulk) {
    if (in_bulk) return W::alloc_bulk(cache_, gfp::kernel, array.size(), array.data());
    for (std::size_t i = 0; i < array.size(); ++i) {
      array[i] = W::alloc(cache_, gfp::kernel);
      if (array[i] != nullptr) [[likely]]
        continue;
      while (i > 0) W::free(cache_, array[--i]);
      return false;
    }
    return true;
  }

  void send(const std::vector<void*>& array) {
    Backoff backoff;
    std::size_t done = ring_.push(array.data(), array.size());
    while (done < array.size()) {
      backoff.wait();
      const std::size_t more = ring_.push(array.data() + done, array.size() - done);
      if (more > 0) backoff = Backoff();
      done += more;
    }
  }

  // At most a batch; 0 once the producer has failed.
  std::size_t receive(std::vector<void*>& array) {
    for (Backoff backoff;; backoff.wait()) {
      if (const std::size_t n = ring_.pop(array.data(), array.size()); n > 0) return n;
      if (stopped_.load(std::memory_order_relaxed)) return 0;
    }
  }

  Ring ring_;
  std::atomic<bool> stopped_{false};
  typename W::Cache* cache_;
};

// The floor: the same pointers pass, from a pool that the producer walks around; free does nothing.
struct RingAloneWorld {
  struct Cache {
    std::vector<char> pool;
    std::size_t stride = 0, next = 0;
  };
  static Cache* create(const CacheSpec& spec) {
    auto cache = std::make_unique<Cache>();
    cache->stride = spec.object_bytes;
    cache->pool.resize(spec.object_bytes * count);
    return cache.release();
  }
  static void destroy(Cache* cache) { delete cache; }
  static void* alloc(Cache* cache, gfp_t) {
    return cache->pool.data() + cache->next++ % count * cache->stride;
  }
  static void free(Cache*, void*) {}
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    for (std::size_t i = 0; i < n; ++i) objects[i] = alloc(cache, gfp);
    return true;
  }
  static void free_bulk(Cache*, std::size_t, void**) {}
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk_generic(Cache*, std::size_t, void**) {}

 private:
  static constexpr std::size_t count = 1024;
};

}  // namespace kmem::bench
