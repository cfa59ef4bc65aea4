// hackbench: groups of senders and receivers, each message a head from a cache and a block from
// kmalloc that another thread frees. What does a message cost, design by design?
#include <fmt/format.h>

#include "bench/workloads/comparison.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr std::size_t default_rounds = 15;

Job job_of(const Settings& settings) {
  Job job;
  job.work = Work::hackbench;
  job.threads = 2 * settings.groups * settings.pairs;
  job.groups = settings.groups;
  job.pairs = settings.pairs;
  job.message_bytes = settings.message_bytes;
  job.transport = settings.over_sockets ? Transport::socket : Transport::queue;
  return job;
}

Params params_of(const Settings& settings) {
  return {{"groups", static_cast<std::int64_t>(settings.groups)},
          {"pairs", static_cast<std::int64_t>(settings.pairs)},
          {"loops", static_cast<std::int64_t>(settings.loops)},
          {"message", static_cast<std::int64_t>(settings.message_bytes)},
          {"transport", settings.over_sockets ? "socket" : "queue"}};
}

// Each beside the first.
Table table_of(Comparison& comparison, const Params& params) {
  Table table;
  table.title = "messages sent by one thread, received and freed by another";
  table.columns = {"subject", "ns a message", "cycles", "Time: s", "to the first", "it is"};
  for (std::size_t i = 0; i < comparison.count(); ++i) {
    std::string ratio = "-", is = "-";
    if (i > 0) {
      const Estimate to_first = comparison.compare(i, 0, params);
      ratio = with_interval(to_first);
      is = text(verdict(to_first));
    }
    table.rows.push_back({comparison.competitor(i).subject, with_interval(comparison.ns(i), 1),
                          fmt::format("{:.0f}", comparison.cycles(i).median),
                          fmt::format("{:.4f}", estimate(comparison.values(i, 0)).median), ratio,
                          is});
  }
  table.note = "from the moment when all threads are ready to that when the last one ends";
  return table;
}

}  // namespace

Report run_hackbench(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "hackbench";
  report.provenance = gather_provenance();
  const auto contenders = make_contenders(settings, "rseq", report);
  const Params params = params_of(settings);
  Comparison comparison(settings, default_rounds, "message", report, progress);
  for (const auto& contender : contenders) {
    comparison.add(*contender, loop_of(*contender, job_of(settings), "hackbench", report),
                   {BulkPath::single, 1, settings.loops}, params);
  }
  comparison.measure();
  report.tables.push_back(table_of(comparison, params));
  return report;
}

}  // namespace kmem::bench
