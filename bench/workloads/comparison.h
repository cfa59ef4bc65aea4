// The body of most subcommands: some loops of some contenders, measured in turns within rounds, and
// what each cost beside the others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/contenders.h"
#include "bench/runner.h"

namespace kmem::bench {

class Comparison {
 public:
  // unit: of the loops' cost, as in cycles_per_UNIT.
  Comparison(const Settings& settings, std::size_t default_rounds, std::string unit, Report& report,
             Progress& progress);

  // A competitor: one kind of turn of one loop. The loop is kept. Returns its number; a contender
  // that has no such work (a null loop) gets none: npos.
  static constexpr std::size_t npos = ~std::size_t{0};
  std::size_t add(const Contender& contender, const std::shared_ptr<Loop>& loop, const Turn& turn,
                  Params params);

  // All rounds; results go to the report.
  void measure();

  std::size_t count() const noexcept { return competitors_.size(); }
  const Competitor& competitor(std::size_t i) const { return competitors_[i]; }
  const Measured& measured(std::size_t i) const { return measured_[i]; }
  // Of the loop's values[index], round by round.
  std::vector<double> values(std::size_t i, std::size_t index) const;
  Estimate cycles(std::size_t i) const { return widened(estimate(measured_[i].cycles)); }
  Estimate ns(std::size_t i) const { return widened(estimate(measured_[i].ns)); }
  // The ratio of two costs within rounds; also added to the report.
  Estimate compare(std::size_t of, std::size_t to, Params params = {});

 private:
  RoundLimits limits_;
  std::string unit_;
  Report& report_;
  Progress& progress_;
  std::vector<Competitor> competitors_;
  std::vector<Measured> measured_;
  // By competitor, by round.
  std::vector<std::shared_ptr<std::vector<std::vector<double>>>> values_;
};

// "1.23 (1.20..1.27)".
std::string with_interval(const Estimate& value, int digits = 2);

}  // namespace kmem::bench
