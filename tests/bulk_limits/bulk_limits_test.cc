// Bulk frees at counts around every internal batch limit, of arrays that mix slabs, nodes, caches
// and large blocks in each order: nothing may be lost. (A recent kernel lost objects when its 32nd
// set-aside object was the last of the array.)
#include <algorithm>
#include <set>

#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

class BulkLimits : public WorldTest {
 protected:
  static int nodes_here() { return nodes::count(); }

  // Counts around the fixed limits of the designs, and around those that this cache has.
  std::vector<std::size_t> counts_for(AnyCache& cache, std::size_t most) {
    std::set<std::size_t> counts;
    const Geometry& geometry = cache.geometry();
    for (const std::size_t limit :
         {std::size_t{1}, std::size_t{3}, std::size_t{32}, std::size_t{60}, std::size_t{64},
          std::size_t{120}, std::size_t{256}, std::size_t{geometry.limit},
          std::size_t{geometry.limit} * 2, std::size_t{geometry.batchcount},
          std::size_t{geometry.shared}, std::size_t{geometry.objects},
          std::size_t{geometry.objects} * 2, std::size_t{geometry.cpu_partial}}) {
      for (std::size_t n = limit > 1 ? limit - 1 : 1; n <= limit + 2; ++n) {
        if (n >= 1 && n <= most) counts.insert(n);
      }
    }
    return {counts.begin(), counts.end()};
  }

  void expect_empty(AnyCache& cache, const std::string& what) {
    ASSERT_EQ(cache.validate(), nullptr) << what;
    ASSERT_EQ(cache.live_count(), 0u) << what;
  }
};
KMEM_ALL_WORLDS(BulkLimits);

// Which of two kinds stands at place i of n: 0 is what the freeing CPU likes best (its own node,
// this cache), 1 is what has to be set aside.
using Arrangement = bool (*)(std::size_t i, std::size_t n);
struct NamedArrangement {
  const char* name;
  Arrangement odd;
};
constexpr NamedArrangement arrangements[] = {
    {"none", [](std::size_t, std::size_t) { return false; }},
    {"all", [](std::size_t, std::size_t) { return true; }},
    {"the first", [](std::size_t i, std::size_t) { return i == 0; }},
    {"the last", [](std::size_t i, std::size_t n) { return i + 1 == n; }},
    {"first and last", [](std::size_t i, std::size_t n) { return i == 0 || i + 1 == n; }},
    {"every second", [](std::size_t i, std::size_t) { return i % 2 == 1; }},
    {"every third", [](std::size_t i, std::size_t) { return i % 3 == 2; }},
    {"the last 32", [](std::size_t i, std::size_t n) { return i + 32 >= n; }},
    {"the last 31", [](std::size_t i, std::size_t n) { return i + 31 >= n; }},
    {"31 and the last", [](std::size_t i, std::size_t n) { return i < 31 || i + 1 == n; }},
    {"the first 32", [](std::size_t i, std::size_t) { return i < 32; }},
    {"the first 33", [](std::size_t i, std::size_t) { return i < 33; }},
    {"the second half", [](std::size_t i, std::size_t n) { return i >= n / 2; }},
};

// ---- One cache: slabs and nodes mixed ----

TEST_P(BulkLimits, SlabsAndNodesMixed) {
  for (const std::size_t bytes : {64u, 256u, 1024u, 4096u}) {
    auto cache = make(bytes);
    const std::size_t most = std::min<std::size_t>(1300, (std::size_t{1} << 20) / bytes);
    for (const std::size_t n : counts_for(*cache, most)) {
      for (const auto& arrangement : arrangements) {
        world().enter_cpu(0);
        std::vector<void*> objects(n);
        for (std::size_t i = 0; i < n; ++i) {
          const int node = arrangement.odd(i, n) ? nodes_here() - 1 : 0;
          objects[i] = cache->alloc_node(gfp::kernel, node);
          ASSERT_NE(objects[i], nullptr);
        }
        cache->free_bulk(n, objects.data());
        expect_empty(*cache, arrangement.name + std::string(" of ") + std::to_string(n));
        if (HasFatalFailure()) return;
      }
    }
    cache->shrink();
    EXPECT_EQ(cache->usage().slabs, 0u);
  }
}

// The array holds every slab's objects apart: neighbours never share a slab.
TEST_P(BulkLimits, NeighboursOfDifferentSlabs) {
  for (const std::size_t bytes : {64u, 700u, 2048u}) {
    auto cache = make(bytes);
    for (const std::size_t slabs : {2u, 3u, 4u, 5u, 40u}) {
      const std::size_t objects_a_slab = std::min<std::size_t>(cache->geometry().objects, 64);
      const std::size_t n = slabs * objects_a_slab;
      std::vector<void*> in_order(n);
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, in_order.data()));
      std::sort(in_order.begin(), in_order.end());
      std::vector<void*> dealt;
      for (std::size_t i = 0; i < objects_a_slab; ++i) {
        for (std::size_t slab = 0; slab < slabs; ++slab) {
          dealt.push_back(in_order[slab * objects_a_slab + i]);
        }
      }
      world().enter_cpu(static_cast<unsigned>(slabs) % virtual_cpus);
      cache->free_bulk(n, dealt.data());
      expect_empty(*cache, std::to_string(slabs) + " slabs");
    }
    cache->shrink();
    EXPECT_EQ(cache->usage().slabs, 0u);
  }
}

