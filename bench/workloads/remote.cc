// remote: what does a free on another CPU cost? One thread allocates, another frees; batch by
// batch, by single calls and in bulk, beside the ring alone that carries the pointers.
#include "bench/loops/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>

#include "bench/workloads/comparison.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr std::uint64_t objects_per_turn = 131072;
constexpr std::size_t default_rounds = 15;

class RingAlone final : public Contender {
 public:
  std::string name() const override { return "ring alone"; }
  Side side() const override { return Side::floor; }
  std::unique_ptr<Loop> loop(const Job& job) const override {
    return std::make_unique<RemoteLoop<RingAloneWorld>>(job);
  }
};

struct Row {
  std::size_t number;  // in the comparison
  Side side;
  std::size_t bytes, batch;
  BulkPath path;
};

Params params_of(const Row& row) {
  return {{"bulk", static_cast<std::int64_t>(row.batch)},
          {"path", text(row.path)},
          {"size", static_cast<std::int64_t>(row.bytes)}};
}

class RemoteRun {
 public:
  RemoteRun(Comparison& comparison, Report& report) : comparison_(comparison), report_(report) {}

  void add(const Contender& contender, std::size_t bytes, const std::vector<std::size_t>& batches);
  Table table();
  // The cheapest backend beside the cheapest malloc, where there are both: a sentence each.
  void compare_best(std::size_t bytes, std::size_t batch);

 private:
  const Row* best(std::initializer_list<Side> sides, std::size_t bytes, std::size_t batch) const;

  Comparison& comparison_;
  Report& report_;
  std::vector<Row> rows_;
};

void RemoteRun::add(const Contender& contender, std::size_t bytes,
                    const std::vector<std::size_t>& batches) {
  Job job;
  job.work = Work::remote;
  job.object_bytes = bytes;
  const std::shared_ptr<Loop> loop =
      loop_of(contender, job, fmt::format("remote of {} bytes", bytes), report_);
  for (const std::size_t batch : batches) {
    for (const BulkPath path : {BulkPath::single, BulkPath::optimized}) {
      if (contender.side() == Side::floor && path == BulkPath::single) continue;
      Row row{0, contender.side(), bytes, batch, path};
      row.number =
          comparison_.add(contender, loop, {path, batch, objects_per_turn}, params_of(row));
      if (row.number != Comparison::npos) rows_.push_back(row);
    }
  }
}

const Row* RemoteRun::best(std::initializer_list<Side> sides, std::size_t bytes,
                           std::size_t batch) const {
  const Row* best = nullptr;
  for (const Row& row : rows_) {
    const bool is_of_sides = std::find(sides.begin(), sides.end(), row.side) != sides.end();
    if (row.bytes != bytes || row.batch != batch || !is_of_sides) continue;
    if (best == nullptr ||
        comparison_.cycles(row.number).median < comparison_.cycles(best->number).median)
      best = &row;
  }
  return best;
}

Table RemoteRun::table() {
  Table table;
  table.title = "allocated on one thread, freed on another: cycles an object";
  table.columns = {"subject", "size", "bulk", "path", "cycles", "to ring alone"};
  for (const Row& row : rows_) {
    std::string ratio = "-";
    if (row.side != Side::floor) {
      const Row* ring = best({Side::floor}, row.bytes, row.batch);
      ratio = with_interval(comparison_.compare(row.number, ring->number, params_of(row)));
    }
    table.rows.push_back({comparison_.competitor(row.number).subject, fmt::format("{}", row.bytes),
                          fmt::format("{}", row.batch), text(row.path),
                          with_interval(comparison_.cycles(row.number), 1), ratio});
  }
  table.note = "the time of both threads side by side, the ring's own traffic included";
  return table;
}

void RemoteRun::compare_best(std::size_t bytes, std::size_t batch) {
  const Row* backend = best({Side::backend, Side::c_abi}, bytes, batch);
  const Row* malloc = best({Side::malloc}, bytes, batch);
  if (backend == nullptr || malloc == nullptr) return;
  const Estimate ratio = comparison_.compare(backend->number, malloc->number, params_of(*backend));
  report_.closing.push_back(fmt::format("{} bytes, bulk {}: {} costs {} of {}", bytes, batch,
                                        comparison_.competitor(backend->number).subject,
                                        with_interval(ratio),
                                        comparison_.competitor(malloc->number).subject));
}

}  // namespace

Report run_remote(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "remote";
  report.provenance = gather_provenance();
  const auto contenders = make_contenders(settings, "rseq", report);
  const std::vector<std::size_t> batches =
      settings.batches.empty() ? std::vector<std::size_t>{1, 32, 128} : settings.batches;
  const std::vector<std::size_t> sizes =
      settings.sizes.empty() ? std::vector<std::size_t>{256} : settings.sizes;
  Comparison comparison(settings, default_rounds, "object", report, progress);
  RemoteRun run(comparison, report);
  for (const std::size_t bytes : sizes) {
    for (const auto& contender : contenders) run.add(*contender, bytes, batches);
    run.add(RingAlone(), bytes, batches);
  }
  comparison.measure();
  report.tables.push_back(run.table());
  for (const std::size_t bytes : sizes)
    for (const std::size_t batch : batches) run.compare_best(bytes, batch);
  return report;
}

}  // namespace kmem::bench
