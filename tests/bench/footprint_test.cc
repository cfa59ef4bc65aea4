// The loop of footprint over an allocator that keeps an account, its samples as numbers, and a
// measurement in a child of its own.
#include "bench/loops/footprint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "bench/apart.h"
#include "tests/bench/shared_world.h"

namespace kmem::bench {
namespace {

class FootprintTest : public testing::Test {
 protected:
  void SetUp() override { SharedWorld::reset(); }
  void TearDown() override {
    EXPECT_TRUE(MallocWorld::blocks.empty());
    EXPECT_TRUE(MallocWorld::caches.empty());
    MallocWorld::reset();
  }
  static Job job(std::uint64_t objects) {
    Job job;
    job.work = Work::footprint;
    job.object_bytes = 64;
    job.live_objects = objects;
    return job;
  }
  static Turn turn(std::uint64_t objects) { return {BulkPath::single, 1, objects}; }
};

TEST_F(FootprintTest, GoesThroughAllPhasesAndFreesEverything) {
  FootprintLoop<SharedWorld> loop(job(1000));
  const std::vector<MemorySample> samples = unpack(loop.run(turn(3000)).values);
  EXPECT_EQ(SharedWorld::allocs, 1000u + 500 + 3000);
  EXPECT_TRUE(MallocWorld::blocks.empty());
  std::vector<bool> seen(phase_count, false);
  double seconds = 0;
  for (const MemorySample& sample : samples) {
    seen[static_cast<std::size_t>(sample.phase)] = true;
    EXPECT_GE(sample.seconds, seconds);
    EXPECT_GT(sample.rss_bytes, 0);
    seconds = sample.seconds;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<long>(phase_count));
}

TEST_F(FootprintTest, AFailedAllocationLeavesNothing) {
  FootprintLoop<SharedWorld> loop(job(100));
  for (const std::size_t after : {0, 1, 99, 120, 160}) {
    MallocWorld::fail_after = after;
    EXPECT_THROW(loop.run(turn(50)), std::runtime_error) << after;
    EXPECT_TRUE(MallocWorld::blocks.empty()) << after;
  }
}

TEST(MemorySeries, SurvivesTheWayAsNumbers) {
  const MemorySample samples[] = {{Phase::start, 0, 4096, 0}, {Phase::shrink, 1.5, 8192, 12}};
  const std::vector<MemorySample> back = unpack(pack(samples));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[1].phase, Phase::shrink);
  EXPECT_EQ(back[1].seconds, 1.5);
  EXPECT_EQ(back[1].slab_bytes, 12);
  EXPECT_THROW(unpack(std::vector<double>{0, 1, 2}), std::runtime_error);
  EXPECT_THROW(unpack(std::vector<double>{99, 1, 2, 3}), std::runtime_error);
}

TEST(Apart, TellsWhatTheChildMeasured) {
  const Outcome outcome = run_apart("child", 60, [] { return Outcome{{1, 2}, {3, 4}}; });
  EXPECT_EQ(outcome.cost.ns, 2);
  EXPECT_EQ(outcome.values, (std::vector<double>{3, 4}));
}

std::string failure_of(double patience, const std::function<Outcome()>& measure) {
  try {
    run_apart("child", patience, measure);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Apart, TellsHowTheChildFailed) {
  EXPECT_EQ(failure_of(60, []() -> Outcome { throw std::runtime_error("it broke"); }),
            "child: it broke");
  EXPECT_EQ(failure_of(60, []() -> Outcome { ::_exit(5); }),
            "child: its process ended with status 5");
  EXPECT_EQ(failure_of(60, []() -> Outcome { return ::kill(::getpid(), SIGKILL), Outcome{}; }),
            "child: its process was killed by signal 9");
  EXPECT_NE(failure_of(0.05,
                       []() -> Outcome {
                         for (;;) ::pause();
                       })
                .find("--patience"),
            std::string::npos);
}

}  // namespace
}  // namespace kmem::bench
