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
#include "bench/workloads/comparison.h"
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
  BulkRun(const Settings& settings, std::size_t bytes, Report& report)
      : settings_(settings), bytes_(bytes), report_(report), list_floor_(bytes), figures_(bytes) {}

  void add(const Contender& contender) {
    Job job;
    job.work = Work::bulk;
    job.threads = settings_.threads;
    job.object_bytes = bytes_;
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
  void add_tables() const;
  void add_rival_table() const;
  void add_figures() const { figures_.report_to(report_); }

 private:
  struct Row {
    std::size_t batch;
    Estimate generic, optimized, ratio;
  };

  std::string work() const {
    return fmt::format("bulk of {} bytes on {}", bytes_,
                       settings_.threads == 1 ? "one thread" : "several threads");
  }
  Params params(std::size_t batch, const char* path) const {
    return {{"bulk", static_cast<std::int64_t>(batch)},
            {"path", path},
            {"size", static_cast<std::int64_t>(bytes_)},
            {"threads", static_cast<std::int64_t>(settings_.threads)}};
  }
  std::vector<Competitor> competitors(std::size_t batch, bool with_single);
  void add_floors(std::vector<Competitor>& all, std::size_t batch);
  void add_ratios(std::size_t batch, const std::vector<Competitor>& all,
                  const std::vector<Measured>& measured, bool with_single);
  void add_to_figures(std::size_t batch, const std::vector<Measured>& measured, bool with_single);
  Competitor competitor(const Entry& entry, std::size_t batch, BulkPath path,
                        const char* path_name) const;

  const Settings& settings_;
  std::size_t bytes_;
  Report& report_;
  std::vector<Entry> entries_;
  PointerCopyFloor copy_floor_;
  ThreadListFloor list_floor_;
  CpuArrayFloor array_floor_;
  std::size_t copy_floor_at_ = 0, called_floor_at_ = 0;  // among the competitors; 0: none
  BulkFigures figures_;
  bool single_measured_ = false;
  std::vector<std::vector<Row>> rows_;  // by entry
};

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
    entry.stored = add(BulkPath::stored);
  }
  add_floors(all, batch);
  return all;
}

void BulkRun::add_floors(std::vector<Competitor>& all, std::size_t batch) {
  copy_floor_at_ = all.size();
  all.push_back({"pointer copy", "floor", params(batch, "floor"),
                 [=, this] { return copy_floor_.measure(batch, objects_per_turn); }});
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
  add_to_figures(batch, measured, with_single);
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
  rows_.resize(entries_.size());
  const auto add = [&](std::size_t of, std::size_t to) {
    Params with_path = all[of].params;
    with_path.emplace_back("to_path", all[to].params[1].second);
    report_.ratios.push_back({all[of].subject, all[to].subject, std::move(with_path),
                              cost_ratio(measured[of], measured[to])});
    return report_.ratios.back().value;
  };
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    Row row{batch,
            estimate(measured[entry.generic].cycles),
            estimate(measured[entry.optimized].cycles),
            {}};
    if (entry.has_bulk) row.ratio = add(entry.optimized, entry.generic);
    if (!entry.is_rival()) {
      if (with_single) {
        add(entry.optimized, entry.single);
        if (batch == 1) add(entry.optimized, entry.stored);
      }
      if (i > 0) add(entry.optimized, entries_[0].optimized);
      for (const Entry& rival : entries_) {
        if (!rival.is_rival()) continue;
        add(entry.optimized, rival.optimized);
        if (with_single) add(entry.single, rival.single);
      }
    }
    rows_[i].push_back(row);
  }
}

const published::SlubBulk2015* published_row(std::size_t batch) {
  for (const auto& row : published::slub_bulk_2015)
    if (row.batch == batch) return &row;
  return nullptr;
}

std::string improvement(const Estimate& ratio) {
  return fmt::format("{:.1f}", (1 - ratio.median) * 100);
}

