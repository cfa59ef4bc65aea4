#include "bench/runner.h"

#include <sys/resource.h>

#include "common/base/assert.h"

namespace kmem::bench {

namespace {

// Beyond this a turn on a busy machine is always interrupted; to repeat it helps nobody.
constexpr std::uint64_t short_turn_ns = 20'000'000;

// Times that this thread lost its CPU against its will.
long preemptions() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

Sample undisturbed(const Competitor& competitor, unsigned repeats) {
  for (;; --repeats) {
    const long before = preemptions();
    const std::uint64_t start_ns = now_ns();
    const Sample sample = competitor.measure();
    const bool is_short = now_ns() - start_ns < short_turn_ns;
    if (repeats == 0 || !is_short || preemptions() == before) return sample;
  }
}

}  // namespace

std::vector<Measured> run_rounds(std::span<const Competitor> competitors, const RoundLimits& limits,
                                 Progress& progress) {
  std::vector<Measured> measured(competitors.size());
  for (const Competitor& competitor : competitors) competitor.measure();
  for (std::size_t round = 0; round < limits.rounds; ++round) {
    if (round > 0 && limits.deadline_ns != 0 && now_ns() >= limits.deadline_ns) break;
    for (std::size_t i = 0; i < competitors.size(); ++i) {
      const std::size_t turn = (round + i) % competitors.size();
      const Sample sample = undisturbed(competitors[turn], limits.repeats);
      measured[turn].cycles.push_back(sample.cycles);
      measured[turn].ns.push_back(sample.ns);
    }
    progress.step();
  }
  return measured;
}

void add_results(Report& report, std::span<const Competitor> competitors,
                 std::span<const Measured> measured, const std::string& unit) {
  KMEM_ASSERT_EQ(competitors.size(), measured.size());
  for (std::size_t i = 0; i < competitors.size(); ++i) {
    const Competitor& competitor = competitors[i];
    const auto add = [&](const char* metric, const std::vector<double>& values) {
      report.results.push_back({competitor.subject, competitor.kind, competitor.params,
                                metric + unit, estimate(values)});
    };
    add("cycles_per_", measured[i].cycles);
    add("ns_per_", measured[i].ns);
  }
}

Estimate cost_ratio(const Measured& of, const Measured& to) {
  const bool has_cycles = !to.cycles.empty() && to.cycles.front() > 0;
  return has_cycles ? estimate(ratios(to.cycles, of.cycles)) : estimate(ratios(to.ns, of.ns));
}

}  // namespace kmem::bench
