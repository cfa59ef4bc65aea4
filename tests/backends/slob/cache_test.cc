// A cache over the heap: constructors, objects of whole pages, parking, destroy, no memory,
// threads.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/backends/slob/fixture.h"

namespace kmem::slob {
namespace {

using SlobCache = SlobTest;
using Objects = std::vector<void*>;

int constructed = 0;
void construct(void* object) {
  ++constructed;
  *static_cast<int*>(object) = 0x600d;
}

TEST_F(SlobCache, TheConstructorRunsAtEachAllocation) {
  auto cache = make_cache({.name = "ctor", .object_bytes = 64, .ctor = construct});
  constructed = 0;
  for (int i = 0; i < 3; ++i) {
    void* object = cache->alloc(gfp::kernel);
    EXPECT_EQ(*static_cast<int*>(object), 0x600d);
    free_in(*cache, object);
  }
  EXPECT_EQ(constructed, 3);
  Objects objects(5);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 5, objects.data()));
  EXPECT_EQ(constructed, 8);
  for (void* object : objects) EXPECT_EQ(*static_cast<int*>(object), 0x600d);
  cache->free_bulk(5, objects.data());
}

TEST_F(SlobCache, GeometryIsWhatTheHeapDoes) {
  for (std::size_t bytes : {1, 8, 20, 100, 256, 1000, 2048, 2050, 4095, 4096, 5000, 65536}) {
    for (std::size_t align : {0, 16, 128, 4096}) {
      const CacheSpec spec{.name = "g", .object_bytes = bytes, .align = align};
      auto cache = make_cache(spec);
      const Geometry& geometry = cache->geometry();
      Objects objects(geometry.objects);
      for (void*& object : objects) object = cache->alloc(gfp::kernel);
      for (void* object : objects) {
        EXPECT_EQ(pages::page_of(object)->head, pages::page_of(objects[0]))
            << bytes << ' ' << align;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % geometry.align, 0u);
      }
      objects.push_back(cache->alloc(gfp::kernel));
      EXPECT_NE(pages::page_of(objects.back())->head, pages::page_of(objects[0]));
      EXPECT_EQ(cache->validate(), nullptr);
      cache->free_bulk(objects.size(), objects.data());
    }
  }
  EXPECT_EQ(geometry({.name = "g", .object_bytes = pages::max_block_bytes}).objects, 1u);
  EXPECT_EQ(geometry({.name = "g", .object_bytes = pages::max_block_bytes + 1}).objects, 0u);
}

TEST_F(SlobCache, HwcacheAlignIsHonoured) {
  auto cache = make_cache({.name = "h", .object_bytes = 20, .flags = slab_flag::hwcache_align});
  EXPECT_EQ(cache->geometry().align, 32u);
  cache = make_cache({.name = "h", .object_bytes = 100, .flags = slab_flag::hwcache_align});
  EXPECT_EQ(cache->geometry().align, 64u);
}

// ---- Objects of whole pages --------------------------------------------------------------------

TEST_F(SlobCache, ObjectsOfAPageAndMoreAreBlocksOfTheirOwn) {
  auto cache = make_cache(12288);
  char* object = static_cast<char*>(cache->alloc(gfp::kernel));
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(cache->geometry().order, 2u);
  EXPECT_EQ(cache->usage().slab_bytes, 16384u);
  EXPECT_TRUE(cache->owns(pages::page_of(object), object));
  EXPECT_FALSE(cache->owns(pages::page_of(object + 8), object + 8));
  EXPECT_FALSE(cache->owns(pages::page_of(object + 4096), object + 4096));
  EXPECT_EQ(Cache::cache_of(object), cache.get());
  EXPECT_EQ(Cache::cache_of(object + 4096), nullptr);
  EXPECT_EQ(cache->validate(), nullptr);
  free_in(*cache, object);
  EXPECT_FALSE(cache->owns(pages::page_of(object), object));
}

// ---- Destroy -----------------------------------------------------------------------------------

