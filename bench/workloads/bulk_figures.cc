#include "bench/workloads/bulk_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kmem::bench {

namespace {

// At most so much of the cost that stands below the line.
constexpr double single_to_malloc = 0.45;
constexpr double c_abi_to_malloc = 0.8, c_abi_to_floor = 1.3;
constexpr double bulk_to_malloc = 0.4;
constexpr double slab_to_pointer_copy = 3;
constexpr double slab_to_generic = 0.3, other_to_generic = 0.5;
constexpr double one_to_single = 1.1;
constexpr double step = 2;

double median_of(const Measured& measured) {
  const bool has_cycles = !measured.cycles.empty() && measured.cycles.front() > 0;
  return estimate(has_cycles ? measured.cycles : measured.ns).median;
}

// The cheapest of one side; null: none was measured.
const BulkCosts* cheapest(const std::vector<BulkCosts>& group, Side side,
                          const Measured* BulkCosts::*path) {
  const BulkCosts* best = nullptr;
  for (const BulkCosts& costs : group) {
    if (costs.side != side || costs.*path == nullptr) continue;
    if (best == nullptr || median_of(*(costs.*path)) < median_of(*(best->*path))) best = &costs;
  }
  return best;
}

bool has_bulk_figures(const BulkCosts& costs) {
  return costs.name == "slab" || costs.name == "slub" || costs.name == "slqb";
}

}  // namespace

std::vector<std::size_t> step_batches() {
  std::vector<std::size_t> batches;
  for (std::size_t batch = 1; batch <= 1024; batch *= 2) batches.push_back(batch);
  return batches;
}

void BulkFigures::add(std::string name, const Measured& of, const Measured& to, double target) {
  figures_.push_back({std::move(name),
                      {{"size", static_cast<std::int64_t>(object_bytes_)}},
                      cost_ratio(of, to),
                      target});
}

void BulkFigures::add_group(std::size_t batch, const std::vector<BulkCosts>& group,
                            const Measured& pointer_copy, const Measured* called_floor) {
  add_singles(group);
  add_c_abi(group, called_floor);
  if (batch == 64) add_bulk_of_64(group, pointer_copy);
  if (batch == 16) add_bulk_of_16(group);
  if (batch == 1) add_bulk_of_1(group);
}

void BulkFigures::add_singles(const std::vector<BulkCosts>& group) {
  const BulkCosts* const malloc = cheapest(group, Side::malloc, &BulkCosts::single);
  if (malloc == nullptr) return;
  if (const BulkCosts* const best = cheapest(group, Side::backend, &BulkCosts::single))
    add(fmt::format("single, best backend ({}) to fastest malloc ({})", best->name, malloc->name),
        *best->single, *malloc->single, single_to_malloc);
}

void BulkFigures::add_c_abi(const std::vector<BulkCosts>& group, const Measured* called_floor) {
  const BulkCosts* const best = cheapest(group, Side::c_abi, &BulkCosts::single);
  if (best == nullptr) return;
  if (const BulkCosts* const malloc = cheapest(group, Side::malloc, &BulkCosts::single))
    add(fmt::format("single, best backend ({}) to fastest malloc ({})", best->name, malloc->name),
        *best->single, *malloc->single, c_abi_to_malloc);
  if (called_floor != nullptr)
    add(fmt::format("single, best backend ({}) to the called floor", best->name), *best->single,
        *called_floor, c_abi_to_floor);
}

void BulkFigures::add_bulk_of_64(const std::vector<BulkCosts>& group,
                                 const Measured& pointer_copy) {
  const BulkCosts* const malloc = cheapest(group, Side::malloc, &BulkCosts::optimized);
  for (const BulkCosts& costs : group) {
    if (costs.name == "slab")
      add("bulk(64), slab to pointer copy", *costs.optimized, pointer_copy, slab_to_pointer_copy);
    else if (has_bulk_figures(costs) && malloc != nullptr)
      add(fmt::format("bulk(64), {} to fastest malloc ({})", costs.name, malloc->name),
          *costs.optimized, *malloc->optimized, bulk_to_malloc);
  }
}

void BulkFigures::add_bulk_of_16(const std::vector<BulkCosts>& group) {
  for (const BulkCosts& costs : group)
    if (has_bulk_figures(costs))
      add(fmt::format("bulk(16), {}: optimized to generic", costs.name), *costs.optimized,
          *costs.generic, costs.name == "slab" ? slab_to_generic : other_to_generic);
}

void BulkFigures::add_bulk_of_1(const std::vector<BulkCosts>& group) {
  for (const BulkCosts& costs : group)
    if (!is_rival(costs.side) && costs.stored != nullptr)
      add(fmt::format("bulk(1), {}: to a single call", costs.name), *costs.optimized, *costs.stored,
          one_to_single);
}

void BulkFigures::add_steps(const std::string& name, const std::vector<std::size_t>& batches,
                            const std::vector<const Measured*>& costs) {
  std::size_t largest = 1;
  double median = 0;
  for (std::size_t i = 1; i < batches.size(); ++i) {
    const double ratio = cost_ratio(*costs[i], *costs[i - 1]).median;
    if (ratio > median) largest = i, median = ratio;
  }
  add(fmt::format("largest step, {}: bulk({}) to bulk({})", name, batches[largest],
                  batches[largest - 1]),
      *costs[largest], *costs[largest - 1], step);
}

void BulkFigures::report_to(Report& report) const {
  if (figures_.empty()) return;
  Table table;
  table.title = fmt::format("figures: {} bytes, cost ratios", object_bytes_);
  table.columns = {"figure", "ratio", "interval", "at most", "is"};
  for (const Figure& figure : figures_) {
    table.rows.push_back({figure.name, fmt::format("{:.2f}", figure.value.median),
                          fmt::format("{:.2f}..{:.2f}", figure.value.low, figure.value.high),
                          fmt::format("{:g}", figure.target),
                          text(reached(figure.value, figure.target))});
    report.figures.push_back(figure);
  }
  table.note = "each ratio within the rounds of one batch size; best and fastest by their medians";
  report.tables.push_back(std::move(table));
}

}  // namespace kmem::bench
