// footprint: how much memory per live byte, at the peak, and after it? Each subject in a process of
// its own: filled, half freed at random, refilled, all freed, shrunk; then a thread that only
// frees what another allocates.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "bench/apart.h"
#include "bench/contenders.h"
#include "bench/memory_series.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr std::uint64_t default_objects = 10'000'000;
// Its first fit walks lists that grow with the holes, which random frees leave everywhere.
constexpr std::uint64_t default_slob_objects = 1'000'000;
constexpr std::uint64_t passed_per_live_object = 2;
constexpr double within = 0.05;             // of the start's RSS, after shrink
constexpr double growth_allowed = 1 << 20;  // of the free-only thread: bytes
constexpr double mib = 1 << 20;

// One subject's memory, and what is asked of it.
class Course {
 public:
  Course(std::vector<MemorySample> samples, std::uint64_t objects, std::size_t bytes)
      : samples_(std::move(samples)), live_bytes_(static_cast<double>(objects * bytes)) {}

  const std::vector<MemorySample>& samples() const noexcept { return samples_; }
  double start() const { return end_of(Phase::start).rss_bytes; }
  double after(Phase phase) const { return end_of(phase).rss_bytes; }
  double peak() const {
    double peak = 0;
    for (const MemorySample& sample : samples_)
      if (sample.phase <= Phase::free_all) peak = std::max(peak, sample.rss_bytes);
    return peak;
  }
  double per_live_byte() const { return (peak() - start()) / live_bytes_; }
  double slabs_per_live_byte() const { return end_of(Phase::refill).slab_bytes / live_bytes_; }
  // What remains, as a share of the start's RSS and of the peak's growth.
  double remains() const { return after(Phase::shrink) - start(); }
  double remains_of_start() const { return remains() / start(); }
  double remains_of_growth() const { return remains() / std::max(peak() - start(), 1.0); }
  bool is_back() const { return remains_of_start() <= within; }
  // From the first quarter, when both threads have their caches, to the end.
  double passing_growth() const {
    std::vector<double> rss;
    for (const MemorySample& sample : samples_)
      if (sample.phase == Phase::passing) rss.push_back(sample.rss_bytes);
    return rss.empty() ? 0 : rss.back() - rss[rss.size() / 4];
  }
  bool is_bounded() const { return passing_growth() <= growth_allowed; }

 private:
  const MemorySample& end_of(Phase phase) const {
    const auto found = std::find_if(samples_.rbegin(), samples_.rend(),
                                    [=](const MemorySample& s) { return s.phase == phase; });
    if (found == samples_.rend())
      throw std::runtime_error(fmt::format("no memory sample of phase '{}'", text(phase)));
    return *found;
  }

  std::vector<MemorySample> samples_;
  double live_bytes_;
};

Job job_of(const Settings& settings, const Contender& contender) {
  Job job;
  job.work = Work::footprint;
  job.object_bytes = settings.sizes.empty() ? 64 : settings.sizes.front();
  job.live_objects = contender.name() == "slob" ? default_slob_objects : default_objects;
  if (settings.objects != 0) job.live_objects = settings.objects;
  job.seed = settings.seed;
  return job;
}

// A rival has a process of its own already. Nothing: it has no such work.
std::optional<Course> measure(const Contender& contender, const Job& job, const Settings& settings,
                              Report& report) {
  const Turn turn{BulkPath::single, 1, job.live_objects * passed_per_live_object};
  Outcome outcome;
  if (is_rival(contender.side())) {
    const auto loop = loop_of(contender, job, "footprint", report);
    if (loop == nullptr) return std::nullopt;
    outcome = loop->run(turn);
  } else {
    outcome = run_apart(contender.name(), settings.patience_seconds,
                        [&] { return contender.loop(job)->run(turn); });
  }
  return Course(unpack(outcome.values), job.live_objects, job.object_bytes);
}

std::string in_mib(double bytes) { return fmt::format("{:.1f}", bytes / mib); }

Table empty_table() {
  Table table;
  table.title = "resident memory, MiB, each subject in a process of its own";
  table.columns = {"subject",       "objects",        "start",       "peak",
                   "per live byte", "in slabs",       "half freed",  "all freed",
                   "shrunk",        "above start %",  "of growth %", "shrunk within 5 %",
                   "passing grew",  "passing bounded"};
  table.note =
      "per live byte: growth from start to peak; in slabs: the allocator's own pages (- : untold); "
      "above start, of growth:\nwhat remains after shrink, as a share of the start and of the "
      "peak's growth; passing: a thread that only frees, bounded: below 1 MiB";
  return table;
}

