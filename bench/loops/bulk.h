// The timed loops of bulk: allocate a batch, free it, again and again. Nothing touches the objects:
// what is measured is the allocator's own work, as in the kernel's slab_bulk_test01. With a working
// set, what is freed is not the batch just allocated but the oldest of many live objects, which lie
// in memory in no order: the caches forget them in the meantime. Exchanging the pointers is in it.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/loop.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

// The sizes of the batches to come: all alike,
class AlikeBatches {
 public:
  explicit AlikeBatches(std::size_t batch) : batch_(batch) {}
  std::size_t next() noexcept { return batch_; }
  std::size_t most() const noexcept { return batch_; }
  std::size_t loops_for(std::size_t objects) const noexcept {
    return std::max<std::size_t>(objects / batch_, 1);
  }
  std::size_t objects_in(std::size_t loops) const noexcept { return loops * batch_; }

 private:
  std::size_t batch_;
};

// or drawn, from a table that is far longer than a branch predictor's memory of one branch.
class DrawnBatches {
 public:
  explicit DrawnBatches(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<unsigned> size(1, random_batch_most);
    for (std::uint8_t& drawn : sizes_) drawn = static_cast<std::uint8_t>(size(random));
  }
  std::size_t next() noexcept { return sizes_[at_++ % count]; }
  std::size_t most() const noexcept { return random_batch_most; }
  std::size_t loops_for(std::size_t objects) const noexcept {
    return std::max<std::size_t>(objects / ((random_batch_most + 1) / 2), 1);
  }
  std::size_t objects_in(std::size_t loops) const noexcept {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < loops; ++i) sum += sizes_[(at_ + i) % count];
    return sum;
  }

 private:
  static constexpr std::size_t count = 8192;
  std::uint8_t sizes_[count];
  std::size_t at_ = 0;
};

// Live objects of one thread, in a ring: each new one takes the place of the oldest.
class WorkingSet {
 public:
  bool empty() const noexcept { return objects_.empty(); }
  std::vector<void*>& objects() noexcept { return objects_; }
  void shuffle(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::shuffle(objects_.begin(), objects_.end(), random);
  }
  void exchange(std::size_t n, void** batch) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      std::swap(batch[i], objects_[at_]);
      if (++at_ == objects_.size()) at_ = 0;
    }
  }

 private:
  std::vector<void*> objects_;
  std::size_t at_ = 0;
};

template <ObjectWorld W>
class BulkLoop final : public Loop {
 public:
  explicit BulkLoop(const Job& job) : threads_(job.threads), seed_(job.seed), live_(job.threads) {
    CacheSpec spec;
    spec.name = "bulk";
    spec.object_bytes = job.object_bytes;
    spec.flags = slab_flag::hwcache_align;
    cache_ = W::create(spec);
    if (cache_ == nullptr) throw std::runtime_error("the cache of the bulk run cannot be created");
    for (WorkingSet& set : live_) fill(set, job.live_objects);
  }
  ~BulkLoop() override { empty(); }
  BulkLoop(const BulkLoop&) = delete;
  BulkLoop& operator=(const BulkLoop&) = delete;

  // The cost of one object allocated and freed.
  Outcome run(const Turn& turn) override {
    return {
        mean_on_threads(threads_, [&](unsigned thread) { return measure(turn, live_[thread]); }),
        {}};
  }

 private:
  void fill(WorkingSet& set, std::size_t objects) {
    while (set.objects().size() < objects) {
      void* object = W::alloc(cache_, gfp::kernel);
      if (object == nullptr) {
        empty();
        throw std::runtime_error("no memory for the working set");
      }
      set.objects().push_back(object);
    }
    set.shuffle(seed_);
  }
  void empty() {
    for (WorkingSet& set : live_)
      for (void* object : set.objects()) W::free(cache_, object);
    W::destroy(cache_);
  }

  Sample measure(const Turn& turn, WorkingSet& live) {
    if (turn.batch == random_batch) return measure(turn, live, DrawnBatches(seed_));
    return measure(turn, live, AlikeBatches(turn.batch));
  }
  template <class Batches>
  Sample measure(const Turn& turn, WorkingSet& live, const Batches& batches) {
    if (live.empty()) return measure(turn, batches, [](std::size_t, void**) {});
    return measure(turn, batches, [&](std::size_t n, void** batch) { live.exchange(n, batch); });
  }
  // exchange(n, batch): puts what is to be freed in the place of what was allocated.
  template <class Batches, class Exchange>
  Sample measure(const Turn& turn, const Batches& batches, Exchange exchange) {
    const std::size_t loops = batches.loops_for(turn.objects);
    std::vector<void*> array(batches.most());
    switch (turn.path) {
      case BulkPath::single:
        return run_single(turn.objects, exchange);
      case BulkPath::stored:
        return run_stored(turn.objects, array.data());
      case BulkPath::generic:
        return run_generic(loops, batches, array.data(), exchange);
      case BulkPath::optimized:
        break;
    }
    return run_optimized(loops, batches, array.data(), exchange);
  }

  [[noreturn]] static void no_memory() { throw std::runtime_error("no memory in the bulk run"); }

  template <class Exchange>
  [[gnu::noinline]] Sample run_single(std::size_t objects, Exchange exchange) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects; ++i) {
      void* object = W::alloc(cache_, gfp::kernel);
      if (object == nullptr) [[unlikely]]
        no_memory();
      asm volatile("" : "+r"(object) : : "memory");
      exchange(1, &object);
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

  template <class Batches, class Exchange>
  [[gnu::noinline]] Sample run_generic(std::size_t loops, Batches batches, void** array,
                                       Exchange exchange) {
    const auto objects = static_cast<double>(batches.objects_in(loops));
    const Stopwatch watch;
    for (std::size_t i = 0; i < loops; ++i) {
      const std::size_t batch = batches.next();
      if (!W::alloc_bulk_generic(cache_, gfp::kernel, batch, array)) [[unlikely]]
        no_memory();
      asm volatile("" : : "r"(array) : "memory");
      exchange(batch, array);
      W::free_bulk_generic(cache_, batch, array);
    }
    return watch.per(objects);
  }

  template <class Batches, class Exchange>
  [[gnu::noinline]] Sample run_optimized(std::size_t loops, Batches batches, void** array,
                                         Exchange exchange) {
    const auto objects = static_cast<double>(batches.objects_in(loops));
    const Stopwatch watch;
    for (std::size_t i = 0; i < loops; ++i) {
      const std::size_t batch = batches.next();
      if (!W::alloc_bulk(cache_, gfp::kernel, batch, array)) [[unlikely]]
        no_memory();
      asm volatile("" : : "r"(array) : "memory");
      exchange(batch, array);
      W::free_bulk(cache_, batch, array);
    }
    return watch.per(objects);
  }

  unsigned threads_;
  std::uint64_t seed_;
  typename W::Cache* cache_;
  std::vector<WorkingSet> live_;  // by thread
};

}  // namespace kmem::bench
