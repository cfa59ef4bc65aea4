// The replay loop, over an allocator that keeps an account.
#include "bench/replay_loop.h"

#include <gtest/gtest.h>

#include "bench/loops/make.h"
#include "tests/bench/malloc_world.h"

namespace kmem::bench {
namespace {

using trace::Op;
using trace::OpKind;
using Replay = WorldReplayBench<MallocWorld>;

// Two caches and a class of kmalloc:
//   number   0 cache "a"   1 cache "b"   2 kmalloc-128
trace::Program sample_program() {
  trace::Program program;
  program.caches = {
      {.name = "a", .bytes_req = 100, .bytes_alloc = 104},
      {.name = "b", .bytes_req = 1000, .bytes_alloc = 1024},
      {.name = "kmalloc-128", .is_kmalloc = true, .bytes_req = 120, .bytes_alloc = 128}};
  program.sites = {
      {0, gfp::kernel, no_node}, {1, gfp::kernel | gfp::zero, 1}, {2, gfp::kernel, no_node}};
  program.ops = {{0, 100, 0, 0, OpKind::cache_alloc}, {1, 1000, 1, 1, OpKind::cache_alloc},
                 {2, 120, 2, 1, OpKind::kmalloc},     {1, 1000, 1, 0, OpKind::cache_free},
                 {2, 120, 2, 0, OpKind::kfree},       {1, 100, 0, 1, OpKind::cache_alloc}};
  program.objects = 3;
  program.live_at_end = 2;
  program.cpus = 2;
  return program;
}

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override { MallocWorld::reset(); }
  void TearDown() override {
    EXPECT_TRUE(MallocWorld::blocks.empty());
    EXPECT_TRUE(MallocWorld::caches.empty());
  }
  trace::Program program_ = sample_program();
};

TEST_F(ReplayTest, PeakIsWhereTheMostPagesWere) {
  const ReplayFootprint result = Replay(program_, {}).footprint();

  EXPECT_EQ(result.peak.op, 2u);
  EXPECT_EQ(result.peak.requested_bytes, 1220u);
  EXPECT_EQ(result.peak.kernel_bytes, 104u + 1024 + 128);
  EXPECT_EQ(result.peak.slab_bytes, 1220u);
  EXPECT_EQ(result.peak.live_objects, 3u);
  EXPECT_EQ(result.peak.live_kmalloc, 1u);
  ASSERT_EQ(result.peak.caches.size(), 2u);
  EXPECT_EQ(result.peak.caches[1].name, "b");
  EXPECT_EQ(result.peak.caches[1].usage.active_objects, 1u);
  EXPECT_EQ(result.end.requested_bytes, 200u);
  EXPECT_EQ(result.end.slab_bytes, 200u);
  EXPECT_EQ(result.failed, 0u);
}

TEST_F(ReplayTest, EachEventRunsOnItsTracedCpuAndNode) {
  Replay replay(program_, {});
  replay.round();
  EXPECT_EQ(MallocWorld::cross_cpu_frees, 2u);
  EXPECT_EQ(MallocWorld::nodes_seen, (std::vector<int>{1}));
}

TEST_F(ReplayTest, ObjectsAreWrittenOverTheirRequestedSize) {
  Replay replay(program_, {});
  replay.round();
  for (const auto& [object, block] : MallocWorld::blocks) {
    const auto* bytes = static_cast<const unsigned char*>(object);
    EXPECT_EQ(bytes[0], bytes[block.bytes - 1]);
  }
  EXPECT_NE(MallocWorld::gfp_seen & gfp::zero, 0u);
}

TEST_F(ReplayTest, WithoutTouchNothingIsZeroedEither) {
  Replay replay(program_, {.touch = false, .slabinfo_out = {}});
  replay.round();
  EXPECT_EQ(MallocWorld::gfp_seen & gfp::zero, 0u);
}

TEST_F(ReplayTest, RoundsStartWithoutLiveObjects) {
  Replay replay(program_, {});
  for (int i = 0; i < 3; ++i) replay.round();
  EXPECT_EQ(MallocWorld::blocks.size(), 2u);
  EXPECT_EQ(MallocWorld::caches.size(), 2u);
}

TEST_F(ReplayTest, AnAllocationThatFailsIsCountedAndItsFreePassedOver) {
  MallocWorld::fail_after = 7;  // the second pass's second
  const ReplayFootprint result = Replay(program_, {}).footprint();
  EXPECT_GE(result.failed, 1u);
}

TEST(Bulk, MeasuresEachPath) {
  MallocWorld::reset();
  {
    Job job;
    job.object_bytes = 64;
    const std::unique_ptr<Loop> loop = make_loop<MallocWorld>(job);
    for (const BulkPath path :
         {BulkPath::single, BulkPath::stored, BulkPath::generic, BulkPath::optimized})
      EXPECT_GT(loop->run({path, 16, 64}).cost.ns, 0);
    EXPECT_EQ(MallocWorld::caches[0]->allocs, 256u);
  }
  EXPECT_TRUE(MallocWorld::blocks.empty());
}

}  // namespace
}  // namespace kmem::bench
