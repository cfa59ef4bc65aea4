// What a cache says about itself: usage, live objects, shrink's answer, slabinfo, geometry, tuning.
#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

class Insight : public WorldTest {
 protected:
  bool always_shrinks_to_false() const { return is_slob() || world().backend() == "slqb"; }

  std::vector<std::string> slabinfo() {
    std::FILE* file = std::tmpfile();
    EXPECT_EQ(world().slabinfo(fileno(file)), 0);
    std::rewind(file);
    std::vector<std::string> lines;
    char line[1024];
    while (std::fgets(line, sizeof(line), file) != nullptr) lines.emplace_back(line);
    std::fclose(file);
    return lines;
  }
};
KMEM_ALL_WORLDS(Insight);

std::set<void*> live_objects(AnyCache& cache) {
  std::set<void*> live;
  cache.for_each_live(
      [](void* context, void* object, std::size_t) {
        EXPECT_TRUE(static_cast<std::set<void*>*>(context)->insert(object).second);
      },
      &live);
  return live;
}

TEST_P(Insight, LiveObjectsAreExactlyThoseNotFreed) {
  for (const std::size_t bytes : {16u, 100u, 1500u, 6000u}) {
    auto cache = make(bytes);
    std::vector<void*> objects(700);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 700, objects.data()));
    EXPECT_EQ(live_objects(*cache).size(), 700u);
    std::set<void*> expected;
    for (std::size_t i = 0; i < 700; ++i) {
      i % 3 == 0 ? cache->free(objects[i]) : void(expected.insert(objects[i]));
    }
    EXPECT_EQ(live_objects(*cache), expected) << "with queues filled, " << bytes;
    cache->shrink();
    EXPECT_EQ(live_objects(*cache), expected) << "after shrink, " << bytes;
    for (void* object : expected) cache->free(object);
    EXPECT_TRUE(live_objects(*cache).empty());
  }
}

TEST_P(Insight, LiveObjectsHaveOffsetsInTheirSlab) {
  auto cache = make(100);
  std::vector<void*> objects(100);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 100, objects.data()));
  cache->for_each_live(
      [](void*, void* object, std::size_t offset) {
        const pages::Page* head = pages::page_of(object)->head;
        EXPECT_EQ(pages::address_of(head) + offset, object);
      },
      nullptr);
  cache->free_bulk(100, objects.data());
}

TEST_P(Insight, ShrinkSaysWhetherSlabsRemain) {
  auto cache = make(64);
  EXPECT_FALSE(cache->shrink());  // never used
  void* object = cache->alloc();
  EXPECT_EQ(cache->shrink(), !always_shrinks_to_false());
  EXPECT_EQ(cache->shrink(), !always_shrinks_to_false());
  cache->free(object);
  EXPECT_FALSE(cache->shrink());
  EXPECT_FALSE(cache->shrink());
}

TEST_P(Insight, ShrinkGivesTheMemoryBack) {
  for (const std::size_t bytes : {32u, 256u, 3000u, 40000u}) {
    auto cache = make(bytes);
    const std::size_t before = pages::usage().allocated_bytes;
    const std::size_t n = std::min<std::size_t>(20000, (std::size_t{8} << 20) / bytes);
    std::vector<void*> objects(n);
    for (unsigned cpu = 0; cpu < 4; ++cpu) {
      world().enter_cpu(cpu * 2);
      ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
      world().enter_cpu(7 - cpu);
      cache->free_bulk(n, objects.data());
    }
    EXPECT_FALSE(cache->shrink());
    EXPECT_EQ(pages::usage().allocated_bytes, before) << bytes;
    EXPECT_EQ(pages::usage().free_resident_bytes, 0u);
    EXPECT_EQ(cache->usage().slab_bytes, 0u);
    EXPECT_EQ(cache->usage().slabs, 0u);
  }
}

TEST_P(Insight, UsageIsExactAfterShrink) {
  auto cache = make(120);
  std::vector<void*> objects(1000);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 1000, objects.data()));
  for (std::size_t i = 0; i < 1000; i += 2) cache->free(objects[i]);
  cache->shrink();
  const CacheUsage usage = cache->usage();
  if (!is_slob()) {  // its pages belong to all caches
    EXPECT_EQ(usage.active_objects, 500u);
    EXPECT_GE(usage.total_objects, usage.active_objects);
    EXPECT_GE(usage.slabs, usage.active_slabs);
    EXPECT_GE(usage.slabs * cache->geometry().objects, usage.total_objects);
    EXPECT_GE(usage.slab_bytes, 500u * 120);
  }
  for (std::size_t i = 1; i < 1000; i += 2) cache->free(objects[i]);
  cache->shrink();
  EXPECT_EQ(cache->usage().active_objects, 0u);
  EXPECT_EQ(cache->usage().total_objects, 0u);
}

