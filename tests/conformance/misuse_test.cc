// Misuse in release builds: reported, never a crash, never corruption; what was misused goes on
// working.
#include <sched.h>

#include <cstdlib>

#include "common/base/log.h"
#include "common/debug/report.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

using debug::Fault;

// An object freed twice in a row is known by the queue of the CPU that it went to: stay on that
// CPU.
class OnOneCpu {
 public:
  OnOneCpu() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnOneCpu() { sched_setaffinity(0, sizeof(before_), &before_); }
  OnOneCpu(const OnOneCpu&) = delete;
  OnOneCpu& operator=(const OnOneCpu&) = delete;

 private:
  cpu_set_t before_;
};

class Misuse : public WorldTest {
 protected:
  OnOneCpu on_one_cpu_;

  // One report, and of that kind.
  template <class Call>
  void expect_report(Call&& misuse, const char* what) {
    const auto before = debug::report_count();
    misuse();
    const auto reports = debug::report_count() - before;
    EXPECT_EQ(reports, 1u) << what;
    const auto lines = log_.take();
    EXPECT_EQ(count_lines(lines, "BUG "), reports) << what << "\n" << joined(lines);
    EXPECT_EQ(count_lines(lines, "FIX "), reports) << what << "\n" << joined(lines);
  }

  // Still a working cache with live objects in use: fills its queues and empties them.
  void expect_works(AnyCache& cache, std::size_t live) {
    EXPECT_EQ(cache.validate(), nullptr);
    std::vector<void*> objects(200);
    ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
    for (std::size_t i = 0; i < objects.size(); ++i) fill(objects[i], cache.object_bytes(), i);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      ASSERT_TRUE(holds(objects[i], cache.object_bytes(), i)) << "handed out twice";
    }
    cache.free_bulk(objects.size(), objects.data());
    cache.shrink();
    EXPECT_EQ(cache.live_count(), live);
    EXPECT_EQ(cache.validate(), nullptr);
  }
};
KMEM_ALL_WORLDS(Misuse);

int static_object[32];

TEST_P(Misuse, ForeignPointersAreReported) {
  auto cache = make(64);
  void* ours = cache->alloc();
  int local[32];
  void* heap = std::malloc(64);
  char* arena = reinterpret_cast<char*>(pages::arena.base);
  void* const strangers[] = {&local[0],
                             &static_object[0],
                             heap,
                             reinterpret_cast<void*>(8),
                             reinterpret_cast<void*>(17),
                             reinterpret_cast<void*>(4096),
                             reinterpret_cast<void*>(~std::uintptr_t{0}),
                             reinterpret_cast<void*>(~std::uintptr_t{0} << 12),
                             arena,
                             arena - 1,
                             arena + (pages::arena.page_count << pages::page_shift) - 8,
                             arena + (pages::arena.page_count << pages::page_shift)};
  for (void* stranger : strangers) {
    expect_report([&] { cache->free(stranger); }, "kmem_cache_free");
    if (reinterpret_cast<std::uintptr_t>(stranger) > 16) {
      expect_report([&] { world().kfree(stranger); }, "kfree");
      void* array[1] = {stranger};
      expect_report([&] { world().kfree_bulk(1, array); }, "kfree_bulk");
    }
    void* array[1] = {stranger};
    expect_report([&] { cache->free_bulk(1, array); }, "free_bulk");
    EXPECT_FALSE(cache->owns(stranger));
    EXPECT_EQ(world().ksize(stranger), 0u);
  }
  std::free(heap);
  expect_works(*cache, 1);
  cache->free(ours);
}

TEST_P(Misuse, PointersIntoObjectsAreReported) {
  for (const std::size_t bytes : {16u, 64u, 200u, 2048u, 4096u, 10000u}) {
    auto cache = make(bytes);
    void* objects[20];
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 20, objects));
    for (void* object : objects) fill(object, bytes, 5);
    for (const std::size_t offset : {std::size_t{1}, std::size_t{2}, std::size_t{8}, bytes / 2}) {
      if (offset >= bytes) continue;
      char* inside = static_cast<char*>(objects[7]) + offset;
      EXPECT_FALSE(cache->owns(inside)) << bytes << " +" << offset;
      expect_report([&] { cache->free(inside); }, "kmem_cache_free");
      expect_report([&] { world().kfree(inside); }, "kfree");
      void* array[1] = {inside};
      expect_report([&] { cache->free_bulk(1, array); }, "free_bulk");
    }
    for (void* object : objects) EXPECT_TRUE(holds(object, bytes, 5));
    expect_works(*cache, 20);
    cache->free_bulk(20, objects);
  }
}

