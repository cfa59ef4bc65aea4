// Traffic of more threads than CPUs: every object carries its owner's token, objects change hands,
// and meanwhile caches are shrunk, tuned, looked at, created and destroyed. KMEM_SOAK_SECONDS sets
// how long one backend under one policy runs (0.6 unless set).
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "common/nodes/topology.h"
#include "tests/support/hand_over.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

constexpr unsigned thread_count = 12;

double soak_seconds() {
  const char* text = std::getenv("KMEM_SOAK_SECONDS");
  return text != nullptr ? std::strtod(text, nullptr) : 0.6;
}

// An object in use, and what stands in it.
struct Held {
  void* object;
  std::uint64_t token;
  std::uint32_t bytes;
  std::uint32_t cache;  // index; kmalloc_index: a block
};
constexpr std::uint32_t kmalloc_index = ~0u;

class Soak : public WorldTest {
 protected:
  Soak() : hand_over_(4096) {}

  void fault(const char* what) {
    const char* none = nullptr;
    if (fault_.compare_exchange_strong(none, what)) stop_.store(true);
  }
  void run_until_stopped(double seconds) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(seconds);
    while (!stop_.load(std::memory_order_relaxed) && clock::now() < end) janitor_round();
    stop_.store(true);
  }

  virtual void janitor_round() {
    Random& random = janitor_random_;
    AnyCache& cache = *caches_[random.below(caches_.size())];
    world().enter_cpu(static_cast<unsigned>(random.below(virtual_cpus)));
    switch (random.below(6)) {
      case 0:
        cache.shrink();
        break;
      case 1: {
        const auto limit = static_cast<unsigned>(random.between(2, 60));
        cache.retune({.limit = limit, .batchcount = limit / 2, .shared = -1});
        break;
      }
      case 2:
        world().shrink_all();
        break;
      case 3:
        brief_cache(random);
        break;
      default:
        if (cache.usage().active_objects > (std::size_t{1} << 30)) fault("absurd usage");
        cache.path_counts();
    }
    std::this_thread::yield();
  }

  // Another cache's whole life while the others go on.
  void brief_cache(Random& random) {
    auto brief = make({.name = "brief", .object_bytes = random.between(8, 3000)});
    std::vector<void*> objects(random.between(1, 200));
    if (!brief->alloc_bulk(gfp::kernel, objects.size(), objects.data())) return;
    for (void* object : objects) fill(object, brief->object_bytes(), 1);
    for (void* object : objects) {
      if (!holds(object, brief->object_bytes(), 1)) fault("a brief cache's object was overwritten");
    }
    brief->free_bulk(objects.size(), objects.data());
  }

  // ---- A worker ----

  struct Worker {
    unsigned number;
    Random random;
    std::uint64_t sequence = 0;
    std::uint64_t allocated = 0, freed = 0;
    std::vector<Held> held;
  };

  void take_over(Worker& worker, void* object, std::size_t bytes, std::uint32_t cache) {
    const std::uint64_t token = (std::uint64_t{worker.number} + 1) << 48 | ++worker.sequence;
    fill(object, bytes, token);
    worker.held.push_back({object, token, static_cast<std::uint32_t>(bytes), cache});
    ++worker.allocated;
  }
  void check(const Held& held) {
    if (!holds(held.object, held.bytes, held.token)) fault("an object had two owners");
  }

  void allocate(Worker& worker) {
    const auto index = static_cast<std::uint32_t>(worker.random.below(caches_.size()));
    AnyCache& cache = *caches_[index];
    void* objects[64];
    const std::size_t n = worker.random.between(1, 64);
    switch (worker.random.below(4)) {
      case 0:
        if (!cache.alloc_bulk(gfp::kernel, n, objects)) return fault("no memory");
        for (std::size_t i = 0; i < n; ++i)
          take_over(worker, objects[i], cache.object_bytes(), index);
        break;
      case 1:
        for (std::size_t i = 0; i < n; ++i) {
          void* object = cache.alloc();
          if (object == nullptr) return fault("no memory");
          take_over(worker, object, cache.object_bytes(), index);
        }
        break;
      case 2: {
        const auto node =
            static_cast<int>(worker.random.below(static_cast<std::size_t>(nodes::count())));
        void* object = cache.alloc_node(gfp::kernel, node);
        if (object == nullptr) return fault("no memory");
        take_over(worker, object, cache.object_bytes(), index);
        break;
      }
      default: {
        const std::size_t bytes = worker.random.between(1, worker.random.chance(95) ? 500 : 20000);
        void* block = world().kmalloc(bytes);
        if (block == nullptr) return fault("no memory");
        take_over(worker, block, bytes, kmalloc_index);
      }
    }
  }

  // Frees up to n of what the worker holds: one by one, as arrays of one cache, as arrays of all.
  void release(Worker& worker, std::size_t n) {
    std::vector<void*> mixed;
    n = std::min(n, worker.held.size());
    const std::size_t way = worker.random.below(3);
    for (std::size_t i = 0; i < n; ++i) {
      std::swap(worker.held.back(), worker.held[worker.random.below(worker.held.size())]);
      const Held held = worker.held.back();
      worker.held.pop_back();
      check(held);
      ++worker.freed;
      if (way != 0) {
        mixed.push_back(held.object);
      } else if (held.cache == kmalloc_index) {
        world().kfree(held.object);
      } else {
        caches_[held.cache]->free(held.object);
      }
    }
    world().kfree_bulk(mixed.size(), mixed.data());
  }

  void hand_over(Worker& worker) {
    for (std::size_t n = worker.random.below(40); n > 0 && !worker.held.empty(); --n) {
      if (!hand_over_.push(worker.held.back())) break;
      worker.held.pop_back();
    }
    Held held;
    for (std::size_t n = worker.random.below(40); n > 0 && hand_over_.pop(held); --n) {
      check(held);
      worker.held.push_back(held);
    }
  }

  void work(Worker& worker) {
    while (!stop_.load(std::memory_order_relaxed)) {
      world().enter_cpu(static_cast<unsigned>(worker.random.below(virtual_cpus)));
      if (worker.held.size() < 400) allocate(worker);
      hand_over(worker);
      if (worker.held.size() > 200 || worker.random.chance(40)) {
        release(worker, worker.random.between(1, 100));
      }
    }
    release(worker, worker.held.size());
  }

  std::vector<CachePtr> caches_;
  HandOver<Held> hand_over_;
  std::atomic<bool> stop_{false};
  std::atomic<const char*> fault_{nullptr};
  Random janitor_random_{"janitor"};
};
KMEM_ALL_WORLDS(Soak);