TEST_P(Insight, SlabinfoHasTheKernelsHeaderAndARowACache) {
  auto cache = make({.name = "in-slabinfo", .object_bytes = 100});
  auto named = make({.name = "a-name-longer-than-seventeen-letters", .object_bytes = 300});
  void* object = cache->alloc();
  const auto lines = slabinfo();
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[0], "slabinfo - version: 2.1\n");
  EXPECT_EQ(lines[1],
            "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : "
            "tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> "
            "<sharedavail>\n");
  std::size_t ours = 0;
  for (std::size_t i = 2; i < lines.size(); ++i) {
    std::istringstream row(lines[i]);
    std::string name, colon1, tunables, colon2, slabdata;
    std::size_t active, total, slot, per_slab, pages_per_slab;
    std::size_t limit, batch, shared, active_slabs, slabs, available;
    row >> name >> active >> total >> slot >> per_slab >> pages_per_slab >> colon1 >> tunables >>
        limit >> batch >> shared >> colon2 >> slabdata >> active_slabs >> slabs >> available;
    ASSERT_TRUE(row) << lines[i];
    EXPECT_EQ(colon1 + tunables + colon2 + slabdata, ":tunables:slabdata") << lines[i];
    EXPECT_LE(active, total) << lines[i];
    EXPECT_LE(active_slabs, slabs) << lines[i];
    if (name != "in-slabinfo") continue;
    ++ours;
    EXPECT_EQ(slot, cache->geometry().slot_bytes);
    EXPECT_EQ(per_slab, cache->geometry().objects);
    EXPECT_EQ(pages_per_slab, std::size_t{1} << cache->geometry().order);
    EXPECT_GE(active, 1u);
  }
  EXPECT_EQ(ours, 1u);
  cache->free(object);
}

TEST_P(Insight, SlabinfoSaysWhenItCannotWrite) {
  errno = 0;
  EXPECT_EQ(world().slabinfo(-1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_P(Insight, GeometryHoldsWhatItSays) {
  for (const std::size_t bytes : {1u, 8u, 24u, 100u, 192u, 700u, 2048u, 4096u, 10000u, 1000000u}) {
    const CacheSpec spec{.name = "geometry", .object_bytes = bytes};
    auto cache = make(spec);
    const Geometry& geometry = cache->geometry();
    EXPECT_GE(geometry.slot_bytes, bytes);
    EXPECT_GE(geometry.objects, 1u);
    EXPECT_LE(geometry.order, pages::max_order);
    EXPECT_LE(geometry.objects * geometry.slot_bytes, pages::page_bytes << geometry.order);
    if (!is_slob()) {  // blocks of mixed sizes have no slots
      EXPECT_EQ(geometry.slot_bytes % geometry.align, 0u);
    }
    CacheSpec unmerged = spec;
    unmerged.flags |= slab_flag::no_merge;
    const Geometry planned = world().geometry(unmerged, nodes::present_cpus());
    EXPECT_EQ(planned.slot_bytes, geometry.slot_bytes);
    EXPECT_EQ(planned.order, geometry.order);
    EXPECT_EQ(planned.objects, geometry.objects);
  }
}

TEST_P(Insight, EverySlotOfASlabIsUsed) {
  if (is_slob()) GTEST_SKIP() << "its pages belong to all caches";
  for (const std::size_t bytes : {24u, 100u, 700u}) {
    auto cache = make(bytes);
    const std::size_t n = cache->geometry().objects * std::size_t{6};
    std::vector<void*> objects(n);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, n, objects.data()));
    cache->shrink();
    std::set<const pages::Page*> heads;
    for (void* object : objects) heads.insert(pages::page_of(object)->head);
    EXPECT_LE(heads.size(), 7u) << bytes;
    cache->free_bulk(n, objects.data());
  }
}

TEST_P(Insight, RetuningKeepsEveryObject) {
  auto cache = make(200);
  const Tunables first = cache->tunables();
  std::vector<void*> objects(500);
  for (const unsigned limit : {1u, 2u, 7u, 64u, 200u}) {
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 500, objects.data()));
    for (std::size_t i = 0; i < 500; ++i) fill(objects[i], 200, i);
    cache->free_bulk(250, objects.data());
    const Tunables wish{.limit = limit, .batchcount = (limit + 1) / 2, .shared = 2};
    if (cache->retune(wish)) {
      EXPECT_EQ(cache->tunables().limit, limit);
      EXPECT_EQ(cache->tunables().batchcount, wish.batchcount);
    } else {
      EXPECT_EQ(cache->tunables().limit, first.limit);
    }
    for (std::size_t i = 250; i < 500; ++i) ASSERT_TRUE(holds(objects[i], 200, i));
    cache->free_bulk(250, &objects[250]);
    EXPECT_EQ(cache->validate(), nullptr) << limit;
    EXPECT_EQ(cache->live_count(), 0u) << limit;
  }
  if (world().backend() == "slab") {
    EXPECT_EQ(cache->tunables().limit, 200u);
  }
}

TEST_P(Insight, BadTuningIsRefused) {
  auto cache = make(200);
  const Tunables before = cache->tunables();
  EXPECT_FALSE(cache->retune({.limit = 10, .batchcount = 50, .shared = -1}));
  EXPECT_EQ(cache->tunables().limit, before.limit);
  EXPECT_EQ(cache->tunables().batchcount, before.batchcount);
  cache->free(cache->alloc());
}

TEST_P(Insight, PathCountsGrowWithTraffic) {
  auto cache = make(64);
  const PathCounts before = cache->path_counts();
  void* objects[300];
  for (void*& object : objects) object = cache->alloc();
  for (void* object : objects) cache->free(object);
  const PathCounts after = cache->path_counts();
  EXPECT_GE(after.alloc_fast + after.alloc_slow + after.slabs_created,
            before.alloc_fast + before.alloc_slow + before.slabs_created);
  if (world().is_virtual()) {
    EXPECT_EQ(after.alloc_fast + after.alloc_slow - before.alloc_fast - before.alloc_slow, 300u);
    EXPECT_EQ(after.free_fast + after.free_slow - before.free_fast - before.free_slow, 300u);
  }
}

}  // namespace
}  // namespace kmem::test
