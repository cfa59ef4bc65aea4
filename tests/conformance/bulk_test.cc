// Bulk calls: all or nothing, any mix with single calls, arrays as scratch, objects of any cache.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "common/debug/report.h"
#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

class Bulk : public WorldTest {
 protected:
  void expect_none_live(AnyCache& cache) {
    cache.shrink();
    EXPECT_EQ(cache.live_count(), 0u);
    EXPECT_EQ(cache.validate(), nullptr);
  }
};
KMEM_ALL_WORLDS(Bulk);

constexpr std::size_t counts[] = {1,  2,  3,  7,   8,   15,  16,  17,  31,  32,  33,   34,
                                  60, 63, 64, 120, 121, 128, 158, 250, 256, 257, 1000, 3000};

TEST_P(Bulk, CountOfZeroSucceedsAndTouchesNothing) {
  auto cache = make(64);
  void* untouched = &cache;
  EXPECT_TRUE(cache->alloc_bulk(gfp::kernel, 0, &untouched));
  EXPECT_TRUE(cache->alloc_bulk(gfp::kernel, 0, nullptr));
  EXPECT_TRUE(cache->alloc_bulk_generic(gfp::kernel, 0, nullptr));
  cache->free_bulk(0, nullptr);
  cache->free_bulk_generic(0, nullptr);
  world().kfree_bulk(0, nullptr);
  EXPECT_EQ(untouched, &cache);
  EXPECT_EQ(cache->live_count(), 0u);
}

TEST_P(Bulk, ObjectsAreDistinctWritableAndAllComeBack) {
  for (const std::size_t bytes : {8u, 64u, 192u, 256u, 1024u, 4096u}) {
    auto cache = make(bytes);
    for (const std::size_t n : counts) {
      if (n * bytes > (std::size_t{2} << 20)) continue;
      std::vector<void*> objects(n);
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NE(objects[i], nullptr);
        ASSERT_TRUE(cache->owns(objects[i]));
        fill(objects[i], bytes, i);
      }
      for (std::size_t i = 0; i < n; ++i) ASSERT_TRUE(holds(objects[i], bytes, i));
      cache->free_bulk(n, objects.data());
      ASSERT_EQ(cache->validate(), nullptr) << bytes << " x " << n;
    }
    expect_none_live(*cache);
  }
}

TEST_P(Bulk, ZeroHoldsForEveryObject) {
  for (const std::size_t bytes : {8u, 13u, 96u, 1000u, 4096u}) {
    auto cache = make(bytes);
    std::vector<void*> objects(300);
    for (int round = 0; round < 3; ++round) {
      const bool generic = round == 2;
      ASSERT_TRUE(generic ? cache->alloc_bulk_generic(gfp::kernel | gfp::zero, 300, objects.data())
                          : cache->alloc_bulk(gfp::kernel | gfp::zero, 300, objects.data()));
      for (void* object : objects) {
        ASSERT_TRUE(all_zero(object, bytes)) << bytes;
        std::memset(object, 0xee, bytes);
      }
      cache->free_bulk(300, objects.data());
    }
  }
}

