// What a run found, and its three shapes: tables for people, JSON and CSV for programs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/provenance.h"
#include "bench/statistics.h"

namespace kmem::bench {

using ParamValue = std::variant<std::int64_t, double, bool, std::string>;
using Params = std::vector<std::pair<std::string, ParamValue>>;

struct Result {
  std::string subject;
  std::string kind;  // "backend", "rival" or "floor"
  Params params;
  std::string metric;
  Estimate value;
};

// Cost of one to another within each round: below one, "of" is cheaper.
struct Ratio {
  std::string of, to;
  Params params;
  Estimate value;
};

// A ratio of costs that is to be at most target.
struct Figure {
  std::string name;
  Params params;
  Estimate value;
  double target = 0;
};

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;  // a line below the table, may be empty
};

// Numbers along an axis, row by row: what a median would hide.
struct Series {
  std::string subject;
  std::string kind;
  Params params;
  std::vector<std::string> columns;
  std::vector<std::vector<ParamValue>> rows;
};

struct Report {
  std::string workload;
  Provenance provenance;
  std::vector<std::string> lines;  // before the tables
  std::vector<Table> tables;
  std::vector<std::string> closing;  // sentences after them
  std::vector<Result> results;
  std::vector<Ratio> ratios;
  std::vector<Figure> figures;
  std::vector<Series> series;  // in the JSON document only
  bool failed = false;         // measured, but what was checked does not hold: exit 1
};

// A line about the comparisons that are too noisy for a verdict, if there are any.
void tell_noise(Report& report);

std::string as_table(const Report& report);
std::string as_json(const Report& report);
std::string as_csv(const Report& report);
std::string as_html(const Report& report);  // one page, nothing fetched from elsewhere

std::string to_string(const ParamValue& value);

}  // namespace kmem::bench
