// Bulk calls of SLQB: what they take and leave, and that they agree with loops of single calls.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "common/debug/report.h"
#include "tests/backends/slqb/fixture.h"

namespace kmem::slqb {
namespace {

class SlqbBulk : public SlqbTest {
 protected:
  std::vector<void*> bulk_on(Cpu cpu, std::size_t n) {
    percpu::enter_virtual_cpu(cpu);
    std::vector<void*> objects(n);
    EXPECT_TRUE(cache.alloc_bulk(gfp::kernel, n, objects.data()));
    return objects;
  }
  void free_bulk_on(Cpu cpu, std::vector<void*> objects) {
    percpu::enter_virtual_cpu(cpu);
    cache.free_bulk(objects.size(), objects.data());
  }
};

TEST_F(SlqbBulk, NothingIsAllocatedAndFreedForACountOfZero) {
  create();
  EXPECT_TRUE(cache.alloc_bulk(gfp::kernel, 0, nullptr));
  cache.free_bulk(0, nullptr);
  EXPECT_EQ(cache.usage().slabs, 0U);
}

TEST_F(SlqbBulk, TheLifoIsCutInOnePieceAndSplicedInOne) {
  create();
  const std::vector<void*> objects = bulk_on(0, 6);
  free_bulk_on(0, objects);
  const std::uint64_t locks = cache.path_counts().locks;

  EXPECT_EQ(bulk_on(0, 6), objects);

  EXPECT_EQ(cache.path_counts().locks, locks);
  free_bulk_on(0, objects);
}

TEST_F(SlqbBulk, PartialSlabsAreEmptiedUnderOneHoldOfTheLock) {
  create();
  const std::vector<void*> objects = bulk_on(0, 32);
  std::vector<void*> even, odd;
  for (std::size_t i = 0; i < 32; ++i) (i % 2 == 0 ? even : odd).push_back(objects[i]);
  free_bulk_on(0, even);
  ASSERT_EQ(cache.queues(0).lifo, 8U);  // and 8 in two slabs
  const std::uint64_t locks = cache.path_counts().locks;

  const std::vector<void*> again = bulk_on(0, 16);

  EXPECT_EQ(cache.path_counts().locks, locks + 1);
  EXPECT_EQ(cache.statistics().alloc_slab_fill, 8U);
  EXPECT_EQ(cache.statistics().alloc_slab_new, 4U);
  free_bulk_on(0, again);
  free_bulk_on(0, odd);
}

TEST_F(SlqbBulk, ANewSlabFillsTheArrayByItself) {
  create();
  const std::vector<void*> objects = bulk_on(0, 12);
  EXPECT_EQ(cache.statistics().alloc_slab_new, 2U);
  EXPECT_EQ(cache.statistics().alloc_slab_fill, 0U);
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), 12U);
  EXPECT_EQ(cache.usage().active_objects, 12U);
  free_bulk_on(0, objects);
}

TEST_F(SlqbBulk, AFailedAllocationLeavesNothingBehind) {
  create();
  free_on(0, alloc_on(0, 8));
  for (std::uint64_t k = 1; k <= 4; ++k) {
    std::vector<void*> objects(8 + 40);
    pages::fail_allocation(k, true);
    EXPECT_FALSE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
    pages::fail_allocation(0);
    ASSERT_STREQ(cache.validate(), nullptr) << k;
    cache.shrink();
    EXPECT_EQ(cache.usage().slabs, 0U) << k;
  }
}

// The two caches get the same objects in the same order, so their queues must be as long.
TEST_F(SlqbBulk, OverHiwaterShedsAsManyAsALoopOfSingleFrees) {
  create();
  for (const std::size_t n : {1, 3, 4, 5, 8, 9, 12, 16, 17, 31, 64, 65, 200}) {
    std::vector<void*> objects = bulk_on(0, n);
    const std::size_t before = cache.queues(0).lifo;
    free_bulk_on(0, objects);
    const std::size_t total = before + n;
    const std::size_t expected = total <= 8 ? total : total - (total - 8 + 3) / 4 * 4;
    EXPECT_EQ(cache.queues(0).lifo, expected) << n;
    ASSERT_STREQ(cache.validate(), nullptr) << n;
  }
}

