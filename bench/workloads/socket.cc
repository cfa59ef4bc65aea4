// socket: what does a storm of opens and closes cost? The objects behind one TCP socket, by one
// worker and by eight, in the shape of the table of 2008.
#include "bench/loops/socket.h"

#include <fmt/format.h>

#include "bench/workloads/comparison.h"
#include "bench/workloads/published_tables.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr std::size_t default_rounds = 15;
constexpr std::uint64_t opens_per_turn = 16384;  // of all workers together

struct Row {
  std::size_t number, first;  // in the comparison; first: the first subject's with as many workers
  unsigned workers;
};

Params params_of(unsigned workers) { return {{"workers", static_cast<std::int64_t>(workers)}}; }

Table table_of(Comparison& comparison, const std::vector<Row>& rows) {
  Table table;
  table.title = "one open and close of a socket: six objects";
  table.columns = {"subject", "workers", "ns", "opens a second", "to the first", "it is"};
  for (const Row& row : rows) {
    std::string ratio = "-", is = "-";
    if (row.number != row.first) {
      const Estimate to_first = comparison.compare(row.number, row.first, params_of(row.workers));
      ratio = with_interval(to_first);
      is = text(verdict(to_first));
    }
    const Estimate ns = comparison.ns(row.number);
    table.rows.push_back({comparison.competitor(row.number).subject, fmt::format("{}", row.workers),
                          with_interval(ns, 1), fmt::format("{:.0f}", 1e9 / ns.median), ratio, is});
  }
  table.note = "the time of all workers side by side, divided by all their opens";
  return table;
}

}  // namespace

Report run_socket(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "socket";
  report.provenance = gather_provenance();
  const auto contenders = make_contenders(settings, "rseq", report);
  const std::vector<unsigned> counts =
      settings.thread_counts.empty() ? std::vector<unsigned>{1, 8} : settings.thread_counts;
  Comparison comparison(settings, default_rounds, "open", report, progress);
  std::vector<Row> rows;
  for (const unsigned workers : counts) {
    Job job;
    job.work = Work::socket;
    job.threads = workers;
    const std::string what = fmt::format("socket by {} workers", workers);
    const std::size_t first = comparison.count();
    for (const auto& contender : contenders) {
      const std::size_t number = comparison.add(
          *contender, loop_of(*contender, job, what, report),
          {BulkPath::single, 1, std::max<std::uint64_t>(opens_per_turn / workers, 1)},
          params_of(workers));
      if (number != Comparison::npos) rows.push_back({number, first, workers});
    }
  }
  comparison.measure();
  report.tables.push_back(table_of(comparison, rows));
  report.tables.push_back(published_socket());
  report.closing.push_back(
      "type-safe caches (filp, TCP) keep their slabs until they are destroyed; objects are reused "
      "at "
      "once");
  return report;
}

}  // namespace kmem::bench
