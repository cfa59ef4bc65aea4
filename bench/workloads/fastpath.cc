// fastpath: what does the synchronisation of the fast path cost? kmalloc and kfree of each design
// under each policy that it has, in the shape of the table of 2007.
#include <fmt/format.h>

#include <array>

#include "bench/published.h"
#include "bench/subjects.h"
#include "bench/workloads/comparison.h"
#include "bench/workloads/published_tables.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr std::size_t default_rounds = 15;
constexpr std::size_t default_sizes[] = {8, 32, 64, 4096, 16384};
constexpr std::uint64_t burst = 10000;  // kmallocs, then as many kfrees: as in 2007
constexpr std::uint64_t pairs = 32768;
// In the order of the columns. "none" stands in the first.
constexpr std::array<const char*, 3> policies = {"locked", "atomic", "rseq"};

struct Shape {
  const char* name;
  const char* title;
  Turn turn;
};
constexpr Shape shapes[] = {
    {"pair", "kmalloc and kfree of one object: cycles a pair", {BulkPath::single, 1, pairs}},
    {"burst",
     "10,000 kmallocs, then 10,000 kfrees: cycles an object",
     {BulkPath::single, burst, burst}}};

// One design, one size, one shape: its number in the comparison by policy.
struct Row {
  std::string backend;
  std::size_t bytes;
  const Shape* shape;
  std::array<std::size_t, policies.size()> numbers;
};

Params params_of(const Row& row, const char* policy) {
  return {{"policy", policy},
          {"shape", row.shape->name},
          {"size", static_cast<std::int64_t>(row.bytes)}};
}

class FastpathRun {
 public:
  explicit FastpathRun(Comparison& comparison) : comparison_(comparison) {}

  void add(const std::string& backend, std::size_t bytes, Report& report);
  Table table(const Shape& shape);
  Table table_of_2007() const;

 private:
  std::string cell(std::size_t number) const {
    return number == Comparison::npos ? "-" : with_interval(comparison_.cycles(number), 1);
  }
  // Of the bursts' halves.
  std::string half(std::size_t number, std::size_t index) const {
    return number == Comparison::npos
               ? "-"
               : with_interval(estimate(comparison_.values(number, index)), 1);
  }

  Comparison& comparison_;
  std::vector<Row> rows_;
};

void FastpathRun::add(const std::string& backend, std::size_t bytes, Report& report) {
  Job job;
  job.work = Work::fastpath;
  job.object_bytes = bytes;
  for (const Shape& shape : shapes) rows_.push_back({backend, bytes, &shape, {}});
  for (std::size_t i = 0; i < policies.size(); ++i) {
    Row* const mine = &rows_[rows_.size() - std::size(shapes)];
    for (std::size_t s = 0; s < std::size(shapes); ++s) mine[s].numbers[i] = Comparison::npos;
    const bool without = backend == "slob";
    if ((without && i != 0) || (policies[i] == std::string("atomic") && backend != "slub"))
      continue;
    const char* const policy = without ? "none" : policies[i];
    const auto subject = make_subject(backend, policy);
    add_policy(report.provenance, subject->running());
    const std::shared_ptr<Loop> loop = subject->loop(job);
    for (std::size_t s = 0; s < std::size(shapes); ++s)
      mine[s].numbers[i] =
          comparison_.add(*subject, loop, shapes[s].turn, params_of(mine[s], policy));
  }
}

Table FastpathRun::table(const Shape& shape) {
  Table table;
  table.title = shape.title;
  table.columns = {"subject", "size",    "locked",         "atomic",
                   "rseq",    "rseq to", "its cost ratio", "rseq is"};
  for (const Row& row : rows_) {
    if (row.shape != &shape) continue;
    const auto [locked, atomic, rseq] = row.numbers;
    const std::size_t base = atomic != Comparison::npos ? atomic : locked;
    std::vector<std::string> cells = {row.backend, fmt::format("{}", row.bytes), cell(locked),
                                      cell(atomic), cell(rseq)};
    if (rseq == Comparison::npos) {
      cells.insert(cells.end(), {"-", "-", "-"});
    } else {
      const char* const to = base == atomic ? "atomic" : "locked";
      Params params = params_of(row, "rseq");
      params.emplace_back("to_policy", to);
      const Estimate ratio = comparison_.compare(rseq, base, std::move(params));
      cells.insert(cells.end(), {to, with_interval(ratio), text(verdict(ratio))});
    }
    table.rows.push_back(std::move(cells));
  }
  table.note = "locked: a lock a CPU (SLOB: its one lock); atomic: a locked compare-exchange";
  return table;
}

// SLUB's bursts by halves, beside those sizes of 2007 that were measured.
Table FastpathRun::table_of_2007() const {
  Table table;
  table.title = "slub and the table of 2007: cycles a call";
  table.columns = {"call",         "size", "locked", "atomic", "rseq", "2007: interrupts off",
                   "cmpxchg_local"};
  for (const auto& old : published::cmpxchg_local_2007) {
    for (const Row& row : rows_) {
      if (row.backend != "slub" || row.bytes != old.bytes || row.shape->name[0] != 'b') continue;
      const std::size_t index = std::string(old.operation) == "kmalloc" ? 0 : 1;
      const auto [locked, atomic, rseq] = row.numbers;
      table.rows.push_back({old.operation, fmt::format("{}", old.bytes), half(locked, index),
                            half(atomic, index), half(rseq, index),
                            fmt::format("{} to {}", old.before_min_cycles, old.before_max_cycles),
                            fmt::format("{}", old.cmpxchg_local_cycles)});
    }
  }
  table.note =
      "2007: a Pentium 4 at 3 GHz, inside the kernel; compare shapes, not cycles: there interrupts "
      "were turned off and on, here a lock a CPU stands for that";
  return table;
}

}  // namespace

Report run_fastpath(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "fastpath";
  report.provenance = gather_provenance();
  const std::vector<std::size_t> sizes =
      settings.sizes.empty()
          ? std::vector<std::size_t>(std::begin(default_sizes), std::end(default_sizes))
          : settings.sizes;
  Comparison comparison(settings, default_rounds, "object", report, progress);
  FastpathRun run(comparison);
  for (const std::string& backend : settings.backends)
    for (const std::size_t bytes : sizes) run.add(backend, bytes, report);
  comparison.measure();
  for (const Shape& shape : shapes) report.tables.push_back(run.table(shape));
  Table old = run.table_of_2007();
  if (!old.rows.empty()) report.tables.push_back(std::move(old));
  if (settings.published) report.tables.push_back(published_fastpath());
  if (settings.has_backend("slob"))
    report.closing.push_back("slob has no per-CPU state: one lock guards its heap");
  return report;
}

}  // namespace kmem::bench