void BulkRun::add_tables() const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].has_bulk) continue;
    Table table;
    table.title = fmt::format("{}: {} bytes, cycles for one object allocated and freed",
                              entries_[i].name, bytes_);
    table.columns = {"bulk", "generic", "optimized", "improved %", "interval", "optimized is"};
    const bool compare = entries_[i].name == "slub";
    if (compare)
      table.columns.insert(table.columns.end(), {"2015: generic", "optimized", "improved %"});
    for (const Row& row : rows_[i]) {
      std::vector<std::string> cells = {
          fmt::format("{}", row.batch),
          fmt::format("{:.1f}", row.generic.median),
          fmt::format("{:.1f}", row.optimized.median),
          improvement(row.ratio),
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
      table.note =
          "2015: i7-4790K at 4 GHz, single call 42 to 43 cycles; compare shapes, not cycles";
    report_.tables.push_back(std::move(table));
  }
  add_rival_table();
}

// Each one's optimized path, or the loop that stands for it, batch by batch.
void BulkRun::add_rival_table() const {
  if (std::none_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.is_rival(); }))
    return;
  Table table;
  table.title = fmt::format("beside the rivals: {} bytes, cycles an object", bytes_);
  table.columns = {"bulk"};
  for (const Entry& entry : entries_) table.columns.push_back(entry.name);
  for (std::size_t i = 0; i < rows_.front().size(); ++i) {
    std::vector<std::string> cells = {fmt::format("{}", rows_.front()[i].batch)};
    for (const std::vector<Row>& rows : rows_)
      cells.push_back(fmt::format("{:.1f}", rows[i].optimized.median));
    table.rows.push_back(std::move(cells));
  }
  table.note = "a rival without bulk calls: so many single ones, then so many frees";
  report_.tables.push_back(std::move(table));
}

std::vector<std::size_t> default_batches() {
  std::vector<std::size_t> batches;
  for (const auto& row : published::slub_bulk_2015) batches.push_back(row.batch);
  return batches;
}

void add_floor_table(Report& report, std::size_t bytes) {
  Table table;
  table.title = fmt::format("single calls and floors: {} bytes, cycles an object", bytes);
  table.columns = {"subject", "bulk", "cycles", "interval"};
  std::string first_batch;  // the pairs do not depend on it: shown once
  for (const Result& result : report.results) {
    const bool single = to_string(result.params[1].second) == "single";
    const bool of_size = to_string(result.params[2].second) == std::to_string(bytes);
    if (!of_size || !(single || result.kind == "floor")) continue;
    if (result.metric != "cycles_per_object") continue;
    const std::string batch = to_string(result.params[0].second);
    if (first_batch.empty()) first_batch = batch;
    if (result.kind == "floor" && result.subject != "pointer copy" && batch != first_batch)
      continue;
    table.rows.push_back({result.subject, single ? "-" : batch,
                          fmt::format("{:.2f}", result.value.median),
                          fmt::format("{:.2f}..{:.2f}", result.value.low, result.value.high)});
  }
  report.tables.push_back(std::move(table));
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
  const bool with_steps = settings.steps || settings.batches.empty();
  const std::size_t groups = (batches.size() + (with_steps ? 1 : 0)) * sizes.size();
  const auto begin_group = [&] {
    if (settings.seconds > 0)
      limits.deadline_ns = now_ns() + static_cast<std::uint64_t>(settings.seconds * 1e9 /
                                                                 static_cast<double>(groups));
  };
  progress.start("bulk", limits.rounds * groups);
  for (const std::size_t bytes : sizes) {
    BulkRun run(settings, bytes, report);
    for (const auto& contender : contenders) run.add(*contender);
    for (const std::size_t batch : batches) {
      begin_group();
      run.measure(batch, limits, progress);
    }
    if (with_steps) {
      begin_group();
      run.measure_steps(limits, progress);
    }
    run.add_tables();
    add_floor_table(report, bytes);
    run.add_figures();
  }
  progress.finish();
  report.closing.push_back(
      "improved %: median over rounds of 1 - optimized/generic, with its 95 % interval; both of "
      "one "
      "round, in turn");
  return report;
}

}  // namespace kmem::bench
