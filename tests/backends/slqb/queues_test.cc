// The queues of one node: LIFO, hiwater and freebatch, rlist, remote_free.
#include <algorithm>
#include <set>

#include "common/debug/report.h"
#include "tests/backends/slqb/fixture.h"

namespace kmem::slqb {
namespace {

class SlqbQueues : public SlqbTest {};

TEST_F(SlqbQueues, LastFreedIsFirstAllocated) {
  create();
  void* const a = alloc_on(0);
  void* const b = alloc_on(0);
  free_on(0, a);
  free_on(0, b);

  EXPECT_EQ(alloc_on(0), b);
  EXPECT_EQ(alloc_on(0), a);
}

TEST_F(SlqbQueues, ASlabGivesOneObjectAtATime) {
  create();
  alloc_on(0, 8);

  EXPECT_EQ(cache.statistics().alloc_slab_new, 1U);
  EXPECT_EQ(cache.statistics().alloc_slab_fill, 7U);
  EXPECT_EQ(cache.queues(0).lifo, 0U);
  EXPECT_EQ(cache.usage().active_objects, 8U);
}

TEST_F(SlqbQueues, OverHiwaterOneBatchLeavesFromTheHead) {
  create();
  const std::vector<void*> objects = alloc_on(0, 9);
  for (std::size_t i = 0; i < 8; ++i) free_on(0, objects[i]);
  EXPECT_EQ(cache.queues(0).lifo, 8U);
  EXPECT_EQ(cache.statistics().flush_free_list, 0U);

  free_on(0, objects[8]);

  EXPECT_EQ(cache.queues(0).lifo, 5U);
  EXPECT_EQ(cache.statistics().flush_free_list, 1U);
  EXPECT_EQ(cache.statistics().flush_free_list_objects, 4U);
  EXPECT_EQ(cache.statistics().flush_free_list_remote, 0U);
  EXPECT_EQ(alloc_on(0), objects[4]);  // 5 to 8 were shed
}

TEST_F(SlqbQueues, AnEmptySlabIsFreedAtOnce) {
  create({.name = "test", .object_bytes = 4096}, {.limit = 2, .batchcount = 2});
  const std::vector<void*> objects = alloc_on(0, 4);
  EXPECT_EQ(cache.usage().slabs, 4U);

  free_on(0, objects);

  EXPECT_EQ(cache.statistics().flush_slab_free, 2U);
  EXPECT_EQ(cache.usage().slabs, 2U);
}

TEST_F(SlqbQueues, AFullSlabThatGetsAnObjectBackIsTheFirstPartialOne) {
  create({.name = "test", .object_bytes = 2048}, {.limit = 1, .batchcount = 1});
  const std::vector<void*> objects = alloc_on(0, 5);  // slabs 01 23 4-
  free_on(0, objects[0]);
  free_on(0, objects[2]);  // over hiwater: shed into its slab

  EXPECT_EQ(cache.statistics().flush_slab_partial, 1U);
  EXPECT_EQ(alloc_on(0), objects[0]);  // from the LIFO
  EXPECT_EQ(alloc_on(0), objects[2]);
}

TEST_F(SlqbQueues, ObjectsOfAnotherOwnerStayInTheLifoUntilTheyAreShed) {
  create();
  const std::vector<void*> objects = alloc_on(0, 9);
  for (std::size_t i = 0; i < 8; ++i) free_on(1, objects[i]);
  EXPECT_EQ(cache.queues(1).lifo, 8U);
  EXPECT_EQ(cache.queues(1).rlist, 0U);

  free_on(1, objects[8]);

  EXPECT_EQ(cache.queues(1).lifo, 5U);
  EXPECT_EQ(cache.statistics().flush_free_list_remote, 4U);
  EXPECT_EQ(cache.queues(1).rlist, 0U);  // a whole batch: sent off
  EXPECT_EQ(cache.queues(0).remote_free, 4U);
}

TEST_F(SlqbQueues, RlistHoldsOneOwnersObjectsAndSendsThemOffForAnother) {
  create({.name = "test", .object_bytes = 512}, {.limit = 2, .batchcount = 3});
  const std::vector<void*> of_0 = alloc_on(0, 3);
  const std::vector<void*> of_1 = alloc_on(1, 3);

  free_on(2, {of_0[0], of_1[0], of_0[1]});  // the third sheds all: two of CPU 0, then one of CPU 1
  EXPECT_EQ(cache.queues(2).rlist, 1U);
  EXPECT_EQ(cache.queues(0).remote_free, 2U);
  EXPECT_EQ(cache.queues(1).remote_free, 0U);
  EXPECT_EQ(cache.statistics().flush_rfree_list, 1U);

  free_on(2, {of_0[2], of_1[1], of_1[2]});  // two of CPU 1 make a batch with the one that waits
  EXPECT_EQ(cache.queues(2).rlist, 1U);
  EXPECT_EQ(cache.queues(1).remote_free, 3U);
  EXPECT_TRUE(cache.queues(1).remote_free_check);
  EXPECT_EQ(cache.statistics().flush_rfree_list, 2U);
}

TEST_F(SlqbQueues, TheCheckFlagRisesWhenABatchWaitsAndTheNextSlowAllocClaims) {
  create({.name = "test", .object_bytes = 512}, {.limit = 8, .batchcount = 4});
  const std::vector<void*> objects = alloc_on(0, 16);
  free_on(1, {objects.begin(), objects.begin() + 9});
  EXPECT_TRUE(cache.queues(0).remote_free_check);

  void* const object = alloc_on(0);

  EXPECT_FALSE(cache.queues(0).remote_free_check);
  EXPECT_EQ(cache.queues(0).remote_free, 0U);
  EXPECT_EQ(cache.queues(0).lifo, 3U);
  EXPECT_EQ(cache.statistics().claim_remote_list, 1U);
  EXPECT_EQ(cache.statistics().claim_remote_list_objects, 4U);
  EXPECT_NE(std::find(objects.begin(), objects.end(), object), objects.end());
}

TEST_F(SlqbQueues, BelowABatchRemoteFreesWaitUntilTrim) {
  create({.name = "test", .object_bytes = 512}, {.limit = 8, .batchcount = 4});
  const std::vector<void*> objects = alloc_on(0, 4);
  free_on(1, objects);
  trim_on(1);  // sheds a batch: all four reach their owner at once
  ASSERT_EQ(cache.queues(0).remote_free, 4U);
  alloc_on(0, 4);  // claimed
  ASSERT_EQ(cache.queues(0).remote_free, 0U);

  free_on(1, objects[0]);
  trim_on(1);
  EXPECT_EQ(cache.queues(0).remote_free, 1U);
  EXPECT_FALSE(cache.queues(0).remote_free_check);
  alloc_on(0);
  EXPECT_EQ(cache.queues(0).remote_free, 1U) << "left by an alloc that found no flag";

  trim_on(0);
  EXPECT_EQ(cache.queues(0).remote_free, 0U);
}

TEST_F(SlqbQueues, AShorterBatchRaisesTheFlagOfWhatWaitsAlready) {
  create({.name = "test", .object_bytes = 512}, {.limit = 8, .batchcount = 4});
  const std::vector<void*> objects = alloc_on(0, 8);
  free_on(1, {objects[0], objects[1]});
  trim_on(1);
  ASSERT_EQ(cache.queues(0).remote_free, 2U);
  ASSERT_FALSE(cache.queues(0).remote_free_check);

  EXPECT_TRUE(cache.retune({.batchcount = 2}));

  EXPECT_TRUE(cache.queues(0).remote_free_check);
}

TEST_F(SlqbQueues, OverHalfOfHiwaterRemoteFreesGoStraightIntoTheSlabs) {
  create({.name = "test", .object_bytes = 512}, {.limit = 8, .batchcount = 5});
  const std::vector<void*> objects = alloc_on(0, 32);
  free_on(1, {objects.begin(), objects.begin() + 9});
  EXPECT_EQ(cache.queues(0).remote_free, 5U);  // over 8 / 2
  const std::uint64_t partial = cache.statistics().flush_slab_partial;

  free_on(1, {objects.begin() + 9, objects.begin() + 16});

  EXPECT_EQ(cache.queues(0).remote_free, 5U);
  EXPECT_GT(cache.statistics().flush_slab_partial + cache.statistics().flush_slab_free, partial);
}

TEST_F(SlqbQueues, AClaimOverHiwaterShedsBatches) {
  create({.name = "test", .object_bytes = 512}, {.limit = 40, .batchcount = 16});
  const std::vector<void*> objects = alloc_on(0, 80);
  free_on(1, {objects.begin(), objects.begin() + 41});
  ASSERT_EQ(cache.queues(0).remote_free, 16U);
  ASSERT_TRUE(cache.retune({.limit = 6, .batchcount = 4}));

  alloc_on(0);

  EXPECT_LE(cache.queues(0).lifo, 6U);
  EXPECT_EQ(cache.queues(0).remote_free, 0U);
}

TEST_F(SlqbQueues, AnObjectFreedTwiceInARowIsReportedAndIgnored) {
  create();
  void* const a = alloc_on(0);
  free_on(0, a);
  const std::uint64_t before = debug::report_count(debug::Fault::double_free);

  cache.free(a, pages::page_of(a));

  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 1);
  EXPECT_EQ(cache.queues(0).lifo, 1U);
}

TEST_F(SlqbQueues, RetuneRefusesWhatTheKernelRefusesAndShortensQueues) {
  create();
  EXPECT_FALSE(cache.retune({.limit = 8, .batchcount = 10}));
  EXPECT_FALSE(cache.retune({.limit = 2}));  // a batch of 4 does not fit
  EXPECT_FALSE(cache.retune({.shared = 1}));
  EXPECT_EQ(cache.tunables().limit, 8U);
  EXPECT_EQ(cache.tunables().batchcount, 4U);
  free_on(0, alloc_on(0, 8));

  EXPECT_TRUE(cache.retune({.limit = 3}));

  EXPECT_LE(cache.queues(0).lifo, 3U);
  EXPECT_STREQ(cache.validate(), nullptr);
}

TEST_F(SlqbQueues, ShrinkEmptiesEveryQueue) {
  create();
  for (Cpu cpu = 0; cpu < cpus; ++cpu) free_on((cpu + 1) % cpus, alloc_on(cpu, 10));

  EXPECT_FALSE(cache.shrink());

  EXPECT_EQ(cache.usage().slabs, 0U);
}

TEST_F(SlqbQueues, NewSlabsTakeTheColoursInTurn) {
  create({.name = "test", .object_bytes = 640});
  std::vector<std::uint32_t> offsets;
  for (int slab = 0; slab < 6; ++slab)
    offsets.push_back(pages::page_of(alloc_on(0, 6).front())->first_object);

  EXPECT_EQ(offsets, (std::vector<std::uint32_t>{0, 64, 128, 192, 0, 64}));
  EXPECT_STREQ(cache.validate(), nullptr);
}

TEST_F(SlqbQueues, WithoutMemoryWhatWaitsBelowABatchIsClaimed) {
  create({.name = "test", .object_bytes = 512}, {.limit = 8, .batchcount = 4});
  const std::vector<void*> objects = alloc_on(0, 8);
  free_on(1, objects[0]);
  trim_on(1);
  ASSERT_EQ(cache.queues(0).remote_free, 1U);
  pages::fail_allocation(1, true);

  EXPECT_EQ(alloc_on(0), objects[0]);
  EXPECT_EQ(cache.alloc(gfp::kernel), nullptr);

  pages::fail_allocation(0);
}

TEST_F(SlqbQueues, DestroyKeepsSlabsWithLiveObjectsAndNamesThem) {
  create();
  const std::vector<void*> objects = alloc_on(0, 20);
  free_on(1, {objects.begin(), objects.begin() + 17});
  std::set<void*> seen;
  cache.for_each_live(
      [](void* context, void* object, std::size_t offset) {
        EXPECT_EQ(static_cast<char*>(object) - static_cast<std::ptrdiff_t>(offset),
                  pages::address_of(pages::page_of(object)->head));
        static_cast<std::set<void*>*>(context)->insert(object);
      },
      &seen);
  EXPECT_EQ(seen, std::set<void*>(objects.begin() + 17, objects.end()));

  EXPECT_EQ(cache.destroy(), 3U);

  EXPECT_EQ(pages::page_of(objects[17])->owner, nullptr);
  forget_all();
  forget_cache();
}

TEST_F(SlqbQueues, ATypesafeCacheKeepsItsSlabsUntilDestroy) {
  create({.name = "test", .object_bytes = 512, .flags = slab_flag::typesafe_by_rcu});
  free_on(0, alloc_on(0, 40));
  cache.shrink();

  EXPECT_GE(cache.usage().slabs, 5U);
  EXPECT_EQ(cache.usage().active_objects, 0U);
  EXPECT_STREQ(cache.validate(), nullptr);
}

TEST_F(SlqbQueues, ConstructedStateHoldsAtEveryAllocation) {
  static constexpr std::uint64_t mark = 0x5ab5ab;
  create({.name = "test", .object_bytes = 64, .ctor = [](void* object) {
            *static_cast<std::uint64_t*>(object) = mark;
          }});
  for (int round = 0; round < 3; ++round) {
    const std::vector<void*> objects = alloc_on(0, 100);
    for (void* object : objects) EXPECT_EQ(*static_cast<std::uint64_t*>(object), mark);
    free_on(1, objects);
  }
}

TEST_F(SlqbQueues, LocksHeldForAForkAreFreeAfterIt) {
  create();
  void* const object = alloc_on(0);
  cache.prepare_fork();
  EXPECT_EQ(cache.alloc(gfp::atomic), nullptr);
  cache.after_fork();
  EXPECT_EQ(cache.alloc(gfp::atomic), static_cast<char*>(object) + 512);
  cache.shrink();
  EXPECT_STREQ(cache.validate(), nullptr);
  cache.free(static_cast<char*>(object) + 512, pages::page_of(object));
}

TEST_F(SlqbQueues, OwnsOnlyStartsOfItsObjects) {
  create({.name = "test", .object_bytes = 640});
  alloc_on(0, 6);
  char* const object = static_cast<char*>(alloc_on(0));  // in a slab of colour 64
  pages::Page* const page = pages::page_of(object);
  ASSERT_EQ(page->first_object, 64U);
  EXPECT_TRUE(cache.owns(page, object));
  EXPECT_FALSE(cache.owns(page, object + 8));
  EXPECT_FALSE(cache.owns(page, pages::address_of(page)));
  EXPECT_FALSE(cache.owns(page, object + 6 * 640)) << "past the last object";
  int local = 0;
  EXPECT_FALSE(cache.owns(pages::page_of(&local), &local));
}

}  // namespace
}  // namespace kmem::slqb