TEST_F(SlobCache, DestroyCountsAndKeepsObjectsInUse) {
  leaves_pages();
  for (std::size_t bytes : {64, 8192}) {
    Cache cache;
    ASSERT_TRUE(cache.create({.name = "leaky", .object_bytes = bytes}));
    Objects objects(10);
    ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, 10, objects.data()));
    cache.free_bulk(7, objects.data());
    for (int i = 7; i < 10; ++i) std::memset(objects[i], 0x5a, bytes);
    std::set<void*> seen;
    cache.for_each_live(
        [](void* context, void* object, std::size_t offset) {
          EXPECT_EQ(offset, reinterpret_cast<std::uintptr_t>(object) % pages::page_bytes);
          EXPECT_TRUE(static_cast<std::set<void*>*>(context)->insert(object).second);
        },
        &seen);
    EXPECT_EQ(seen, (std::set<void*>(objects.begin() + 7, objects.end())));
    EXPECT_EQ(cache.destroy(), 3u);
    auto other = make_cache(bytes);  // perhaps under the id that is free again
    Objects more(200);
    ASSERT_TRUE(other->alloc_bulk(gfp::kernel, more.size(), more.data()));
    for (void* object : more) std::memset(object, 0, bytes);
    for (int i = 7; i < 10; ++i) {
      EXPECT_EQ(*static_cast<unsigned char*>(objects[i]), 0x5a);
      EXPECT_EQ(Cache::cache_of(objects[i]), nullptr);
      EXPECT_FALSE(other->owns(pages::page_of(objects[i]), objects[i]));
    }
    EXPECT_EQ(other->validate(), nullptr);
    other->free_bulk(more.size(), more.data());
  }
}

TEST_F(SlobCache, LiveObjectsMayBeFreedWhileTheyAreVisited) {
  auto cache = make_cache(200);
  Objects objects(1000);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  struct Context {
    Cache* cache;
    std::size_t visited = 0;
  } context{cache.get()};
  cache->for_each_live(
      [](void* context, void* object, std::size_t) {
        auto* c = static_cast<Context*>(context);
        free_in(*c->cache, object);
        ++c->visited;
      },
      &context);
  EXPECT_EQ(context.visited, objects.size());
  EXPECT_EQ(cache->usage().active_objects, 0u);
  EXPECT_FALSE(cache->shrink());
}

// ---- TYPESAFE_BY_RCU ---------------------------------------------------------------------------

TEST_F(SlobCache, TypesafeObjectsAreReusedByTheirCacheAloneAndKeepTheirState) {
  for (std::size_t bytes : {40, 8192}) {
    auto cache = make_cache({.name = "rcu",
                             .object_bytes = bytes,
                             .flags = slab_flag::typesafe_by_rcu,
                             .ctor = construct});
    constructed = 0;
    Objects objects(8);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 8, objects.data()));
    EXPECT_EQ(constructed, 8);
    for (void* object : objects) *static_cast<int*>(object) = 7;
    const std::set<void*> first(objects.begin(), objects.end());
    const std::size_t held = pages::usage().allocated_bytes;
    cache->free_bulk(8, objects.data());
    EXPECT_EQ(pages::usage().allocated_bytes, held);
    EXPECT_FALSE(cache->shrink());
    for (void* object : first) {
      EXPECT_EQ(*static_cast<int*>(object), 7);  // a late reader sees the object, not a link
      EXPECT_FALSE(cache->owns(pages::page_of(object), object));
    }
    EXPECT_EQ(cache->validate(), nullptr);
    objects.resize(9);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 9, objects.data()));
    EXPECT_EQ(constructed, 9);
    EXPECT_EQ(std::set<void*>(objects.begin(), objects.end() - 1), first);
    cache->free_bulk(9, objects.data());
  }
}

TEST_F(SlobCache, AGivenFreePointerOffsetIsUsed) {
  auto cache = make_cache({.name = "rcu",
                           .object_bytes = 64,
                           .flags = slab_flag::typesafe_by_rcu,
                           .has_freeptr_offset = true,
                           .freeptr_offset = 16});
  EXPECT_EQ(cache->geometry().slot_bytes, 64u);
  Objects objects(3);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 3, objects.data()));
  for (void* object : objects) std::memset(object, 0xff, 64);
  for (void* object : objects) free_in(*cache, object);
  EXPECT_EQ(*static_cast<std::uint64_t*>(objects[2]), ~std::uint64_t{0});
  EXPECT_EQ(static_cast<void**>(objects[2])[2], objects[1]);
}

// ---- No memory ---------------------------------------------------------------------------------

TEST_F(SlobCache, BulkIsAllOrNothingAtEveryFailure) {
  for (std::size_t bytes : {100, 2048, 4096}) {
    auto cache = make_cache(bytes);
    Objects keep(5), objects(200);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 5, keep.data()));
    const std::size_t held = pages::usage().allocated_bytes;
    bool done = false;
    for (std::uint64_t k = 1; !done && k < 300; ++k) {
      pages::fail_allocation(k);
      done = cache->alloc_bulk(gfp::kernel, objects.size(), objects.data());
      pages::fail_allocation(0);
      ASSERT_EQ(cache->validate(), nullptr) << k;
      if (done) break;
      EXPECT_EQ(cache->usage().active_objects, 5u) << k;
      EXPECT_EQ(pages::usage().allocated_bytes, held) << k;
    }
    EXPECT_TRUE(done);
    cache->free_bulk(objects.size(), objects.data());
    cache->free_bulk(5, keep.data());
  }
}

