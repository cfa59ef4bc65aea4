// bulk: what does allocating and freeing many objects by one call buy? Each backend's optimized
// path against the generic loop of the same library, batch by batch, in the shape of the table of
// 2015.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/floors.h"
#include "bench/published.h"
#include "bench/runner.h"
#include "bench/workloads/bulk_figures.h"
#include "bench/workloads/bulk_tables.h"
#include "bench/workloads/comparison.h"
#include "bench/workloads/published_tables.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

// Long enough for the clock, short enough that a busy moment spoils one turn and not a round.
constexpr std::size_t objects_per_turn = 32768;
constexpr std::size_t default_rounds = 31;
constexpr std::size_t default_bytes = 256;

struct Entry {
  std::string name, kind;
  std::unique_ptr<Loop> loop;
  // Where its paths stand among the competitors of the group being measured.
  std::size_t generic = 0, optimized = 0, single = 0, stored = 0;

  Side side = Side::backend;
  bool has_bulk = true;

  bool is_rival() const { return bench::is_rival(side); }
};

// All that competes at one size; floors included, so that they share the rounds.
class BulkRun {
 public:
  // working_set: bytes; 0: only what is hot in the caches is used.
  BulkRun(const Settings& settings, std::size_t bytes, std::size_t working_set, Report& report)
      : settings_(settings),
        bytes_(bytes),
        working_set_(working_set),
        report_(report),
        first_result_(report.results.size()),
        list_floor_(bytes),
        figures_(bytes) {}

  void add(const Contender& contender) {
    Job job;
    job.work = Work::bulk;
    job.threads = settings_.threads;
    job.object_bytes = bytes_;
    job.seed = settings_.seed;
    if (working_set_ != 0) job.live_objects = std::max<std::size_t>(working_set_ / bytes_, 1);
    Entry entry;
    entry.name = contender.name();
    entry.kind = contender.kind();
    entry.side = contender.side();
    entry.has_bulk = contender.has_bulk();
    entry.loop = loop_of(contender, job, work(), report_);
    if (entry.loop != nullptr) entries_.push_back(std::move(entry));
  }
  void measure(std::size_t batch, const RoundLimits& limits, Progress& progress);
  void measure_steps(const RoundLimits& limits, Progress& progress);
  void report_to_tables() const;

 private:
  bool is_hot() const noexcept { return working_set_ == 0; }
  Params params(std::size_t batch, const char* path) const;
  std::string work() const {
    return fmt::format("bulk of {} bytes on {}", bytes_,
                       settings_.threads == 1 ? "one thread" : "several threads");
  }
  std::vector<Competitor> competitors(std::size_t batch, bool with_single);
  void add_floors(std::vector<Competitor>& all, std::size_t batch);
  void add_ratios(std::size_t batch, const std::vector<Competitor>& all,
                  const std::vector<Measured>& measured, bool with_single);
  void add_to_figures(std::size_t batch, const std::vector<Measured>& measured, bool with_single);
  Competitor competitor(const Entry& entry, std::size_t batch, BulkPath path,
                        const char* path_name) const;

  const Settings& settings_;
  std::size_t bytes_, working_set_;
  Report& report_;
  std::size_t first_result_;
  std::vector<Entry> entries_;
  PointerCopyFloor copy_floor_;
  ThreadListFloor list_floor_;
  CpuArrayFloor array_floor_;
  std::size_t copy_floor_at_ = 0, called_floor_at_ = 0;  // among the competitors; 0: none
  BulkFigures figures_;
  bool single_measured_ = false;
  std::vector<BulkRows> rows_;  // by entry
};

Params BulkRun::params(std::size_t batch, const char* path) const {
  const ParamValue bulk = batch == random_batch ? ParamValue(batch_name(batch))
                                                : ParamValue(static_cast<std::int64_t>(batch));
  Params params = {{"bulk", bulk},
                   {"path", path},
                   {"size", static_cast<std::int64_t>(bytes_)},
                   {"threads", static_cast<std::int64_t>(settings_.threads)}};
  if (!is_hot()) params.emplace_back("working_set", static_cast<std::int64_t>(working_set_));
  return params;
}