TEST_F(SlqbBulk, ShedObjectsOfManyOwnersGoHomeGrouped) {
  create({.name = "test", .object_bytes = 512}, {.limit = 16, .batchcount = 16});
  const std::vector<void*> of_0 = bulk_on(0, 8);
  const std::vector<void*> of_1 = bulk_on(1, 8);
  std::vector<void*> mixed;
  for (std::size_t i = 0; i < 8; ++i) {
    mixed.push_back(of_0[i]);
    mixed.push_back(of_1[i]);
  }
  free_bulk_on(2, mixed);
  trim_on(2);  // one batch: all 16

  EXPECT_EQ(cache.statistics().flush_rfree_list, 2U);  // once an owner, not once an object
  EXPECT_EQ(cache.queues(0).remote_free, 8U);
  EXPECT_EQ(cache.queues(1).remote_free, 8U);
}

TEST_F(SlqbBulk, RepeatsInTheArrayAreReportedAndDropped) {
  create();
  std::vector<void*> objects = bulk_on(0, 3);
  std::vector<void*> twice = {objects[0], objects[0], objects[1], objects[2], objects[2]};
  const std::uint64_t before = debug::report_count(debug::Fault::double_free);

  free_bulk_on(0, twice);
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 2);
  EXPECT_EQ(cache.queues(0).lifo, 3U);

  free_bulk_on(0, {objects[0]});  // the head of the LIFO
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 3);
  EXPECT_EQ(cache.queues(0).lifo, 3U);
}

TEST_F(SlqbBulk, OnePassFreesAllOrNothing) {
  create();
  std::vector<void*> objects = bulk_on(0, 6);
  const std::size_t before = cache.queues(0).lifo;
  void* stranger = &stranger;
  for (void* odd : {stranger, static_cast<void*>(nullptr), objects[1]}) {
    void* batch[] = {objects[0], objects[1], odd, objects[2]};
    EXPECT_EQ(cache.free_bulk_checked(4, batch), 0U);
    EXPECT_EQ(cache.queues(0).lifo, before);
  }
  percpu::enter_virtual_cpu(0);
  EXPECT_EQ(cache.free_bulk_checked(3, objects.data()), 3U);
  EXPECT_EQ(cache.queues(0).lifo, before + 3);

  // The LIFO's head once more, in front of others.
  const std::uint64_t reports = debug::report_count(debug::Fault::double_free);
  void* again[] = {objects[0], objects[3], objects[4], objects[5]};
  EXPECT_EQ(cache.free_bulk_checked(4, again), 4U);
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), reports + 1);
  EXPECT_EQ(cache.queues(0).lifo, before + 6);
  forget_all();
}

// Single and bulk calls on all CPUs, against a model that is the set of live objects.
TEST_F(SlqbBulk, RandomTrafficAgreesWithTheModel) {
  constexpr std::uint64_t seed = 20081210;
  RecordProperty("seed", std::to_string(seed));
  create({.name = "test", .object_bytes = 192}, {.limit = 40, .batchcount = 12});
  std::mt19937_64 random(seed);
  std::vector<void*> live;
  std::set<void*> known;
  for (int step = 0; step < 3000; ++step) {
    const Cpu cpu = static_cast<Cpu>(random() % cpus);
    const std::size_t n = random() % 8 == 0 ? 1 + random() % 300 : 1 + random() % 20;
    percpu::enter_virtual_cpu(cpu);
    if (random() % 2 == 0 && live.size() < 3000) {
      const std::vector<void*> objects =
          n == 1 ? std::vector<void*>{cache.alloc(gfp::kernel)} : bulk_on(cpu, n);
      for (void* object : objects) ASSERT_TRUE(known.insert(object).second) << step;
      live.insert(live.end(), objects.begin(), objects.end());
    } else {
      std::shuffle(live.begin(), live.end(), random);
      const std::size_t k = std::min(n, live.size());
      std::vector<void*> gone(live.end() - static_cast<std::ptrdiff_t>(k), live.end());
      live.resize(live.size() - k);
      for (void* object : gone) known.erase(object);
      if (k == 1) {
        cache.free(gone[0], pages::page_of(gone[0]));
      } else {
        cache.free_bulk(k, gone.data());
      }
    }
    if (step % 64 == 0) cache.trim();
    if (step % 16 != 0) continue;
    ASSERT_STREQ(cache.validate(), nullptr) << "step " << step;
  }
  ASSERT_STREQ(cache.validate(), nullptr);
  cache.free_bulk(live.size(), live.data());
  cache.shrink();
  EXPECT_EQ(cache.usage().slabs, 0U);
}

}  // namespace
}  // namespace kmem::slqb
