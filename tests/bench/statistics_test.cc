// Medians, their intervals, verdicts, and the turns that competitors take.
#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "bench/runner.h"

namespace kmem::bench {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(estimate(std::vector<double>{3, 1, 2}).median, 2);
  EXPECT_EQ(estimate(std::vector<double>{4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(estimate({}).rounds, 0u);
  EXPECT_EQ(estimate(std::vector<double>{7}).median, 7);
}

// Values of any table of the sign test: 95 % intervals of medians.
TEST(Statistics, IntervalIsThatOfTheSignTest) {
  EXPECT_EQ(median_interval_rank(6), 0u);
  EXPECT_EQ(median_interval_rank(9), 1u);
  EXPECT_EQ(median_interval_rank(12), 2u);
  EXPECT_EQ(median_interval_rank(20), 5u);
  EXPECT_EQ(median_interval_rank(31), 9u);
  const Estimate result = estimate(one_to(20));
  EXPECT_EQ(result.low, 6);
  EXPECT_EQ(result.high, 15);
  EXPECT_NEAR(result.coverage, 0.9586, 0.0001);
}

TEST(Statistics, CoverageIsAtLeast95PercentFromSixRounds) {
  for (int n = 6; n < 200; ++n) EXPECT_GE(estimate(one_to(n)).coverage, 0.95) << n;
  EXPECT_LT(estimate(one_to(5)).coverage, 0.95);
}

TEST(Statistics, VerdictNeedsAnIntervalWithoutOne) {
  const std::vector<double> lower(10, 0.9), higher(10, 1.1);
  EXPECT_EQ(verdict(estimate(lower)), Verdict::faster);
  EXPECT_EQ(verdict(estimate(higher)), Verdict::slower);
  std::vector<double> both;
  for (int i = 0; i < 10; ++i) both.insert(both.end(), {0.9, 1.1});
  EXPECT_EQ(verdict(estimate(both)), Verdict::cannot_tell);
  EXPECT_EQ(verdict(estimate(std::vector<double>(5, 0.5))), Verdict::cannot_tell);
}

TEST(Statistics, RoundsThatScatterGetNoVerdict) {
  std::vector<double> values;
  for (int i = 0; i < 6; ++i) values.insert(values.end(), {0.2, 0.3});
  EXPECT_NEAR(estimate(values).scatter, 0.4, 1e-9);
  EXPECT_EQ(estimate(values).drift, 0);
  EXPECT_EQ(verdict(estimate(values)), Verdict::too_noisy);
  EXPECT_EQ(reached(estimate(values), 1), Reached::too_noisy);
  // Too few to be judged; one round that was disturbed is not a noisy machine.
  values.resize(7);
  EXPECT_EQ(verdict(estimate(values)), Verdict::faster);
  std::vector<double> one_off(9, 0.5);
  one_off[4] = 3;
  EXPECT_EQ(verdict(estimate(one_off)), Verdict::faster);
}

TEST(Statistics, RoundsThatDriftGetNoVerdict) {
  std::vector<double> values(6, 0.5);
  values.insert(values.end(), 6, 0.6);
  EXPECT_NEAR(estimate(values).drift, 0.1 / 0.55, 1e-9);
  EXPECT_LE(estimate(values).scatter, 0.25);
  EXPECT_EQ(verdict(estimate(values)), Verdict::too_noisy);
  EXPECT_EQ(reached(estimate(values), 0.4), Reached::too_noisy);
}

TEST(Statistics, RatiosAreOfOneRound) {
  EXPECT_EQ(ratios(std::vector<double>{2, 4}, std::vector<double>{1, 8}),
            (std::vector<double>{0.5, 2}));
}

TEST(Runner, CompetitorsTakeTurnsWithinARound) {
  std::string order;
  const auto competitor = [&](const char* name, double cost) {
    return Competitor{name, "backend", {}, [&order, name, cost] {
                        order += name;
                        return Sample{cost, cost};
                      }};
  };
  const std::vector<Competitor> all = {competitor("a", 1), competitor("b", 2), competitor("c", 4)};
  Progress progress(true);
  RoundLimits limits;
  limits.rounds = 3;
  limits.repeats = 0;

  const std::vector<Measured> measured = run_rounds(all, limits, progress);

  EXPECT_EQ(order, "abcabcbcacab");  // a round that is not counted, then each begins with another
  ASSERT_EQ(measured.size(), 3u);
  EXPECT_EQ(measured[2].cycles, (std::vector<double>{4, 4, 4}));
  EXPECT_EQ(cost_ratio(measured[1], measured[2]).median, 0.5);
}

TEST(Runner, ADeadlineThatIsOverStillLetsOneRoundRun) {
  const std::vector<Competitor> one = {{"a", "backend", {}, [] { return Sample{1, 1}; }}};
  Progress progress(true);
  RoundLimits limits;
  limits.rounds = 1000;
  limits.deadline_ns = 1;
  EXPECT_EQ(run_rounds(one, limits, progress)[0].ns.size(), 1u);
}

TEST(Statistics, AnIntervalOfWhatWasTimedIsAtLeastTwoPercentWideOnEachSide) {
  const Estimate narrow = widened({100, 99.5, 101, 0.95, 31});
  EXPECT_DOUBLE_EQ(narrow.low, 98);
  EXPECT_DOUBLE_EQ(narrow.high, 102);
  const Estimate wide = widened({100, 90, 120, 0.95, 31});
  EXPECT_DOUBLE_EQ(wide.low, 90);
  EXPECT_DOUBLE_EQ(wide.high, 120);
}

TEST(Reached, OnlyByTheWholeInterval) {
  const Estimate value{0.42, 0.40, 0.44, 0.96, 31};
  EXPECT_EQ(reached(value, 0.45), Reached::reached);
  EXPECT_EQ(reached(value, 0.43), Reached::cannot_tell);
  EXPECT_EQ(reached(value, 0.39), Reached::missed);
  const Estimate of_few_rounds{0.42, 0.40, 0.44, 0.5, 2};
  EXPECT_EQ(reached(of_few_rounds, 0.45), Reached::cannot_tell);
}

}  // namespace
}  // namespace kmem::bench
