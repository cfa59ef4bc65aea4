#include "bench/workloads/comparison.h"

#include <fmt/format.h>

#include <utility>

namespace kmem::bench {

namespace {

RoundLimits limits_of(const Settings& settings, std::size_t default_rounds) {
  RoundLimits limits;
  limits.rounds = settings.rounds == 0 ? default_rounds : settings.rounds;
  if (settings.seconds > 0)
    limits.deadline_ns = now_ns() + static_cast<std::uint64_t>(settings.seconds * 1e9);
  return limits;
}

}  // namespace

Comparison::Comparison(const Settings& settings, std::size_t default_rounds, std::string unit,
                       Report& report, Progress& progress)
    : limits_(limits_of(settings, default_rounds)),
      unit_(std::move(unit)),
      report_(report),
      progress_(progress) {}

std::size_t Comparison::add(const Contender& contender, const std::shared_ptr<Loop>& loop,
                            const Turn& turn, Params params) {
  if (loop == nullptr) return npos;
  auto values = std::make_shared<std::vector<std::vector<double>>>();
  values_.push_back(values);
  const auto last = std::make_shared<std::vector<double>>();
  competitors_.push_back({contender.name(), contender.kind(), std::move(params),
                          [=] {
                            Outcome outcome = loop->run(turn);
                            *last = std::move(outcome.values);
                            return outcome.cost;
                          },
                          [=] { values->push_back(*last); }});
  return competitors_.size() - 1;
}

void Comparison::measure() {
  progress_.start(report_.workload.c_str(), limits_.rounds);
  measured_ = run_rounds(competitors_, limits_, progress_);
  progress_.finish();
  add_results(report_, competitors_, measured_, unit_);
}

std::vector<double> Comparison::values(std::size_t i, std::size_t index) const {
  std::vector<double> values;
  for (const std::vector<double>& of_turn : *values_[i]) values.push_back(of_turn.at(index));
  return values;
}

Estimate Comparison::compare(std::size_t of, std::size_t to, Params params) {
  const Estimate ratio = cost_ratio(measured_[of], measured_[to]);
  report_.ratios.push_back(
      {competitors_[of].subject, competitors_[to].subject, std::move(params), ratio});
  return ratio;
}

std::string with_interval(const Estimate& value, int digits) {
  return fmt::format("{:.{}f} ({:.{}f}..{:.{}f})", value.median, digits, value.low, digits,
                     value.high, digits);
}

}  // namespace kmem::bench