Competitor BulkRun::competitor(const Entry& entry, std::size_t batch, BulkPath path,
                               const char* path_name) const {
  Loop* const loop = entry.loop.get();
  return {entry.name, entry.kind, params(batch, path_name), [=] {
            return loop->run({path, batch, objects_per_turn}).cost;
          }};
}

// Who has no bulk calls: the loop stands in the place of both.
std::vector<Competitor> BulkRun::competitors(std::size_t batch, bool with_single) {
  std::vector<Competitor> all;
  for (Entry& entry : entries_) {
    const auto add = [&](BulkPath path) {
      all.push_back(competitor(entry, batch, path, text(path)));
      return all.size() - 1;
    };
    entry.generic = add(BulkPath::generic);
    entry.optimized = entry.has_bulk ? add(BulkPath::optimized) : entry.generic;
    if (!with_single) continue;
    entry.single = add(BulkPath::single);
    if (is_hot()) entry.stored = add(BulkPath::stored);
  }
  add_floors(all, batch);
  return all;
}

void BulkRun::add_floors(std::vector<Competitor>& all, std::size_t batch) {
  copy_floor_at_ = all.size();
  const std::size_t copied = batch == random_batch ? random_batch_most / 2 : batch;
  all.push_back({"pointer copy", "floor", params(batch, "floor"),
                 [=, this] { return copy_floor_.measure(copied, objects_per_turn); }});
  all.push_back({"TLS list pair", "floor", params(batch, "floor"),
                 [this] { return list_floor_.measure(objects_per_turn); }});
  all.push_back({"rseq array pair", "floor", params(batch, "floor"),
                 [this] { return array_floor_.measure(objects_per_turn); }});
  if (std::none_of(entries_.begin(), entries_.end(),
                   [](const Entry& e) { return e.side == Side::c_abi; }))
    return;
  called_floor_at_ = all.size();
  all.push_back({"rseq array pair, called", "floor", params(batch, "floor"),
                 [this] { return array_floor_.measure_called(objects_per_turn); }});
}

void BulkRun::measure(std::size_t batch, const RoundLimits& limits, Progress& progress) {
  const bool with_single = !single_measured_;
  single_measured_ = true;
  const std::vector<Competitor> all = competitors(batch, with_single);
  const std::vector<Measured> measured = run_rounds(all, limits, progress);
  add_results(report_, all, measured, "object");
  add_ratios(batch, all, measured, with_single);
  if (is_hot()) add_to_figures(batch, measured, with_single);
}

void BulkRun::add_to_figures(std::size_t batch, const std::vector<Measured>& measured,
                             bool with_single) {
  std::vector<BulkCosts> group;
  for (const Entry& entry : entries_) {
    const auto of_single = [&](std::size_t i) { return with_single ? &measured[i] : nullptr; };
    group.push_back({entry.name, entry.side, &measured[entry.generic], &measured[entry.optimized],
                     of_single(entry.single), of_single(entry.stored)});
  }
  figures_.add_group(batch, group, measured[copy_floor_at_],
                     called_floor_at_ == 0 ? nullptr : &measured[called_floor_at_]);
}

// A group of its own: only costs that shared their rounds are divided by each other.
void BulkRun::measure_steps(const RoundLimits& limits, Progress& progress) {
  const std::vector<std::size_t> batches = step_batches();
  std::vector<Competitor> all;
  for (const Entry& entry : entries_)
    for (const std::size_t batch : batches)
      if (!entry.is_rival()) all.push_back(competitor(entry, batch, BulkPath::optimized, "step"));
  const std::vector<Measured> measured = run_rounds(all, limits, progress);
  add_results(report_, all, measured, "object");
  for (std::size_t i = 0; i < all.size(); i += batches.size()) {
    std::vector<const Measured*> costs;
    for (std::size_t k = 0; k < batches.size(); ++k) costs.push_back(&measured[i + k]);
    figures_.add_steps(all[i].subject, batches, costs);
  }
}

