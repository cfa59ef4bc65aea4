// The loop of footprint: fill, free a random half, refill, free all, shrink; then one thread
// allocates and another only frees. Not timed: it looks at the memory along the way. Objects are
// written over their whole size, since memory that nobody wrote is not resident.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "bench/loop.h"
#include "bench/mailbox.h"
#include "bench/memory_series.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

template <ObjectWorld W>
class FootprintLoop final : public Loop {
 public:
  // Job::live_objects: the live set at the peak. The array of their addresses is the loop's own and
  // belongs to the start: it is written here.
  explicit FootprintLoop(const Job& job)
      : bytes_(job.object_bytes), objects_(job.live_objects, nullptr), random_(job.seed) {
    samples_.resize(samples_max);
    samples_.clear();
    CacheSpec spec;
    spec.name = "footprint";
    spec.object_bytes = job.object_bytes;
    cache_ = W::create(spec);
    if (cache_ == nullptr)
      throw std::runtime_error("the cache of the footprint run cannot be created");
  }
  ~FootprintLoop() override { W::destroy(cache_); }
  FootprintLoop(const FootprintLoop&) = delete;
  FootprintLoop& operator=(const FootprintLoop&) = delete;

  // Turn::objects: those that pass between the threads. values: a packed series; the cost is none.
  Outcome run(const Turn& turn) override {
    samples_.clear();
    start_ns_ = now_ns();
    look(Phase::start);
    try {
      churn();
      pass(turn.objects);
    } catch (...) {
      free_range(Phase::free_all, objects_.size(), 0);
      for (void* left = nullptr; ring_.pop(left);) W::free(cache_, left);
      throw;
    }
    return {{}, pack(samples_)};
  }

 private:
  static constexpr std::size_t looks_per_phase = 16;
  static constexpr std::size_t samples_max = phase_count * (looks_per_phase + 2);
  static constexpr std::size_t live_while_passing = 1024;
  using Ring = boost::lockfree::spsc_queue<void*, boost::lockfree::capacity<live_while_passing>>;

  void churn() {
    const std::size_t n = objects_.size();
    fill_range(Phase::fill, n);
    std::shuffle(objects_.begin(), objects_.end(), random_);
    free_range(Phase::half_free, n / 2, looks_per_phase);
    fill_range(Phase::refill, n / 2);
    std::shuffle(objects_.begin(), objects_.end(), random_);
    free_range(Phase::free_all, n, looks_per_phase);
    if constexpr (requires { W::shrink_all(); }) W::shrink_all();
    look(Phase::shrink);
  }

  // The first n: those that are not there are allocated.
  void fill_range(Phase phase, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      objects_[i] = allocate();
      look_sometimes(phase, i, n, looks_per_phase);
    }
    look(phase);
  }

  // The first n, those that are there. looks 0: after a failure, which ends the series.
  void free_range(Phase phase, std::size_t n, std::size_t looks) {
    for (std::size_t i = 0; i < n; ++i) {
      if (objects_[i] != nullptr) W::free(cache_, objects_[i]);
      objects_[i] = nullptr;
      if (looks > 0) look_sometimes(phase, i, n, looks);
    }
    if (looks > 0) look(phase);
  }

  // The caller's thread allocates; the other one never does.
  void pass(std::size_t n) {
    stopped_.store(false, std::memory_order_relaxed);
    on_threads(2, [&](unsigned i) {
      if (i == 1) return free_only(n);
      try {
        allocate_only(n);
      } catch (...) {
        stopped_.store(true, std::memory_order_relaxed);
        throw;
      }
    });
    look(Phase::passing);
  }

  void allocate_only(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      void* object = allocate();
      for (Backoff backoff; !ring_.push(object);) backoff.wait();
      look_sometimes(Phase::passing, i, n, looks_per_phase);
    }
  }

  void free_only(std::size_t n) {
    for (; n > 0; --n) {
      void* object = nullptr;
      for (Backoff backoff; !ring_.pop(object); backoff.wait())
        if (stopped_.load(std::memory_order_relaxed)) return;
      W::free(cache_, object);
    }
  }

  void* allocate() {
    void* object = W::alloc(cache_, gfp::kernel);
    if (object == nullptr) [[unlikely]]
      throw std::runtime_error("no memory in the footprint run");
    return std::memset(object, 0x5a, bytes_);
  }

  void look_sometimes(Phase phase, std::size_t i, std::size_t n, std::size_t looks) {
    const std::size_t step = n / looks + 1;
    if (i % step == step - 1) look(phase);
  }

  void look(Phase phase) {
    MemorySample sample{phase, static_cast<double>(now_ns() - start_ns_) * 1e-9, resident_.bytes(),
                        0};
    if constexpr (requires { W::page_bytes(); })
      sample.slab_bytes = static_cast<double>(W::page_bytes());
    samples_.push_back(sample);
  }

  std::size_t bytes_;
  std::vector<void*> objects_;
  std::mt19937_64 random_;
  ResidentSet resident_;
  std::vector<MemorySample> samples_;
  std::uint64_t start_ns_ = 0;
  Ring ring_;
  std::atomic<bool> stopped_{false};
  typename W::Cache* cache_;
};

}  // namespace kmem::bench
