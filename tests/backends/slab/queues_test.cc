// The queues: how many objects move when, between CPU arrays, the shared array and slabs.
#include <algorithm>

#include "common/debug/report.h"
#include "tests/backends/slab/fixture.h"

namespace kmem::slab {
namespace {

class Queues : public SlabTest {};

TEST_F(Queues, TheFirstRefillOfAnUntouchedArrayIsSixteen) {
  start(64);
  void* first = alloc();
  EXPECT_EQ(cache.statistics().listallocs, 0U) << "straight from the new slab";
  EXPECT_EQ(active(), 16U);

  const std::vector<void*> rest = alloc(15);
  EXPECT_EQ(cache.statistics().allocmiss, 1U);
  EXPECT_EQ(cache.statistics().allochit, 15U);

  void* touched = alloc();  // the array was used: a full batch, or what the partial slab has left
  EXPECT_EQ(cache.statistics().listallocs, 48U);
  EXPECT_EQ(cache.usage().slabs, 1U) << "a refill takes what there is before it grows";
  free(first);
  free(rest);
  free(touched);
}

TEST_F(Queues, ATouchedArrayIsRefilledByABatch) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(192);
  const std::vector<void*> kept = {objects[0], objects[64], objects[128]};
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 64 != 0) free(objects[i]);
  }
  cache.shrink();  // three slabs with 63 free objects each, and an untouched array
  const std::uint64_t before = cache.statistics().listallocs;
  const std::vector<void*> taken = alloc(untouched_batch + 1);
  EXPECT_EQ(cache.statistics().listallocs - before, untouched_batch + 60U);
  free(taken);
  free(kept);
}

TEST_F(Queues, AFullArrayGivesItsOldestBatchToTheSharedArray) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(121);
  const std::uint64_t hits = cache.statistics().freehit;
  for (std::size_t i = 0; i < 120; ++i) free(objects[i]);
  EXPECT_EQ(cache.statistics().freehit - hits, 120U);
  EXPECT_EQ(cache.usage().shared_available, 0U);

  free(objects[120]);
  EXPECT_EQ(cache.statistics().freemiss, 1U);
  EXPECT_EQ(cache.usage().shared_available, 60U);

  // The newest come back first from this CPU, the oldest batch from the shared array on another.
  EXPECT_EQ(alloc(), objects[120]);
  percpu::enter_virtual_cpu(1);
  EXPECT_EQ(alloc(), objects[59]) << "16 from the shared array's end, handed out from theirs";
  EXPECT_EQ(cache.usage().shared_available, 44U);
  free(objects[59]);
  free(objects[120]);
}

TEST_F(Queues, TheSharedArrayHoldsEightBatchesThenSlabsTakeOver) {
  start(64);
  const std::vector<void*> objects = alloc_and_flush(120 + 480 + 1 + 60);
  for (std::size_t i = 0; i < 600; ++i) free(objects[i]);
  EXPECT_EQ(cache.usage().shared_available, 480U);
  EXPECT_EQ(active(), objects.size());

  free(objects[600]);
  EXPECT_EQ(cache.usage().shared_available, 480U);
  EXPECT_EQ(active(), objects.size() - 60) << "the batch went to its slabs";
  for (std::size_t i = 601; i < objects.size(); ++i) free(objects[i]);
}

TEST_F(Queues, AFlushMovesOnlyWhatTheSharedArrayHasRoomFor) {
  start(64);
  ASSERT_TRUE(cache.retune({.limit = 100, .batchcount = 40, .shared = 2}));  // room for 80
  const std::vector<void*> objects = alloc_and_flush(400);
  std::size_t freed = 0;
  while (cache.usage().shared_available < 40) free(objects[freed++]);
  EXPECT_EQ(freed, 101U);
  const std::vector<void*> taken = [&] {
    percpu::enter_virtual_cpu(1);
    return alloc(1);  // an untouched CPU takes 16 of the 40
  }();
  percpu::enter_virtual_cpu(0);
  EXPECT_EQ(cache.usage().shared_available, 24U);
  while (cache.usage().shared_available < 64) free(objects[freed++]);
  const std::size_t before = active();
  while (cache.usage().shared_available < 80) free(objects[freed++]);
  EXPECT_EQ(active(), before) << "16 moved, 24 stayed in the array, none went to a slab";
  free(taken);
  while (freed < objects.size()) free(objects[freed++]);
}

TEST_F(Queues, OneCpuHasNoSharedArray) {
  percpu::set_virtual_machine(1, 1);
  percpu::enter_virtual_cpu(0);
  VirtualCache lonely;
  ASSERT_TRUE(lonely.create({.name = "lonely", .object_bytes = 64}));
  EXPECT_EQ(lonely.geometry().shared, 0U);
  EXPECT_EQ(lonely.destroy(), 0U);
}

TEST_F(Queues, ASecondFreeInARowIsReportedAndIgnored) {
  start(64);
  void* object = alloc();
  free(object);
  const std::uint64_t before = debug::report_count(debug::Fault::double_free);
  free(object);
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 1);
  void* again = alloc();
  EXPECT_EQ(again, object);
  void* other = alloc();
  EXPECT_NE(other, object) << "handed out once";
  free(again);
  free(other);
}

