// The loop of hackbench, over an allocator that keeps an account: each message arrives once, and
// all that was allocated is freed, also when memory is short.
#include "bench/loops/hackbench.h"

#include <gtest/gtest.h>

#include "tests/bench/shared_world.h"

namespace kmem::bench {
namespace {

class HackbenchTest : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override { SharedWorld::reset(); }
  void TearDown() override {
    EXPECT_TRUE(MallocWorld::blocks.empty());
    EXPECT_TRUE(MallocWorld::caches.empty());
    MallocWorld::reset();
  }
  static Job job(unsigned groups, unsigned pairs, std::size_t bytes) {
    Job job;
    job.work = Work::hackbench;
    job.groups = groups;
    job.pairs = pairs;
    job.message_bytes = bytes;
    job.transport = GetParam();
    return job;
  }
  static Turn turn(std::uint64_t loops) { return {BulkPath::single, 1, loops}; }
};

TEST_P(HackbenchTest, EachSenderReachesEachReceiverOfItsGroup) {
  HackbenchLoop<SharedWorld> loop(job(2, 3, 100));
  const Outcome outcome = loop.run(turn(50));

  ASSERT_EQ(outcome.values.size(), 2u);
  EXPECT_EQ(outcome.values[1], 2 * 3 * 3 * 50);
  EXPECT_GT(outcome.values[0], 0);
  EXPECT_GT(outcome.cost.ns, 0);
  EXPECT_EQ(SharedWorld::allocs, 900u);  // that each was received once is the loop's own check
  EXPECT_EQ(SharedWorld::kmallocs, 900u);
}

// More messages than fit: the sender waits for the receiver.
TEST_P(HackbenchTest, AFullMailboxLosesNothing) {
  HackbenchLoop<SharedWorld> loop(job(1, 1, 1));
  EXPECT_EQ(loop.run(turn(3000)).values[1], 3000);
  EXPECT_EQ(loop.run(turn(10)).values[1], 10);
}

TEST_P(HackbenchTest, AFailedAllocationEndsTheTurnAndLeavesNothing) {
  HackbenchLoop<SharedWorld> loop(job(2, 2, 100));
  for (const std::size_t after : {0, 1, 2, 101}) {
    MallocWorld::fail_after = after;
    EXPECT_THROW(loop.run(turn(100)), std::runtime_error) << after;
    EXPECT_TRUE(MallocWorld::blocks.empty()) << after;
  }
  MallocWorld::fail_after = SIZE_MAX;
  EXPECT_EQ(loop.run(turn(5)).values[1], 2 * 2 * 2 * 5);
}

INSTANTIATE_TEST_SUITE_P(Transports, HackbenchTest,
                         testing::Values(Transport::queue, Transport::socket),
                         [](const testing::TestParamInfo<Transport>& info) {
                           return info.param == Transport::queue ? "queue" : "socket";
                         });

}  // namespace
}  // namespace kmem::bench
