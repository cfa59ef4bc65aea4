// replay: a kernel's own load, event by event, on each design.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bench/subjects.h"
#include "bench/workloads/replay_tables.h"
#include "bench/workloads/workloads.h"
#include "common/percpu/sequences.h"

namespace kmem::bench {

namespace {

constexpr std::size_t default_rounds = 7;

// Per-CPU state is made for one machine: the largest of those traced, if several files are given.
void set_machine(const Settings& settings, std::span<const trace::Program> programs,
                 Report& report) {
  unsigned cpus = 1;
  int nodes = 1;
  for (const trace::Program& program : programs) {
    cpus = std::max(cpus, program.cpus);
    nodes = std::max(nodes, program.nodes);
  }
  if (settings.cpus != 0 && settings.cpus < cpus)
    throw BadRequest(
        fmt::format("--cpus: {} is below the traced machine's {}", settings.cpus, cpus));
  if (settings.nodes != 0 && settings.nodes < nodes)
    throw BadRequest(
        fmt::format("--nodes: {} is below the traced machine's {}", settings.nodes, nodes));
  cpus = settings.cpus != 0 ? settings.cpus : cpus;
  nodes = settings.nodes != 0 ? settings.nodes : nodes;
  percpu::set_virtual_machine(cpus, nodes);
  report.lines.push_back(fmt::format("virtual machine: {} CPUs, {} nodes{}", cpus, nodes,
                                     settings.touch
                                         ? "; every object is written over the size asked for"
                                         : "; objects are not written to"));
}

std::string slabinfo_path(const Settings& settings, const std::string& backend, std::size_t file) {
  if (settings.slabinfo_out.empty()) return {};
  std::string path = settings.slabinfo_out;
  if (settings.backends.size() > 1) path += "-" + backend;
  if (settings.files.size() > 1) path += fmt::format("-{}", file + 1);
  return path;
}

// Before anything is measured: minutes of work must not end at a misspelt directory.
void check_slabinfo_paths(const Settings& settings) {
  for (std::size_t file = 0; file < settings.files.size(); ++file) {
    for (const std::string& backend : settings.backends) {
      const std::string path = slabinfo_path(settings, backend, file);
      if (path.empty()) return;
      std::FILE* opened = std::fopen(path.c_str(), "a");
      if (opened == nullptr)
        throw BadRequest(
            fmt::format("--slabinfo-out: cannot write {}: {}", path, std::strerror(errno)));
      std::fclose(opened);
    }
  }
}

class FileRun {
 public:
  FileRun(const Settings& settings, const trace::Program& program, std::size_t file)
      : settings_(settings), program_(program), file_(file) {}

  void run(std::span<const std::unique_ptr<Subject>> subjects, Progress& progress, Report& report);

 private:
  void measure(Progress& progress, Report& report);

  const Settings& settings_;
  const trace::Program& program_;
  std::size_t file_;
  std::vector<ReplayResult> results_;
  std::vector<std::unique_ptr<ReplayBench>> benches_;
};

void FileRun::run(std::span<const std::unique_ptr<Subject>> subjects, Progress& progress,
                  Report& report) {
  if (program_.ops.empty()) {
    report.closing.push_back(fmt::format(
        "{}: nothing to replay: every event frees what was allocated before the trace began",
        program_.file));
    return;
  }
  // One after the other, so that no other design holds pages while one is looked at.
  for (const auto& subject : subjects) {
    ReplayOptions options;
    options.touch = settings_.touch;
    options.slabinfo_out = slabinfo_path(settings_, subject->name(), file_);
    benches_.push_back(subject->replay(program_, options));
    results_.push_back({subject->name(), benches_.back()->footprint(), {}});
    progress.step();
  }
  measure(progress, report);
  report.tables.push_back(summary_table(program_, results_));
  report.tables.push_back(memory_table(results_));
  report.tables.push_back(cache_table(program_, results_));
  for (std::string& line : verdict_on_memory(results_)) report.closing.push_back(std::move(line));
  add_results(report, program_, results_);
}

void FileRun::measure(Progress& progress, Report& report) {
  std::vector<Competitor> competitors;
  for (std::size_t i = 0; i < benches_.size(); ++i) {
    ReplayBench* bench = benches_[i].get();
    competitors.push_back({results_[i].backend, "backend", {{"trace", program_.file}}, [bench] {
                             return bench->round();
                           }});
  }
  RoundLimits limits;
  limits.rounds = settings_.rounds == 0 ? default_rounds : settings_.rounds;
  if (settings_.seconds > 0) {
    const double share = settings_.seconds / static_cast<double>(settings_.files.size());
    limits.deadline_ns = now_ns() + static_cast<std::uint64_t>(share * 1e9);
  }
  const std::vector<Measured> measured = run_rounds(competitors, limits, progress);
  kmem::bench::add_results(report, competitors, measured, "event");
  for (std::size_t i = 0; i < results_.size(); ++i) {
    results_[i].cost = measured[i];
    if (i == 0) continue;
    report.ratios.push_back({results_[i].backend, results_[0].backend, competitors[i].params,
                             cost_ratio(measured[i], measured[0])});
  }
}

}  // namespace

Report run_replay(const Settings& settings, Progress& progress) {
  Report report;
  report.workload = "replay";
  report.provenance = gather_provenance();
  check_slabinfo_paths(settings);
  std::vector<trace::Program> programs;
  progress.start("reading", settings.files.size());
  for (const std::string& file : settings.files) {
    programs.push_back(trace::load_program(file));
    progress.step();
  }
  set_machine(settings, programs, report);
  const auto subjects = make_subjects(settings, "virtual", report);
  const std::size_t rounds = settings.rounds == 0 ? default_rounds : settings.rounds;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    progress.start(programs[i].file, rounds + subjects.size());
    for (std::string& line : describe(programs[i])) report.lines.push_back(std::move(line));
    FileRun(settings, programs[i], i).run(subjects, progress, report);
  }
  progress.finish();
  return report;
}

}  // namespace kmem::bench