TEST_P(Bulk, MixesWithSingleAndGenericCalls) {
  auto cache = make(120);
  std::vector<void*> live;
  Random random("bulk_mix");
  for (std::size_t step = 0; step < scaled(3000); ++step) {
    if (live.size() < 700 && random.chance(55)) {
      const std::size_t n = random.between(1, 90);
      std::vector<void*> objects(n);
      switch (random.below(3)) {
        case 0:
          ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
          break;
        case 1:
          ASSERT_TRUE(cache->alloc_bulk_generic(gfp::kernel, n, objects.data()));
          break;
        default:
          for (void*& object : objects) object = cache->alloc();
      }
      for (void* object : objects) fill(object, 120, reinterpret_cast<std::uintptr_t>(object));
      live.insert(live.end(), objects.begin(), objects.end());
    } else if (!live.empty()) {
      const std::size_t n = random.between(1, std::min<std::size_t>(live.size(), 90));
      for (std::size_t i = 0; i < n; ++i) {
        std::swap(live[live.size() - 1 - i], live[random.below(live.size() - i)]);
      }
      std::vector<void*> objects(live.end() - static_cast<std::ptrdiff_t>(n), live.end());
      live.resize(live.size() - n);
      for (void* object : objects) {
        ASSERT_TRUE(holds(object, 120, reinterpret_cast<std::uintptr_t>(object))) << step;
      }
      switch (random.below(4)) {
        case 0:
          cache->free_bulk(n, objects.data());
          break;
        case 1:
          cache->free_bulk_generic(n, objects.data());
          break;
        case 2:
          world().kfree_bulk(n, objects.data());
          break;
        default:
          for (void* object : objects) cache->free(object);
      }
    }
    if (step % 64 == 0) {
      ASSERT_EQ(cache->validate(), nullptr) << step;
    }
  }
  cache->shrink();
  EXPECT_EQ(cache->live_count(), live.size());
  cache->free_bulk(live.size(), live.data());
  expect_none_live(*cache);
}

TEST_P(Bulk, AllOrNothingWhenMemoryEnds) {
  for (const std::size_t bytes : {64u, 512u, 4096u, 20000u}) {
    auto cache = make(bytes);
    void* kept = cache->alloc();
    fill(kept, bytes, 9);
    cache->shrink();
    const std::size_t n = 4000;  // more than any queue holds
    std::vector<void*> objects(n);
    for (const bool generic : {false, true}) {
      const std::size_t before = pages::usage().allocated_bytes;
      pages::set_limit_bytes(before + (std::size_t{1} << 16));
      errno = 0;
      EXPECT_FALSE(generic ? cache->alloc_bulk_generic(gfp::kernel, n, objects.data())
                           : cache->alloc_bulk(gfp::kernel, n, objects.data()));
      EXPECT_EQ(errno, ENOMEM);
      pages::set_limit_bytes(0);
      EXPECT_EQ(cache->validate(), nullptr);
      cache->shrink();
      EXPECT_EQ(cache->live_count(), 1u) << bytes;
      EXPECT_LE(pages::usage().allocated_bytes, before) << bytes;
    }
    EXPECT_TRUE(holds(kept, bytes, 9));
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 100, objects.data()));  // and then it works again
    cache->free_bulk(100, objects.data());
    cache->free(kept);
    expect_none_live(*cache);
  }
}

TEST_P(Bulk, CountThatOverflowsIsRefused) {
  auto cache = make(64);
  for (const std::size_t n :
       {SIZE_MAX, SIZE_MAX / sizeof(void*) + 1, std::size_t{PTRDIFF_MAX} / sizeof(void*) + 1}) {
    void* objects[1] = {};
    for (const bool generic : {false, true}) {
      errno = 0;
      EXPECT_FALSE(generic ? cache->alloc_bulk_generic(gfp::kernel, n, objects)
                           : cache->alloc_bulk(gfp::kernel, n, objects));
      EXPECT_EQ(errno, EINVAL);
      EXPECT_EQ(log_.take().size(), 1u);
      errno = 0;
      generic ? cache->free_bulk_generic(n, objects) : cache->free_bulk(n, objects);
      EXPECT_EQ(errno, EINVAL);
      EXPECT_EQ(log_.take().size(), 1u);
    }
  }
}

TEST_P(Bulk, TheArrayIsScratchAfterwards) {
  auto cache = make(64);
  void* objects[300];
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 300, objects));
    cache->free_bulk(300, objects);
    std::memset(objects, 0xff, sizeof(objects));
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 300, objects));
    world().kfree_bulk(300, objects);
    std::memset(objects, 0xff, sizeof(objects));
  }
  expect_none_live(*cache);
}

