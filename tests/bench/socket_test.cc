// The loop of socket, over an allocator that keeps an account: six objects an open, all of them
// freed in the end, also when memory is short.
#include "bench/loops/socket.h"

#include <gtest/gtest.h>

#include "bench/published.h"
#include "tests/bench/shared_world.h"

namespace kmem::bench {
namespace {

class SocketTest : public testing::Test {
 protected:
  void SetUp() override { SharedWorld::reset(); }
  void TearDown() override {
    EXPECT_TRUE(MallocWorld::blocks.empty());
    EXPECT_TRUE(MallocWorld::caches.empty());
    MallocWorld::reset();
  }
  static Job job(unsigned workers) {
    Job job;
    job.work = Work::socket;
    job.threads = workers;
    return job;
  }
  static Turn turn(std::uint64_t opens) { return {BulkPath::single, 1, opens}; }
};

TEST_F(SocketTest, EachWorkerOpensAndClosesAsOftenAsAsked) {
  SocketLoop<SharedWorld> loop(job(3));
  const Outcome outcome = loop.run(turn(50));
  ASSERT_EQ(outcome.values.size(), 2u);
  EXPECT_EQ(outcome.values[1], 150);
  EXPECT_EQ(SharedWorld::allocs, 150u * 6);
  EXPECT_EQ(SharedWorld::zeroed, 150u * 2);
  EXPECT_TRUE(MallocWorld::blocks.empty());
}

TEST_F(SocketTest, InodesThatWaitAreFreedByTheHundred) {
  SocketLoop<SharedWorld> loop(job(1));
  loop.run(turn(3 * socket_deferred_max + 1));
  EXPECT_TRUE(MallocWorld::blocks.empty());
}

TEST_F(SocketTest, AFailedAllocationLeavesNothing) {
  SocketLoop<SharedWorld> loop(job(1));
  for (const std::size_t after : {0, 1, 5, 6, 7, 40}) {
    MallocWorld::fail_after = after;
    EXPECT_THROW(loop.run(turn(100)), std::runtime_error) << after;
    EXPECT_TRUE(MallocWorld::blocks.empty()) << after;
  }
}

TEST(Published, TheTableOf2008ComparesTwoDesigns) {
  const auto& rows = published::slqb_socketalloc_2008;
  ASSERT_EQ(std::size(rows), 4u);
  EXPECT_EQ(rows[0].real_s, 1.300);
  EXPECT_EQ(rows[3].real_s, 1.616);
}

}  // namespace
}  // namespace kmem::bench