// Of each backend: optimized to generic, and in the first group to its single calls; each backend's
// optimized path to the first backend's and to each rival's best, and its single calls to theirs.
void BulkRun::add_ratios(std::size_t batch, const std::vector<Competitor>& all,
                         const std::vector<Measured>& measured, bool with_single) {
  if (rows_.empty())
    for (const Entry& entry : entries_)
      rows_.push_back({entry.name, entry.is_rival(), entry.has_bulk, {}});
  const auto add = [&](std::size_t of, std::size_t to) {
    Params with_path = all[of].params;
    with_path.emplace_back("to_path", all[to].params[1].second);
    report_.ratios.push_back({all[of].subject, all[to].subject, std::move(with_path),
                              cost_ratio(measured[of], measured[to])});
    return report_.ratios.back().value;
  };
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    BulkRow row{batch,
                estimate(measured[entry.generic].cycles),
                estimate(measured[entry.optimized].cycles),
                {}};
    if (entry.has_bulk) row.ratio = add(entry.optimized, entry.generic);
    if (!entry.is_rival()) {
      if (with_single) {
        add(entry.optimized, entry.single);
        if (batch == 1 && is_hot()) add(entry.optimized, entry.stored);
      }
      if (i > 0) add(entry.optimized, entries_[0].optimized);
      for (const Entry& rival : entries_) {
        if (!rival.is_rival()) continue;
        add(entry.optimized, rival.optimized);
        if (with_single) add(entry.single, rival.single);
      }
    }
    rows_[i].rows.push_back(row);
  }
}

void BulkRun::report_to_tables() const {
  std::string what = fmt::format("{} bytes", bytes_);
  if (!is_hot()) what += fmt::format(", working set {} bytes", working_set_);
  add_bulk_tables(report_, rows_, what, std::span(report_.results).subspan(first_result_));
  figures_.report_to(report_);
}

std::vector<std::size_t> default_batches() {
  std::vector<std::size_t> batches;
  for (const auto& row : published::slub_bulk_2015) batches.push_back(row.batch);
  return batches;
}

}  // namespace

Report run_bulk(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "bulk";
  report.provenance = gather_provenance();
  const auto contenders = make_contenders(settings, "rseq", report);
  const std::vector<std::size_t> batches =
      settings.batches.empty() ? default_batches() : settings.batches;
  const std::vector<std::size_t> sizes =
      settings.sizes.empty() ? std::vector<std::size_t>{default_bytes} : settings.sizes;
  RoundLimits limits;
  limits.rounds = settings.rounds == 0 ? default_rounds : settings.rounds;
  const std::vector<std::size_t> working_sets =
      settings.working_sets.empty() ? std::vector<std::size_t>{0} : settings.working_sets;
  const bool with_steps = settings.steps || settings.batches.empty();
  const std::size_t groups =
      (batches.size() + (with_steps ? 1 : 0)) * sizes.size() * working_sets.size();
  const auto begin_group = [&] {
    if (settings.seconds > 0)
      limits.deadline_ns = now_ns() + static_cast<std::uint64_t>(settings.seconds * 1e9 /
                                                                 static_cast<double>(groups));
  };
  progress.start("bulk", limits.rounds * groups);
  for (const std::size_t bytes : sizes) {
    for (const std::size_t working_set : working_sets) {
      BulkRun run(settings, bytes, working_set, report);
      for (const auto& contender : contenders) run.add(*contender);
      for (const std::size_t batch : batches) {
        begin_group();
        run.measure(batch, limits, progress);
      }
      if (with_steps) {
        begin_group();
        run.measure_steps(limits, progress);
      }
      run.report_to_tables();
    }
  }
  progress.finish();
  if (settings.published) report.tables.push_back(published_bulk());
  report.closing.push_back(
      "improved %: median over rounds of 1 - optimized/generic, with its 95 % interval; both of "
      "one round, in turn");
  return report;
}

}  // namespace kmem::bench
