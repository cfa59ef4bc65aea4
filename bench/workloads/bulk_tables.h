// The tables of bulk: what its rows look like to people.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/report/report.h"

namespace kmem::bench {

struct BulkRow {
  std::size_t batch;  // random_batch: drawn
  Estimate generic, optimized, ratio;
};

struct BulkRows {
  std::string name;
  bool is_rival = false, has_bulk = true;
  std::vector<BulkRow> rows;
};

// "16", or "random".
std::string batch_name(std::size_t batch);

// A table for each that has bulk calls, one beside the rivals if there are any, and one of single
// calls and floors, from results. what: object size and working set, for the titles.
void add_bulk_tables(Report& report, const std::vector<BulkRows>& all, const std::string& what,
                     std::span<const Result> results);

}  // namespace kmem::bench
