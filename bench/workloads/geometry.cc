// geometry: what each design would choose for given sizes, and whether SLUB chooses as a kernel
// did.
#include <fmt/format.h>

#include "bench/kernel_rows.h"
#include "bench/subjects.h"
#include "bench/workloads/workloads.h"
#include "common/nodes/topology.h"

namespace kmem::bench {

namespace {

void keep_state(void*) {}

std::vector<std::size_t> default_sizes() {
  return {8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192};
}

std::string queue_text(const std::string& backend, const Geometry& g) {
  if (backend == "slab")
    return fmt::format("limit {}, batch {}, shared {}", g.limit, g.batchcount, g.shared);
  if (backend == "slub")
    return fmt::format("min_partial {}, cpu_partial {} ({} slabs)", g.min_partial, g.cpu_partial,
                       g.cpu_partial_slabs);
  if (backend == "slqb") return fmt::format("hiwater {}, freebatch {}", g.limit, g.batchcount);
  return "-";
}

void add_results(Report& report, const std::string& backend, std::size_t bytes, const Geometry& g) {
  const Params params = {{"size", static_cast<std::int64_t>(bytes)}};
  const auto add = [&](const char* metric, double value) {
    report.results.push_back({backend, "backend", params, metric, {value, value, value, 1, 1}});
  };
  add("slot_bytes", static_cast<double>(g.slot_bytes));
  add("order", g.order);
  add("objects", g.objects);
  add("waste_bytes", static_cast<double>(g.waste_bytes));
  add("align", static_cast<double>(g.align));
  add("min_partial", g.min_partial);
  add("cpu_partial", g.cpu_partial);
  add("cpu_partial_slabs", g.cpu_partial_slabs);
  add("limit", g.limit);
  add("batchcount", g.batchcount);
  add("shared", g.shared);
}

std::vector<std::string> row_of(const std::string& backend, std::size_t bytes, const Geometry& g) {
  const std::string size = fmt::format("{}", bytes);
  if (g.objects == 0) return {size, "-", "-", "-", "-", "-", "no slab can hold it", "", "-"};
  const double slab_bytes = static_cast<double>(std::size_t{4096} << g.order);
  return {size,
          fmt::format("{}", g.slot_bytes),
          fmt::format("{}", g.order),
          fmt::format("{}", g.objects),
          fmt::format("{}", g.waste_bytes),
          fmt::format("{:.1f}", 100 * static_cast<double>(g.waste_bytes) / slab_bytes),
          queue_text(backend, g),
          fmt::format("{}", g.colours > 0 ? g.colours : 1),
          *g.management != 0 ? g.management : "-"};
}

void show(Report& report, const Settings& settings, const Subject& subject, unsigned cpus) {
  Table table;
  table.title = subject.name();
  table.columns = {"size",    "slot",   "order",   "objects", "waste",
                   "waste %", "queues", "colours", "index"};
  const std::vector<std::size_t> sizes = settings.sizes.empty() ? default_sizes() : settings.sizes;
  for (const std::size_t bytes : sizes) {
    CacheSpec spec;
    spec.name = "geometry";
    spec.object_bytes = bytes;
    spec.align = settings.align;
    spec.flags = settings.flags;
    if (settings.constructor) spec.ctor = keep_state;
    const Geometry geometry = subject.geometry(spec, cpus);
    table.rows.push_back(row_of(subject.name(), bytes, geometry));
    add_results(report, subject.name(), bytes, geometry);
  }
  report.tables.push_back(std::move(table));
}

// One line a difference.
std::vector<std::string> differences(const KernelRow& row, const Geometry& g) {
  std::vector<std::string> lines;
  const auto compare = [&](const char* what, std::uint64_t kernel, std::uint64_t ours) {
    if (kernel != ours)
      lines.push_back(fmt::format("line {}, {}: {} is {} here, {} in the file", row.line, row.cache,
                                  what, ours, kernel));
  };
  compare("slab_size", row.slab_size, g.slot_bytes);
  compare("order", row.order, g.order);
  compare("objs_per_slab", row.objects, g.objects);
  compare("min_partial", row.min_partial, g.min_partial);
  compare("cpu_partial", row.cpu_partial, g.cpu_partial);
  return lines;
}

void check(Report& report, const Settings& settings) {
  const unsigned named = cpus_in_name(settings.check);
  const unsigned cpus = settings.cpus != 0 ? settings.cpus
                        : named != 0       ? named
                                           : nodes::present_cpus();
  const char* source = settings.cpus != 0 ? "--cpus"
                       : named != 0       ? "the file's name"
                                          : "this machine; --cpus says otherwise";
  const std::vector<KernelRow> rows = read_kernel_rows(settings.check);
  const std::unique_ptr<Subject> slub = make_subject("slub", "virtual");
  std::size_t differing = 0;
  for (const KernelRow& row : rows) {
    const std::vector<std::string> lines = differences(row, slub->geometry(spec_of(row), cpus));
    differing += lines.empty() ? 0 : 1;
    report.lines.insert(report.lines.end(), lines.begin(), lines.end());
  }
  const auto add = [&](const char* metric, std::size_t value) {
    const auto figure = static_cast<double>(value);
    report.results.push_back({"slub",
                              "backend",
                              {{"file", settings.check}, {"cpus", std::int64_t{cpus}}},
                              metric,
                              {figure, figure, figure, 1, 1}});
  };
  add("rows", rows.size());
  add("rows_that_differ", differing);
  report.closing.push_back(
      fmt::format("{}: {} rows, {} differ from SLUB's choice for {} CPUs (from {})", settings.check,
                  rows.size(), differing, cpus, source));
  report.failed = differing > 0;
}

}  // namespace

Report run_geometry(const Settings& settings, Progress&) {
  Report report;
  report.workload = "geometry";
  report.provenance = gather_provenance();
  if (!settings.check.empty()) {
    if (!settings.has_backend("slub"))
      throw BadRequest("--check: the file tells what SLUB chose; --backend must include slub");
    if (!settings.sizes.empty() || settings.align != 0 || settings.flags != 0 ||
        settings.constructor)
      throw BadRequest(
          "--check: sizes and flags are the file's; omit --size, --align, --flags and --ctor");
    check(report, settings);
    return report;
  }
  const unsigned cpus = settings.cpus != 0 ? settings.cpus : nodes::present_cpus();
  report.lines.push_back(fmt::format("for {} CPUs, pages of 4096 bytes; sizes in bytes", cpus));
  for (const std::string& backend : settings.backends)
    show(report, settings, *make_subject(backend, "virtual"), cpus);
  return report;
}

}  // namespace kmem::bench
