// node: what does a shared cache line cost? SLUB with its node on cache lines of its own against
// SLUB with its node beside the cache's hot fields: hackbench's messages, as in 2010, and a loop in
// which one CPU takes the node's lock all the time.
#include <fmt/format.h>

#include <array>

#include "bench/subjects.h"
#include "bench/workloads/comparison.h"
#include "bench/workloads/published_tables.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr std::size_t default_rounds = 31;
constexpr std::uint64_t pairs_per_turn = 131072;
constexpr std::size_t line_bytes = 256;

struct Shape {
  const char* name;
  const char* what;
  Job job;
  Turn turn;
};

std::array<Shape, 3> shapes_of(const Settings& settings) {
  Job hackbench;
  hackbench.work = Work::hackbench;
  hackbench.groups = settings.groups;
  hackbench.pairs = settings.pairs;
  hackbench.threads = 2 * settings.groups * settings.pairs;
  hackbench.message_bytes = settings.message_bytes;
  hackbench.transport = settings.over_sockets ? Transport::socket : Transport::queue;
  Job line;
  line.work = Work::node_line;
  line.threads = 2;
  line.object_bytes = line_bytes;
  return {
      {{"hackbench", "a message of hackbench", hackbench, {BulkPath::single, 1, settings.loops}},
       {"lock taken",
        "a pair while a CPU takes the node's lock",
        line,
        {BulkPath::single, 1, pairs_per_turn}},
       {"control",
        "a pair while a CPU takes another cache's",
        line,
        {BulkPath::single, 0, pairs_per_turn}}}};
}

std::string gain(const Estimate& ratio) {
  return fmt::format("{:.1f} ({:.1f}..{:.1f})", (1 - ratio.median) * 100, (1 - ratio.high) * 100,
                     (1 - ratio.low) * 100);
}

}  // namespace

Report run_node(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "node";
  report.provenance = gather_provenance();
  const auto separate = make_subject("slub", "rseq");
  const auto embedded = make_slub_with_embedded_node();
  add_policy(report.provenance, separate->running());
  Comparison comparison(settings, default_rounds, "operation", report, progress);
  const std::array<Shape, 3> shapes = shapes_of(settings);
  const std::shared_ptr<Loop> separate_line = separate->loop(shapes[1].job),
                              embedded_line = embedded->loop(shapes[1].job);
  for (const Shape& shape : shapes) {
    const Params params = {{"shape", shape.name}};
    const bool in_the_small = shape.job.work == Work::node_line;
    comparison.add(*separate, in_the_small ? separate_line : separate->loop(shape.job), shape.turn,
                   params);
    comparison.add(*embedded, in_the_small ? embedded_line : embedded->loop(shape.job), shape.turn,
                   params);
  }
  comparison.measure();
  Table table;
  table.title = "slub's node: cycles an operation";
  table.columns = {"operation", "separate line", "embedded", "gain % by a line of its own",
                   "a line of its own is"};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Estimate ratio = comparison.compare(2 * i, 2 * i + 1, {{"shape", shapes[i].name}});
    table.rows.push_back({shapes[i].what, with_interval(comparison.cycles(2 * i), 1),
                          with_interval(comparison.cycles(2 * i + 1), 1), gain(ratio),
                          text(verdict(ratio))});
  }
  report.tables.push_back(std::move(table));
  report.tables.push_back(published_node());
  return report;
}

}  // namespace kmem::bench