std::vector<std::string> row_of(const Contender& contender, const Job& job, const Course& course) {
  const double in_slabs = course.slabs_per_live_byte();
  return {contender.name(),
          fmt::format("{}", job.live_objects),
          in_mib(course.start()),
          in_mib(course.peak()),
          fmt::format("{:.3f}", course.per_live_byte()),
          in_slabs > 0 ? fmt::format("{:.3f}", in_slabs) : "-",
          in_mib(course.after(Phase::half_free)),
          in_mib(course.after(Phase::free_all)),
          in_mib(course.after(Phase::shrink)),
          fmt::format("{:.1f}", 100 * course.remains_of_start()),
          fmt::format("{:.1f}", 100 * course.remains_of_growth()),
          course.is_back() ? "yes" : "no",
          in_mib(course.passing_growth()),
          course.is_bounded() ? "yes" : "no"};
}

Series series_of(const Contender& contender, const Params& params, const Course& course) {
  Series series{contender.name(),
                contender.kind(),
                params,
                {"phase", "seconds", "rss_bytes", "slab_bytes"},
                {}};
  for (const MemorySample& sample : course.samples())
    series.rows.push_back({text(sample.phase), sample.seconds,
                           static_cast<std::int64_t>(sample.rss_bytes),
                           static_cast<std::int64_t>(sample.slab_bytes)});
  return series;
}

void add_results(Report& report, const Contender& contender, const Params& params,
                 const Course& course) {
  const std::pair<const char*, double> figures[] = {
      {"start_rss_bytes", course.start()},
      {"peak_rss_bytes", course.peak()},
      {"rss_per_live_byte", course.per_live_byte()},
      {"slab_bytes_per_live_byte", course.slabs_per_live_byte()},
      {"half_freed_rss_bytes", course.after(Phase::half_free)},
      {"all_freed_rss_bytes", course.after(Phase::free_all)},
      {"shrunk_rss_bytes", course.after(Phase::shrink)},
      {"shrunk_above_start", course.remains_of_start()},
      {"shrunk_of_growth", course.remains_of_growth()},
      {"shrunk_within_5_percent", course.is_back() ? 1 : 0},
      {"passing_growth_bytes", course.passing_growth()},
      {"passing_bounded", course.is_bounded() ? 1 : 0}};
  for (const auto& [metric, value] : figures)
    report.results.push_back(
        {contender.name(), contender.kind(), params, metric, estimate({&value, 1})});
  report.series.push_back(series_of(contender, params, course));
}

// What failed is told beside what was measured.
void add(Report& report, const Contender& contender, const Settings& settings) {
  const Job job = job_of(settings, contender);
  try {
    const std::optional<Course> course = measure(contender, job, settings, report);
    if (!course) return;
    const Params params{{"objects", static_cast<std::int64_t>(job.live_objects)},
                        {"size", static_cast<std::int64_t>(job.object_bytes)}};
    report.tables.front().rows.push_back(row_of(contender, job, *course));
    add_results(report, contender, params, *course);
  } catch (const std::exception& error) {
    report.closing.push_back(fmt::format("failed: {}", error.what()));
    report.failed = true;
  }
}

}  // namespace

Report run_footprint(const Settings& settings, Progress& progress) {
  if (settings.sizes.size() > 1)
    throw BadRequest("--size: footprint takes one size a run, so that processes begin alike");
  Report report;
  report.workload = "footprint";
  report.provenance = gather_provenance();
  const auto contenders = make_contenders(settings, "rseq", report);
  report.tables.push_back(empty_table());
  progress.start(report.workload.c_str(), contenders.size());
  for (const auto& contender : contenders) {
    add(report, *contender, settings);
    progress.step();
  }
  progress.finish();
  if (settings.has_backend("slob") && settings.objects == 0)
    report.closing.push_back(fmt::format(
        "slob has {} objects unless --objects says otherwise: its first fit walks a list whose "
        "length grows with the holes",
        default_slob_objects));
  return report;
}

}  // namespace kmem::bench
