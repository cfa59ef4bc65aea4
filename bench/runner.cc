#include "bench/runner.h"

#include "common/base/assert.h"

namespace kmem::bench {

std::vector<Measured> run_rounds(std::span<const Competitor> competitors, const RoundLimits& limits,
                                 Progress& progress) {
  std::vector<Measured> measured(competitors.size());
  for (const Competitor& competitor : competitors) competitor.measure();
  for (std::size_t round = 0; round < limits.rounds; ++round) {
    if (round > 0 && limits.deadline_ns != 0 && now_ns() >= limits.deadline_ns) break;
    for (std::size_t i = 0; i < competitors.size(); ++i) {
      const std::size_t turn = (round + i) % competitors.size();
      const Sample sample = undisturbed(competitors[turn].measure, limits.repeats);
      measured[turn].cycles.push_back(sample.cycles);
      measured[turn].ns.push_back(sample.ns);
      if (competitors[turn].accepted) competitors[turn].accepted();
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
                                metric + unit, widened(estimate(values))});
    };
    add("cycles_per_", measured[i].cycles);
    add("ns_per_", measured[i].ns);
  }
}

Estimate cost_ratio(const Measured& of, const Measured& to) {
  const bool has_cycles = !to.cycles.empty() && to.cycles.front() > 0;
  return widened(estimate(has_cycles ? ratios(to.cycles, of.cycles) : ratios(to.ns, of.ns)));
}

}  // namespace kmem::bench