TEST_P(Misuse, AnotherCachesObjectIsReportedAndStaysInUse) {
  auto mine = make({.name = "mine", .object_bytes = 64});
  auto theirs = make({.name = "theirs", .object_bytes = 64});
  void* object = theirs->alloc();
  fill(object, 64, 2);
  expect_report([&] { mine->free(object); }, "kmem_cache_free");
  void* array[1] = {object};
  expect_report([&] { mine->free_bulk(1, array); }, "free_bulk");
  expect_works(*mine, 0);
  EXPECT_TRUE(holds(object, 64, 2));
  EXPECT_TRUE(theirs->owns(object));
  expect_works(*theirs, 1);
  theirs->free(object);
  expect_works(*theirs, 0);
}

TEST_P(Misuse, TheReportNamesBothCaches) {
  auto mine = make({.name = "cache-mine", .object_bytes = 64});
  auto theirs = make({.name = "cache-theirs", .object_bytes = 64});
  void* object = theirs->alloc();
  mine->free(object);
  const auto lines = log_.take();
  EXPECT_GE(count_lines(lines, "cache-mine"), 1u) << joined(lines);
  EXPECT_GE(count_lines(lines, "cache-theirs"), 1u) << joined(lines);
  EXPECT_EQ(count_lines(lines, std::string(77, '=')), 1u) << joined(lines);
  theirs->free(object);
}

// Freed twice in a row: by every kind of call, as first object of a slab and as one of many.
TEST_P(Misuse, ImmediateDoubleFreeIsReported) {
  for (const std::size_t bytes : {8u, 32u, 64u, 200u, 1024u, 4096u, 9000u}) {
    for (const std::size_t others : {0u, 5u, 100u}) {
      auto cache = make(bytes);
      std::vector<void*> kept(others);
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, others, kept.data()));
      for (const int second : {0, 1, 2, 3}) {
        void* object = cache->alloc();
        void* array[1] = {object};
        cache->free(object);
        const auto twice = [&] {
          if (second == 0) cache->free(object);
          if (second == 1) world().kfree(object);
          if (second == 2) cache->free_bulk(1, array);
          if (second == 3) world().kfree_bulk(1, array);
        };
        SCOPED_TRACE(testing::Message() << bytes << " bytes, " << others << " others");
        expect_report(twice, second == 0   ? "free"
                             : second == 1 ? "kfree"
                             : second == 2 ? "free_bulk"
                                           : "kfree_bulk");
        expect_works(*cache, others);
      }
      cache->free_bulk(others, kept.data());
    }
  }
}

// Neighbours in one array: at its start, in its midst, at its end.
TEST_P(Misuse, TheSameObjectTwiceInOneArrayIsReported) {
  for (const std::size_t bytes : {32u, 200u, 4096u}) {
    for (const std::size_t n : {2u, 3u, 40u, 200u}) {
      for (const std::size_t place : {std::size_t{0}, n / 2 - 1, n - 2}) {
        for (const bool any_cache : {false, true}) {
          auto cache = make(bytes);
          std::vector<void*> objects(n - 1);
          ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n - 1, objects.data()));
          objects.insert(objects.begin() + static_cast<std::ptrdiff_t>(place), objects[place]);
          SCOPED_TRACE(testing::Message() << bytes << " bytes, number " << place << " of " << n
                                          << (any_cache ? ", kfree_bulk" : ", free_bulk"));
          expect_report(
              [&] {
                any_cache ? world().kfree_bulk(n, objects.data())
                          : cache->free_bulk(n, objects.data());
              },
              "twice in one array");
          expect_works(*cache, 0);
        }
      }
    }
  }
}

TEST_P(Misuse, DoubleFreeAfterShrinkIsReported) {
  auto cache = make(64);
  void* object = cache->alloc();
  cache->free(object);
  cache->shrink();
  expect_report([&] { cache->free(object); }, "kmem_cache_free");
  expect_works(*cache, 0);
}