TEST_P(Soak, EveryObjectHasOneOwnerAndComesBack) {
  for (const std::size_t bytes : {32u, 64u, 250u, 1024u}) {
    caches_.push_back(
        make({.name = ("soak-" + std::to_string(bytes)).c_str(), .object_bytes = bytes}));
  }
  world().shrink_all();
  const std::size_t before = pages::usage().allocated_bytes;

  std::vector<Worker> workers;
  for (unsigned i = 0; i < thread_count; ++i)
    workers.push_back({i, Random("soak", i), 0, 0, 0, {}});
  std::vector<std::thread> threads;
  for (auto& worker : workers) threads.emplace_back([this, &worker] { work(worker); });
  run_until_stopped(soak_seconds());
  for (auto& thread : threads) thread.join();

  std::uint64_t allocated = 0, freed = 0;
  for (const auto& worker : workers) allocated += worker.allocated, freed += worker.freed;
  Held held;
  for (; hand_over_.pop(held); ++freed) {
    check(held);
    world().kfree(held.object);
  }
  EXPECT_EQ(fault_.load(), nullptr) << fault_.load() << ", KMEM_TEST_SEED=" << process_seed();
  EXPECT_EQ(allocated, freed);
  for (auto& cache : caches_) {
    EXPECT_EQ(cache->validate(), nullptr) << cache->name();
    cache->shrink();
    EXPECT_EQ(cache->live_count(), 0u) << cache->name();
    EXPECT_EQ(cache->usage().slabs, 0u) << cache->name();
  }
  world().shrink_all();
  // kmalloc's caches that were made meanwhile stay; objects do not.
  EXPECT_LE(pages::usage().allocated_bytes, before + (std::size_t{1} << 21));
  caches_.clear();  // destroy() would report what is alive, and the fixture would fail
  RecordProperty("objects", std::to_string(allocated));
  std::printf("%s: %llu objects, all accounted for\n", world().name().c_str(),
              static_cast<unsigned long long>(allocated));
}

}  // namespace
}  // namespace kmem::test