TEST_F(Queues, FreeSlabsBeyondTheLimitAreDestroyed) {
  start(64);
  ASSERT_TRUE(cache.retune({.shared = 0}));
  const std::size_t free_limit = (1 + cpus) * 60 + 64;
  const std::vector<void*> objects = alloc_and_flush(4096);
  const std::size_t slabs = cache.usage().slabs;
  EXPECT_EQ(slabs, 64U);
  free(objects);
  const CacheUsage usage = cache.usage();
  EXPECT_LE(usage.total_objects - usage.active_objects, free_limit);
  EXPECT_GT(usage.total_objects - usage.active_objects, free_limit - 64) << "and no more than that";
  EXPECT_EQ(cache.path_counts().slabs_freed, slabs - usage.slabs);
}

TEST_F(Queues, ASlabThatBecomesPartialWaitsBehindTheOthers) {
  start(1024);  // 4 a slab
  ASSERT_TRUE(cache.retune({.limit = 1, .batchcount = 1, .shared = 0}));
  std::vector<void*> objects = alloc_and_flush(12);
  void* oldest = objects[0];
  void* newest = objects[11];
  free(oldest);
  cache.shrink();
  free(newest);
  cache.shrink();
  EXPECT_EQ(alloc(), oldest)
      << "the first slab that became partial is drained of free objects first";
  EXPECT_EQ(alloc(), newest);
  free(objects);
}

// ---- Bulk ---------------------------------------------------------------------------------------

TEST_F(Queues, BulkAllocationTakesTheArrayThenTheSharedArrayThenSlabs) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(700);
  cache.free_bulk(objects.size(), objects.data());
  EXPECT_EQ(cache.usage().shared_available, 480U) << "120 in the array, the rest in slabs";
  EXPECT_EQ(active(), 600U);

  const std::uint64_t locks = cache.path_counts().locks;
  ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, 650, objects.data()));
  EXPECT_EQ(cache.path_counts().locks - locks, 1U) << "one hold of the node's lock";
  EXPECT_EQ(active(), 650U);
  objects.resize(650);
  std::sort(objects.begin(), objects.end());
  EXPECT_EQ(std::adjacent_find(objects.begin(), objects.end()), objects.end());
  cache.free_bulk(objects.size(), objects.data());
}

TEST_F(Queues, BulkFreeOverflowsUnderOneHoldOfTheLock) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(1000);
  const std::uint64_t locks = cache.path_counts().locks;
  cache.free_bulk(objects.size(), objects.data());
  EXPECT_EQ(cache.path_counts().locks - locks, 1U);
}

TEST_F(Queues, SmallBulkFreesFlushOnceABatch) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(480);
  const std::uint64_t locks = cache.path_counts().locks;
  for (std::size_t i = 0; i < objects.size(); i += 8) cache.free_bulk(8, objects.data() + i);
  EXPECT_EQ(cache.path_counts().locks - locks, 6U) << "(480 - 120) / 60";
}

TEST_F(Queues, SmallBulkAllocationsRefillByABatch) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(600);
  cache.free_bulk(objects.size(), objects.data());  // 120 in the array, 480 shared
  percpu::enter_virtual_cpu(1);
  free(alloc());  // touched: 16 from the shared array
  const std::uint64_t locks = cache.path_counts().locks;
  for (std::size_t i = 0; i < 240; i += 8) {
    ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, 8, objects.data() + i));
  }
  EXPECT_EQ(cache.path_counts().locks - locks, 4U) << "(240 - 16) / 60, rounded up";
  cache.free_bulk(240, objects.data());
}

TEST_F(Queues, WhatLargeBulkCallsAskForStaysInTheSharedArray) {
  start(64);
  std::vector<void*> objects(1000);
  ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  cache.free_bulk(objects.size(), objects.data());
  EXPECT_EQ(cache.usage().shared_available, 880U) << "what the CPU's array did not hold";
  const std::uint64_t taken = cache.statistics().listallocs;
  const std::size_t slabs = cache.usage().slabs;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
    cache.free_bulk(objects.size(), objects.data());
  }
  EXPECT_EQ(cache.statistics().listallocs, taken) << "no slab is touched any more";
  EXPECT_EQ(cache.usage().slabs, slabs);
}

TEST_F(Queues, DemandIsBoundedInObjectsAndBytes) {
  start(8192);
  std::vector<void*> objects(300);
  ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  cache.free_bulk(objects.size(), objects.data());
  EXPECT_EQ(cache.usage().shared_available, max_demand_bytes / 8192);
}

TEST_F(Queues, DemandIsForgottenWhenTheReaperFindsTheArrayUntouched) {
  start(64);
  std::vector<void*> objects(1000);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
    cache.free_bulk(objects.size(), objects.data());
  }
  for (int round = 0; round < 6; ++round) cache.reap();  // touched, then a fifth of the limit twice
  EXPECT_EQ(cache.usage().shared_available, 880U - 2 * 96U);
  for (int round = 0; round < 60; ++round) cache.reap();
  EXPECT_EQ(cache.usage().slabs, 0U);
}

TEST_F(Queues, WithoutMemoryToGrowTheSharedArrayWhatItLacksGoesToSlabs) {
  start(64);
  std::vector<void*> objects(1000);
  ASSERT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  pages::fail_allocation(1, true);
  cache.free_bulk(objects.size(), objects.data());
  pages::fail_allocation(0);
  EXPECT_EQ(cache.usage().shared_available, 480U);
}

TEST_F(Queues, ABulkThatCannotBeFinishedIsUndone) {
  start(4096);
  pages::fail_allocation(40, true);
  std::vector<void*> objects(100);
  EXPECT_FALSE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  pages::fail_allocation(0);
  EXPECT_FALSE(cache.shrink()) << "nothing is in use";
  EXPECT_EQ(active(), 0U);
  EXPECT_TRUE(cache.alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  cache.free_bulk(objects.size(), objects.data());
}

}  // namespace
}  // namespace kmem::slab