TEST_F(SlobCache, ParkedObjectsAreParkedAgainWhenABulkFails) {
  auto cache =
      make_cache({.name = "rcu", .object_bytes = 2000, .flags = slab_flag::typesafe_by_rcu});
  Objects objects(10);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 3, objects.data()));
  cache->free_bulk(3, objects.data());
  const std::size_t held = pages::usage().allocated_bytes;
  pages::fail_allocation(2, true);
  EXPECT_FALSE(cache->alloc_bulk(gfp::kernel, 10, objects.data()));
  pages::fail_allocation(0);
  EXPECT_EQ(cache->validate(), nullptr);
  EXPECT_EQ(pages::usage().allocated_bytes, held);
  EXPECT_EQ(cache->usage().total_objects, 3u);
}

// A report with the lock held stands in for the signal that comes then.
TEST_F(SlobCache, WhoMustNotWaitGetsNothingWhileItsThreadHoldsTheLock) {
  struct Attempt {
    Cache* cache;
    int made = 0;
    void* object = nullptr;
    void* block = nullptr;
  } attempt;
  auto cache = make_cache(1200);
  attempt.cache = cache.get();
  auto* object = static_cast<unsigned*>(cache->alloc(gfp::kernel));
  set_log_hook(
      [](void* context, const char*) {
        auto* a = static_cast<Attempt*>(context);
        ++a->made;
        a->object = a->cache->alloc(gfp::atomic);
        a->block = heap().kmalloc(1200, gfp::nowait, no_node);
      },
      &attempt);
  object[300] = 0xffffffff;  // the header of the free block behind it
  void* second = cache->alloc(gfp::kernel);
  set_log_hook([](void*, const char*) {}, nullptr);
  EXPECT_GT(attempt.made, 0);
  EXPECT_EQ(attempt.object, nullptr);
  EXPECT_EQ(attempt.block, nullptr);
  EXPECT_NE(second, nullptr);
  void* third = cache->alloc(gfp::atomic);
  EXPECT_NE(third, nullptr);
  for (void* o : {static_cast<void*>(object), second, third}) free_in(*cache, o);
}

TEST_F(SlobCache, AChildAllocatesAndFreesAfterForkBesideTraffic) {
  auto cache = make_cache(300);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) free_in(*cache, cache->alloc(gfp::kernel));
  });
  for (int i = 0; i < 20; ++i) {
    Cache::prepare_fork();
    Cache::prepare_fork();  // once for each of two caches
    pages::prepare_fork();
    const pid_t child = fork();
    pages::after_fork();
    Cache::after_fork();
    Cache::after_fork();
    if (child == 0) {
      void* object = cache->alloc(gfp::kernel);
      if (object != nullptr) cache->free(object, pages::page_of(object));
      _exit(object != nullptr && cache->validate() == nullptr ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

// ---- Threads -----------------------------------------------------------------------------------

TEST_F(SlobCache, ThreadsShareTheHeap) {
  std::array<CachePointer, 4> caches = {make_cache(24), make_cache(100, 64), make_cache(700),
                                        make_cache(4096)};
  std::atomic<bool> overlap{false};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<std::size_t, void*>> live;
    for (int step = 0; step < 20000; ++step) {
      if (live.size() < 64 && random() % 2 == 0) {
        const std::size_t which = random() % 5;
        void* object = which == 4 ? heap().kmalloc(1 + random() % 900, gfp::kernel, no_node)
                                  : caches[which]->alloc(gfp::kernel);
        *static_cast<unsigned*>(object) = seed;
        live.emplace_back(which, object);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const auto [which, object] = live.back();
        live.pop_back();
        if (*static_cast<unsigned*>(object) != seed) overlap = true;
        if (which == 4) {
          EXPECT_TRUE(heap().kfree(object));
        } else {
          free_in(*caches[which], object);
        }
      }
      if (step % 5000 == 0) {
        EXPECT_EQ(caches[seed % 4]->validate(), nullptr);
      }
    }
    for (const auto& [which, object] : live) {
      which == 4 ? static_cast<void>(heap().kfree(object)) : free_in(*caches[which], object);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlap);
}

}  // namespace
}  // namespace kmem::slob
