// What a replay tells, in tables and sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/report/report.h"
#include "bench/runner.h"
#include "bench/subjects.h"

namespace kmem::bench {

struct ReplayResult {
  std::string backend;
  ReplayFootprint footprint;
  Measured cost;  // an event
};

// How the file was read, and what in it could not be replayed: each a line.
std::vector<std::string> describe(const trace::Program& program);

Table summary_table(const trace::Program& program, std::span<const ReplayResult> results);
Table memory_table(std::span<const ReplayResult> results);
// The ten caches with the most bytes at their own peaks.
Table cache_table(const trace::Program& program, std::span<const ReplayResult> results);
// Who needs the least memory at the peak; and, where that is not SLOB though it ran, why not.
std::vector<std::string> verdict_on_memory(std::span<const ReplayResult> results);

void add_results(Report& report, const trace::Program& program,
                 std::span<const ReplayResult> results);

}  // namespace kmem::bench