TEST_P(Misuse, DoubleFreeOfKmallocBlocksIsReported) {
  for (const std::size_t bytes : {1u, 8u, 96u, 500u, 4096u, 8192u, 9000u, 100000u, 4194304u}) {
    void* keep = world().kmalloc(bytes);
    void* block = world().kmalloc(bytes);
    fill(keep, bytes, 3);
    world().kfree(block);
    expect_report([&] { world().kfree(block); }, "kfree");
    EXPECT_TRUE(holds(keep, bytes, 3));
    void* one = world().kmalloc(bytes);
    void* two = world().kmalloc(bytes);
    EXPECT_NE(one, two);
    world().kfree(one);
    world().kfree(two);
    world().kfree(keep);
  }
}

TEST_P(Misuse, InteriorOfLargeBlocksIsReported) {
  for (const std::size_t bytes : {std::size_t{100000}, pages::max_block_bytes * 2}) {
    auto* block = static_cast<char*>(world().kvmalloc(bytes));
    ASSERT_NE(block, nullptr);
    for (const std::size_t offset : {std::size_t{8}, pages::page_bytes, bytes - 4096}) {
      expect_report([&] { world().kfree(block + offset); }, "kfree");
      EXPECT_EQ(world().ksize(block + offset), 0u);
    }
    auto cache = make(64);
    expect_report([&] { cache->free(block); }, "kmem_cache_free");
    world().kfree(block);
    expect_report([&] { world().kfree(block); }, "second kfree");
  }
}

// ---- Destroy with live objects ----

TEST_P(Misuse, DestroyReportsEachLiveObjectAndKeepsThem) {
  for (const std::size_t bytes : {40u, 700u, 9000u}) {
    auto cache = make({.name = "leaky", .object_bytes = bytes});
    std::vector<void*> objects(150);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 150, objects.data()));
    std::vector<void*> live;
    std::vector<void*> freed;
    for (std::size_t i = 0; i < 150; ++i) (i % 10 == 3 ? live : freed).push_back(objects[i]);
    for (void* object : live) fill(object, bytes, reinterpret_cast<std::uintptr_t>(object));
    cache->free_bulk(freed.size(), freed.data());

    const auto before = debug::report_count(Fault::live_objects);
    cache->destroy();
    EXPECT_EQ(debug::report_count(Fault::live_objects), before + 1);
    const auto lines = log_.take();
    EXPECT_EQ(count_lines(lines, "@offset="), live.size()) << joined(lines);
    EXPECT_EQ(count_lines(lines, "BUG leaky"), 1u) << joined(lines);
    EXPECT_EQ(count_lines(lines, "Slab cache still has objects"), 1u) << joined(lines);

    // Others may use what was given back; the survivors' memory is nobody else's.
    auto next = make(bytes);
    std::vector<void*> others(300);
    ASSERT_TRUE(next->alloc_bulk(gfp::kernel, 300, others.data()));
    for (void* object : others) fill(object, bytes, 1);
    for (void* object : live) {
      EXPECT_TRUE(holds(object, bytes, reinterpret_cast<std::uintptr_t>(object)));
      EXPECT_FALSE(next->owns(object));
      EXPECT_EQ(world().ksize(object), 0u);
      expect_report([&] { next->free(object); }, "late kmem_cache_free");
      expect_report([&] { world().kfree(object); }, "late kfree");
    }
    next->free_bulk(300, others.data());
    expect_works(*next, 0);
  }
}

TEST_P(Misuse, DestroyWithoutLiveObjectsSaysNothing) {
  auto cache = make(100);
  void* objects[400];
  for (int node = 0; node < 3; ++node) {
    world().enter_cpu(static_cast<unsigned>(node));
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 400, objects));
    world().enter_cpu(virtual_cpus - 1);
    cache->free_bulk(400, objects);
  }
  cache->destroy();
  EXPECT_TRUE(log_.take().empty());
}

// KMEM_ON_ERROR is read once: the child starts anew.
TEST_P(Misuse, AbortsWhenConfiguredTo) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("KMEM_ON_ERROR", "abort", 1);
  const auto misuse = [&] {
    set_log_hook(nullptr, nullptr);
    int local = 0;
    world().kfree(&local);
  };
  EXPECT_DEATH(misuse(), "BUG ");
  unsetenv("KMEM_ON_ERROR");
  ::testing::FLAGS_gtest_death_test_style = "fast";
}

}  // namespace
}  // namespace kmem::test
