#include "bench/workloads/bulk_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/loop.h"
#include "bench/published.h"

namespace kmem::bench {

namespace {

const published::SlubBulk2015* published_row(std::size_t batch) {
  for (const auto& row : published::slub_bulk_2015)
    if (row.batch == batch) return &row;
  return nullptr;
}

Table table_of(const BulkRows& of, const std::string& what) {
  Table table;
  table.title = fmt::format("{}: {}, cycles for one object allocated and freed", of.name, what);
  table.columns = {"bulk", "generic", "optimized", "improved %", "interval", "optimized is"};
  const bool compare = of.name == "slub";
  if (compare)
    table.columns.insert(table.columns.end(), {"2015: generic", "optimized", "improved %"});
  for (const BulkRow& row : of.rows) {
    std::vector<std::string> cells = {
        batch_name(row.batch),
        fmt::format("{:.1f}", row.generic.median),
        fmt::format("{:.1f}", row.optimized.median),
        fmt::format("{:.1f}", (1 - row.ratio.median) * 100),
        fmt::format("{:.1f}..{:.1f}", (1 - row.ratio.high) * 100, (1 - row.ratio.low) * 100),
        text(verdict(row.ratio))};
    if (const auto* old = published_row(row.batch); compare && old != nullptr) {
      cells.push_back(fmt::format("{}", old->generic_cycles));
      cells.push_back(fmt::format("{}", old->optimized_cycles));
      cells.push_back(fmt::format("{:.1f}", old->improved_percent));
    }
    table.rows.push_back(std::move(cells));
  }
  if (compare)
    table.note = "2015: i7-4790K at 4 GHz, single call 42 to 43 cycles; compare shapes, not cycles";
  return table;
}

// Each one's optimized path, or the loop that stands for it, batch by batch.
Table table_beside_rivals(const std::vector<BulkRows>& all, const std::string& what) {
  Table table;
  table.title = fmt::format("beside the rivals: {}, cycles an object", what);
  table.columns = {"bulk"};
  for (const BulkRows& of : all) table.columns.push_back(of.name);
  for (std::size_t i = 0; i < all.front().rows.size(); ++i) {
    std::vector<std::string> cells = {batch_name(all.front().rows[i].batch)};
    for (const BulkRows& of : all)
      cells.push_back(fmt::format("{:.1f}", of.rows[i].optimized.median));
    table.rows.push_back(std::move(cells));
  }
  table.note = "a rival without bulk calls: so many single ones, then so many frees";
  return table;
}

Table table_of_singles(const std::string& what, std::span<const Result> results) {
  Table table;
  table.title = fmt::format("single calls and floors: {}, cycles an object", what);
  table.columns = {"subject", "bulk", "cycles", "interval"};
  std::string first_batch;  // the pairs do not depend on it: shown once
  for (const Result& result : results) {
    const bool single = to_string(result.params[1].second) == "single";
    if (!single && result.kind != "floor") continue;
    if (result.metric != "cycles_per_object") continue;
    const std::string batch = to_string(result.params[0].second);
    if (first_batch.empty()) first_batch = batch;
    if (result.kind == "floor" && result.subject != "pointer copy" && batch != first_batch)
      continue;
    table.rows.push_back({result.subject, single ? "-" : batch,
                          fmt::format("{:.2f}", result.value.median),
                          fmt::format("{:.2f}..{:.2f}", result.value.low, result.value.high)});
  }
  return table;
}

}  // namespace

std::string batch_name(std::size_t batch) {
  return batch == random_batch ? "random" : std::to_string(batch);
}

void add_bulk_tables(Report& report, const std::vector<BulkRows>& all, const std::string& what,
                     std::span<const Result> results) {
  for (const BulkRows& of : all)
    if (of.has_bulk) report.tables.push_back(table_of(of, what));
  if (std::any_of(all.begin(), all.end(), [](const BulkRows& of) { return of.is_rival; }))
    report.tables.push_back(table_beside_rivals(all, what));
  report.tables.push_back(table_of_singles(what, results));
}

}  // namespace kmem::bench
