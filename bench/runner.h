// How figures are made. A noisy machine is twice as slow at one moment as at the next, so
// competitors take turns: each round measures all of them once, one after the other, and only
// figures of one round are ever divided by each other. The median of those ratios, with its
// interval, is the result.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/progress.h"
#include "bench/report/report.h"
#include "bench/undisturbed.h"

namespace kmem::bench {

struct Competitor {
  std::string subject;
  std::string kind;  // "backend", "rival" or "floor"
  Params params;
  std::function<Sample()> measure;
  std::function<void()> accepted = {};  // may be empty; called when the last measure() counts
};

// What one competitor cost, round by round.
struct Measured {
  std::vector<double> cycles, ns;
};

struct RoundLimits {
  std::size_t rounds = 31;
  // No round but the first begins after it (of now_ns()); 0: none.
  std::uint64_t deadline_ns = 0;
  unsigned repeats = default_repeats;  // undisturbed.h
};

// One unmeasured round, then as many as the limits allow. Each round starts with another
// competitor: none always runs behind the same neighbour's leavings.
std::vector<Measured> run_rounds(std::span<const Competitor> competitors, const RoundLimits& limits,
                                 Progress& progress);

// cycles_per_UNIT and ns_per_UNIT of each.
void add_results(Report& report, std::span<const Competitor> competitors,
                 std::span<const Measured> measured, const std::string& unit);

// How often of's cost is to's, within rounds. By time where there is no cycle counter.
Estimate cost_ratio(const Measured& of, const Measured& to);

}  // namespace kmem::bench
