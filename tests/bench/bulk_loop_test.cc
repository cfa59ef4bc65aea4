// The loops of bulk, over an allocator that keeps an account: batches alike and drawn, what is hot
// and what is old, and nothing left behind.
#include "bench/loops/bulk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/bench/shared_world.h"

namespace kmem::bench {
namespace {

class BulkLoopTest : public testing::Test {
 protected:
  void SetUp() override { SharedWorld::reset(); }
  void TearDown() override {
    EXPECT_TRUE(MallocWorld::blocks.empty());
    EXPECT_TRUE(MallocWorld::caches.empty());
    MallocWorld::reset();
  }
  static Job job(std::uint64_t live_objects, std::uint32_t threads = 1) {
    Job job;
    job.work = Work::bulk;
    job.object_bytes = 64;
    job.live_objects = live_objects;
    job.threads = threads;
    return job;
  }
};

constexpr BulkPath paths[] = {BulkPath::single, BulkPath::generic, BulkPath::optimized};

TEST_F(BulkLoopTest, FreesAllThatItAllocates) {
  BulkLoop<SharedWorld> loop(job(0, 2));
  for (const BulkPath path : paths) {
    for (const std::uint64_t batch : {random_batch, std::uint64_t{1}, std::uint64_t{16}}) {
      loop.run({path, batch, 1000});
      EXPECT_TRUE(MallocWorld::blocks.empty()) << text(path) << " " << batch;
    }
  }
}

TEST_F(BulkLoopTest, AWorkingSetStaysAsLargeAsItIs) {
  {
    BulkLoop<SharedWorld> loop(job(300, 2));
    EXPECT_EQ(MallocWorld::blocks.size(), 600u);
    for (const BulkPath path : paths) {
      for (const std::uint64_t batch : {random_batch, std::uint64_t{7}, std::uint64_t{500}}) {
        loop.run({path, batch, 2000});
        EXPECT_EQ(MallocWorld::blocks.size(), 600u) << text(path) << " " << batch;
      }
    }
  }
  EXPECT_TRUE(MallocWorld::blocks.empty());
}

TEST_F(BulkLoopTest, NoMemoryForTheWorkingSet) {
  MallocWorld::fail_after = 100;
  EXPECT_THROW(BulkLoop<SharedWorld>(job(300)), std::runtime_error);
}

TEST(WorkingSet, GivesBackTheOldest) {
  int objects[8];
  WorkingSet set;
  for (int i = 0; i < 4; ++i) set.objects().push_back(&objects[i]);
  void* batch[3] = {&objects[4], &objects[5], &objects[6]};
  set.exchange(3, batch);
  EXPECT_EQ(batch[0], &objects[0]);
  EXPECT_EQ(batch[2], &objects[2]);
  batch[0] = &objects[7];
  set.exchange(1, batch);
  EXPECT_EQ(batch[0], &objects[3]);
  set.exchange(1, batch);
  EXPECT_EQ(batch[0], &objects[4]);
}

TEST(DrawnBatches, AreAllSizesFromOneToTheMost) {
  DrawnBatches batches(1), again(1), others(2);
  std::set<std::size_t> seen;
  bool all_alike = true;
  double sum = 0;
  constexpr int draws = 8192;
  for (int i = 0; i < draws; ++i) {
    const std::size_t size = batches.next();
    EXPECT_EQ(size, again.next());
    all_alike = all_alike && size == others.next();
    seen.insert(size);
    sum += static_cast<double>(size);
  }
  EXPECT_FALSE(all_alike);
  EXPECT_EQ(*seen.begin(), 1u);
  EXPECT_EQ(*seen.rbegin(), random_batch_most);
  EXPECT_EQ(seen.size(), random_batch_most);
  EXPECT_NEAR(sum / draws, (random_batch_most + 1) / 2.0, 2);
}

}  // namespace
}  // namespace kmem::bench
