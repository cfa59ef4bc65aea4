// The loop of the fast path, over an allocator that keeps an account: what is allocated is freed,
// also when memory is short; and the published table that gave it its shape.
#include "bench/loops/fastpath.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "bench/published.h"
#include "tests/bench/shared_world.h"

namespace kmem::bench {
namespace {

class FastpathTest : public testing::Test {
 protected:
  void SetUp() override { SharedWorld::reset(); }
  void TearDown() override {
    EXPECT_TRUE(MallocWorld::blocks.empty());
    MallocWorld::reset();
  }
  static Job job(std::size_t bytes) {
    Job job;
    job.work = Work::fastpath;
    job.object_bytes = bytes;
    return job;
  }
  static Turn turn(std::uint64_t batch, std::uint64_t objects) {
    return {BulkPath::single, batch, objects};
  }
};

TEST_F(FastpathTest, ABurstTellsBothHalves) {
  FastpathLoop<SharedWorld> loop(job(64));
  const Outcome outcome = loop.run(turn(100, 300));
  EXPECT_EQ(SharedWorld::kmallocs, 300u);
  ASSERT_EQ(outcome.values.size(), 2u);
  EXPECT_NEAR(outcome.values[0] + outcome.values[1], outcome.cost.cycles,
              1e-6 * (1 + outcome.cost.cycles));
}

TEST_F(FastpathTest, PairsHaveNoHalves) {
  FastpathLoop<SharedWorld> loop(job(8));
  EXPECT_TRUE(loop.run(turn(1, 50)).values.empty());
  EXPECT_EQ(SharedWorld::kmallocs, 50u);
}

TEST_F(FastpathTest, MeasuresAtLeastOnePass) {
  FastpathLoop<SharedWorld> loop(job(8));
  loop.run(turn(20, 3));
  EXPECT_EQ(SharedWorld::kmallocs, 20u);
}

TEST_F(FastpathTest, AFailedAllocationLeavesNothing) {
  FastpathLoop<SharedWorld> loop(job(8));
  for (const std::size_t after : {0, 1, 9, 15}) {
    MallocWorld::fail_after = after;
    EXPECT_THROW(loop.run(turn(10, 20)), std::runtime_error) << after;
    EXPECT_TRUE(MallocWorld::blocks.empty()) << after;
  }
  MallocWorld::fail_after = 3;
  EXPECT_THROW(loop.run(turn(1, 20)), std::runtime_error);
}

TEST(Published, TheTableOf2007HasBothOperationsOfEachSize) {
  const auto& rows = published::cmpxchg_local_2007;
  ASSERT_EQ(std::size(rows), 6u);
  for (std::size_t i = 0; i < std::size(rows); i += 2) {
    EXPECT_EQ(std::string(rows[i].operation), "kmalloc");
    EXPECT_EQ(std::string(rows[i + 1].operation), "kfree");
    EXPECT_EQ(rows[i].bytes, rows[i + 1].bytes);
    EXPECT_LE(rows[i].before_min_cycles, rows[i].before_max_cycles);
  }
  EXPECT_EQ(rows[0].before_min_cycles, 190u);
  EXPECT_EQ(rows[0].cmpxchg_local_cycles, 83u);
}

}  // namespace
}  // namespace kmem::bench
