// Threads at the edges: hand-offs in one direction, the first use of kmalloc, caches created and
// destroyed in parallel, memory that ends under traffic.
#include <atomic>
#include <thread>

#include "tests/support/hand_over.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

constexpr unsigned thread_count = 12;

class Threads : public WorldTest {
 protected:
  // body(number) on every thread, each on a CPU of its own where the harness says which.
  template <class Body>
  void run(Body&& body) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < thread_count; ++i) {
      threads.emplace_back([this, i, &body] {
        world().enter_cpu(i % virtual_cpus);
        body(i);
      });
    }
    for (auto& thread : threads) thread.join();
  }
};
KMEM_ALL_WORLDS(Threads);

// Half of the threads allocate, the others free: all frees are of objects of another thread.
TEST_P(Threads, ProducersAndConsumers) {
  auto cache = make({.name = "handed-over", .object_bytes = 200});
  const std::size_t batches = scaled(300);
  constexpr std::size_t batch = 48;
  HandOver<void*> queue(8192);
  std::atomic<std::size_t> taken{0}, faults{0};
  const std::size_t all = batches * batch * (thread_count / 2);
  run([&](unsigned number) {
    void* objects[batch];
    if (number % 2 == 0) {
      for (std::size_t i = 0; i < batches; ++i) {
        if (!cache->alloc_bulk(gfp::kernel, batch, objects)) ++faults, std::abort();
        for (void* object : objects) {
          fill(object, 200, reinterpret_cast<std::uintptr_t>(object));
          while (!queue.push(object)) std::this_thread::yield();
        }
        if (i % 64 == 0) cache->shrink();
      }
      return;
    }
    std::size_t n = 0;
    while (taken.load() < all || n != 0) {
      if (n < batch && queue.pop(objects[n])) {
        if (!holds(objects[n], 200, reinterpret_cast<std::uintptr_t>(objects[n]))) ++faults;
        ++n;
        ++taken;
        if (n < batch) continue;
      } else if (n == 0) {
        std::this_thread::yield();
        continue;
      }
      number % 4 == 1 ? cache->free_bulk(n, objects) : world().kfree_bulk(n, objects);
      n = 0;
    }
  });
  EXPECT_EQ(faults.load(), 0u);
  EXPECT_EQ(taken.load(), all);
  EXPECT_EQ(cache->validate(), nullptr);
  EXPECT_FALSE(cache->shrink());
  EXPECT_EQ(cache->live_count(), 0u);
}

// All threads ask for every size at once; in a fresh process nobody has made kmalloc's caches yet.
TEST_P(Threads, FirstUseOfKmalloc) {
  std::atomic<std::size_t> faults{0};
  run([&](unsigned number) {
    for (std::size_t bytes = 1; bytes <= 40000; bytes += 1 + bytes / 3) {
      void* block = world().kmalloc(bytes);
      if (block == nullptr) {
        ++faults;
        continue;
      }
      fill(block, bytes, number);
      if (!holds(block, bytes, number)) ++faults;
      world().kfree(block);
    }
  });
  EXPECT_EQ(faults.load(), 0u);
}

TEST_P(Threads, CachesComeAndGoInParallel) {
  std::atomic<std::size_t> faults{0};
  run([&](unsigned number) {
    Random random("come and go", number);
    for (std::size_t i = 0; i < scaled(40); ++i) {
      const std::string name = "t" + std::to_string(number) + "-" + std::to_string(i);
      // Every second one may be an alias of another thread's.
      CacheSpec spec{.name = name.c_str(), .object_bytes = 8 * random.between(1, 30)};
      if (i % 2 == 0) spec.flags = slab_flag::no_merge;
      auto cache = world().create(spec);
      if (cache == nullptr) {
        ++faults;
        continue;
      }
      void* objects[100];
      if (!cache->alloc_bulk(gfp::kernel, 100, objects)) ++faults;
      for (void* object : objects) fill(object, spec.object_bytes, number);
      for (void* object : objects) {
        if (!holds(object, spec.object_bytes, number)) ++faults;
      }
      cache->free_bulk(100, objects);
      if (i % 8 == 0) cache->shrink();
    }
  });
  EXPECT_EQ(faults.load(), 0u);
}

TEST_P(Threads, MemoryEndsUnderTraffic) {
  auto cache = make({.name = "hungry", .object_bytes = 700});
  const std::size_t before = pages::usage().allocated_bytes;
  const std::size_t limit = before + (std::size_t{2} << 20);
  pages::set_limit_bytes(limit);
  std::atomic<std::size_t> faults{0}, refused{0}, served{0};
  run([&](unsigned number) {
    Random random("hungry", number);
    std::vector<void*> held;
    for (std::size_t i = 0; i < scaled(400); ++i) {
      void* objects[50];
      const std::size_t n = random.between(1, 50);
      if (cache->alloc_bulk(gfp::kernel, n, objects)) {
        for (std::size_t k = 0; k < n; ++k) {
          fill(objects[k], 700, number);
          held.push_back(objects[k]);
        }
        ++served;
      } else {
        ++refused;
      }
      if (pages::usage().allocated_bytes > limit) ++faults;
      if (held.size() < 400 && random.chance(60)) continue;
      for (void* object : held) {
        if (!holds(object, 700, number)) ++faults;
      }
      cache->free_bulk(held.size(), held.data());
      held.clear();
    }
    cache->free_bulk(held.size(), held.data());
  });
  pages::set_limit_bytes(0);
  EXPECT_EQ(faults.load(), 0u);
  EXPECT_GT(served.load(), 0u);
  EXPECT_EQ(cache->validate(), nullptr);
  EXPECT_FALSE(cache->shrink());
  EXPECT_EQ(cache->live_count(), 0u);
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

// shrink() from all threads at once, over objects in use.
TEST_P(Threads, ShrinkingTogether) {
  auto cache = make({.name = "shrunk", .object_bytes = 64});
  std::atomic<std::size_t> faults{0};
  run([&](unsigned number) {
    void* objects[30];
    for (std::size_t i = 0; i < scaled(60); ++i) {
      if (!cache->alloc_bulk(gfp::kernel, 30, objects)) ++faults;
      for (void* object : objects) fill(object, 64, number);
      cache->shrink();
      for (void* object : objects) {
        if (!holds(object, 64, number)) ++faults;
        cache->free(object);
      }
    }
  });
  EXPECT_EQ(faults.load(), 0u);
  EXPECT_EQ(cache->validate(), nullptr);
  EXPECT_FALSE(cache->shrink());
  EXPECT_EQ(cache->live_count(), 0u);
}

}  // namespace
}  // namespace kmem::test