TEST_P(Bulk, NullEntriesAreSkipped) {
  auto cache = make(64);
  for (const bool generic : {false, true}) {
    void* objects[66];
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 66, objects));
    void* with_holes[132];
    for (std::size_t i = 0; i < 132; ++i) with_holes[i] = i % 2 == 0 ? nullptr : objects[i / 2];
    generic ? cache->free_bulk_generic(132, with_holes) : cache->free_bulk(132, with_holes);
    expect_none_live(*cache);
  }
  void* nothing[3] = {};
  cache->free_bulk(3, nothing);
  world().kfree_bulk(3, nothing);
}

// Arrays of anything that kfree() takes: caches, sizes, nodes, large blocks, runs, NULL, size zero.
TEST_P(Bulk, KfreeBulkTakesObjectsOfEveryKind) {
  auto one = make({.name = "one", .object_bytes = 64});
  auto two = make({.name = "two", .object_bytes = 520});
  Random random("kfree_bulk");
  const auto round = [&](std::size_t n) {
    std::vector<void*> objects(n);
    for (void*& object : objects) {
      const int node = static_cast<int>(random.below(static_cast<std::size_t>(nodes::count())));
      world().enter_cpu(static_cast<unsigned>(random.below(virtual_cpus)));
      switch (random.below(8)) {
        case 0:
        case 1:
          object = one->alloc_node(gfp::kernel, node);
          break;
        case 2:
          object = two->alloc();
          break;
        case 3:
        case 4:
          object = world().kmalloc(random.between(1, 9000));
          break;
        case 5:
          object = world().kmalloc_node(random.between(1, 300), gfp::kernel, node);
          break;
        case 6:
          object = random.chance(80) ? world().kmalloc(random.between(9000, 70000))
                                     : world().kvmalloc(pages::max_block_bytes + 1);
          break;
        default:
          object = random.chance(50) ? nullptr : reinterpret_cast<void*>(16);
          continue;
      }
      ASSERT_NE(object, nullptr);
    }
    world().enter_cpu(static_cast<unsigned>(random.below(virtual_cpus)));
    world().kfree_bulk(n, objects.data());
  };
  for (const std::size_t n : {1u, 2u, 31u, 32u, 33u, 64u, 65u, 200u}) round(n);
  for (std::size_t bytes = 1; bytes < 140000; bytes += 1 + bytes / 4) {
    world().kfree(world().kmalloc(bytes));  // every cache of kmalloc's exists now
  }
  world().shrink_all();
  const std::size_t before = pages::usage().allocated_bytes;
  for (std::size_t i = 0; i < scaled(60); ++i) round(random.between(1, 130));
  expect_none_live(*one);
  expect_none_live(*two);
  world().shrink_all();
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

TEST_P(Bulk, AStrangerInTheArrayIsReportedAndTheRestFreed) {
  auto cache = make({.name = "ours", .object_bytes = 64});
  auto other = make({.name = "theirs", .object_bytes = 64});
  void* foreign = other->alloc();
  int local = 0;
  for (const std::size_t n : {3u, 64u, 200u}) {
    for (const std::size_t place : {std::size_t{0}, n / 2, n - 1}) {
      std::vector<void*> objects(n);
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
      void* ours = objects[place];
      objects[place] = place % 2 == 0 ? foreign : &local;
      const auto reports = debug::report_count();
      cache->free_bulk(n, objects.data());
      EXPECT_EQ(debug::report_count(), reports + 1);
      EXPECT_EQ(count_lines(log_.take(), "BUG "), 1u);
      cache->shrink();
      EXPECT_EQ(cache->live_count(), 1u);
      cache->free(ours);
      EXPECT_EQ(cache->validate(), nullptr);
    }
  }
  EXPECT_TRUE(other->owns(foreign));
  other->free(foreign);
}

}  // namespace
}  // namespace kmem::test