// Every way to fill the queues to the brim first, then one bulk free over it.
TEST_P(BulkLimits, QueuesFilledToEveryLevelBefore) {
  auto cache = make(256);
  const Geometry& geometry = cache->geometry();
  const std::size_t hold = std::max<std::size_t>({geometry.limit, geometry.objects, 64});
  const std::size_t levels[] = {0, 1, geometry.batchcount, hold - 1, hold, hold + 1, 2 * hold};
  for (const std::size_t level : levels) {
    for (const std::size_t n : counts_for(*cache, 1100)) {
      std::vector<void*> before(level);
      std::vector<void*> objects(n);
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, level, before.data()));
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
      for (void* object : before) cache->free(object);
      cache->free_bulk(n, objects.data());
      expect_empty(*cache, std::to_string(level) + " before " + std::to_string(n));
      if (HasFatalFailure()) return;
    }
  }
  cache->shrink();
  EXPECT_EQ(cache->usage().slabs, 0u);
}

// ---- Arrays of any caches ----

// What the second kind of an array of kfree_bulk() is.
enum class Odd { other_cache, kmalloc_block, large_block, null };

TEST_P(BulkLimits, CachesAndLargeBlocksMixed) {
  auto cache = make({.name = "ours", .object_bytes = 128});
  auto other = make({.name = "other", .object_bytes = 384});
  for (const std::size_t bytes : {300u, 9000u}) world().kfree(world().kmalloc(bytes));
  world().shrink_all();  // what kmalloc makes once is there now
  const std::size_t before = pages::usage().allocated_bytes;
  const auto round = [&](Odd kind, std::size_t n, const NamedArrangement& arrangement) {
    std::vector<void*> objects(n);
    for (std::size_t i = 0; i < n; ++i) {
      void*& object = objects[i];
      if (!arrangement.odd(i, n)) {
        object = cache->alloc();
      } else if (kind == Odd::other_cache) {
        object = other->alloc();
      } else if (kind == Odd::kmalloc_block) {
        object = world().kmalloc(300);
      } else if (kind == Odd::large_block) {
        object = world().kmalloc(9000);
      } else {
        object = i % 2 == 0 ? nullptr : reinterpret_cast<void*>(16);
        continue;
      }
      ASSERT_NE(object, nullptr);
    }
    world().kfree_bulk(n, objects.data());
    expect_empty(*cache, arrangement.name + std::string(" of ") + std::to_string(n));
    expect_empty(*other, arrangement.name + std::string(" of ") + std::to_string(n));
  };
  for (const Odd kind : {Odd::other_cache, Odd::kmalloc_block, Odd::large_block, Odd::null}) {
    for (const std::size_t n : {1u, 2u, 31u, 32u, 33u, 34u, 59u, 60u, 61u, 63u, 64u, 65u, 119u,
                                120u, 121u, 255u, 256u, 257u}) {
      for (const auto& arrangement : arrangements) {
        round(kind, n, arrangement);
        if (HasFatalFailure()) return;
      }
    }
    world().shrink_all();
    EXPECT_EQ(pages::usage().allocated_bytes, before);
  }
}

TEST_P(BulkLimits, ManyCachesInOneArray) {
  std::vector<CachePtr> caches;
  for (std::size_t i = 0; i < 70; ++i) {
    const std::string name = "one-of-" + std::to_string(i);
    caches.push_back(make({.name = name.c_str(), .object_bytes = 16 + 8 * (i % 12)}));
  }
  Random random("many caches");
  for (const std::size_t n : {64u, 65u, 70u, 128u, 129u, 500u}) {
    std::vector<void*> objects(n);
    for (std::size_t i = 0; i < n; ++i) objects[i] = caches[i % caches.size()]->alloc();
    for (std::size_t i = n; i > 1; --i) std::swap(objects[i - 1], objects[random.below(i)]);
    world().kfree_bulk(n, objects.data());
    for (auto& cache : caches) expect_empty(*cache, std::to_string(n));
  }
}

// ---- Allocation ----

TEST_P(BulkLimits, AllocationsAtEveryLimit) {
  for (const std::size_t bytes : {64u, 256u, 2048u}) {
    auto cache = make(bytes);
    for (const std::size_t n : counts_for(*cache, 1100)) {
      for (const std::size_t queued : {std::size_t{0}, n / 2, n, n + 1}) {
        std::vector<void*> objects(std::max(n, queued));
        ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, queued, objects.data()));
        for (std::size_t i = 0; i < queued; ++i) cache->free(objects[i]);
        ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
        ASSERT_EQ(cache->live_count(), n) << bytes << " x " << n << " after " << queued;
        std::set<void*> distinct(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(n));
        ASSERT_EQ(distinct.size(), n);
        cache->free_bulk(n, objects.data());
        expect_empty(*cache, std::to_string(n));
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace kmem::test
