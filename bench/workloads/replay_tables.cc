#include "bench/workloads/replay_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kmem::bench {

namespace {

constexpr std::size_t caches_shown = 10;
constexpr std::size_t slob_header_bytes = 8;

std::string kib(std::size_t bytes) { return fmt::format("{}", (bytes + 1023) / 1024); }

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : "-";
}

double fast_share(const PathCounts& paths) {
  const double fast = static_cast<double>(paths.alloc_fast + paths.free_fast);
  const double all = fast + static_cast<double>(paths.alloc_slow + paths.free_slow);
  return all > 0 ? fast / all : 0;
}

const CacheSnapshot* find_cache(const Footprint& footprint, const std::string& name) {
  for (const CacheSnapshot& cache : footprint.caches)
    if (cache.name == name) return &cache;
  return nullptr;
}

std::string slab_cell(const Footprint& footprint, const trace::TracedCache& traced) {
  if (footprint.heap.block_bytes + footprint.heap.whole_bytes > 0) return "shared";
  const CacheSnapshot* cache = find_cache(footprint, traced.name);
  return cache == nullptr ? "-" : kib(cache->usage.slab_bytes);
}

void add_if(std::string& line, std::uint64_t count, const char* what) {
  if (count > 0) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, what);
}

std::string not_replayed(const trace::Program& program) {
  const trace::Oddities& odd = program.oddities;
  std::string line;
  add_if(line, odd.free_of_unknown, "frees of objects allocated before the trace began or unseen");
  add_if(line, odd.free_of_null, "kfree(NULL)");
  add_if(line, odd.failed_allocs, "allocations that failed in the kernel or were of 0 bytes");
  add_if(line, odd.too_large, "allocations over the limit");
  add_if(line, program.lines.other_events, "other events");
  add_if(line, program.lines.malformed, "lines that are no trace lines");
  return line;
}

std::string repaired(const trace::Program& program) {
  const trace::Oddities& odd = program.oddities;
  std::string line;
  add_if(line, odd.reallocated_live,
         "objects freed because their memory was handed out again (their frees are not in the "
         "trace: bulk "
         "frees never are)");
  add_if(line, odd.freed_by_other_name, "frees that named another cache");
  add_if(line, odd.out_of_order, "events put in order of time");
  return line;
}

std::string lost(const trace::Program& program) {
  std::string line;
  if (program.lines.lost_marks > 0)
    line += fmt::format("{} marks of lost events ({} events)", program.lines.lost_marks,
                        program.recording.lost_events);
  add_if(line, program.recording.overwritten_events, "events overwritten before they were read");
  if (program.lines.cut_line)
    line += fmt::format("{}the last line is cut and was not used", line.empty() ? "" : ", ");
  return line;
}

// SLOB's pages at the peak, taken apart.
std::string why_slob_is_larger(const ReplayResult& slob, const ReplayResult& lowest) {
  const Footprint& peak = slob.footprint.peak;
  const std::size_t headers = peak.live_kmalloc * slob_header_bytes;
  const std::size_t known =
      peak.requested_bytes + headers + peak.heap.map_bytes + peak.heap.free_bytes;
  const std::size_t rest = peak.slab_bytes > known ? peak.slab_bytes - known : 0;
  return fmt::format(
      "SLOB is not the lowest: of its {} KiB, {} are the objects as requested, {} free between "
      "them "
      "(first fit finds no object for those gaps), {} the map of owners that lets kfree() take any "
      "object, {} kmalloc headers, {} rounding and objects of whole pages; {} holds {} KiB "
      "requested "
      "in {}",
      kib(peak.slab_bytes), kib(peak.requested_bytes), kib(peak.heap.free_bytes),
      kib(peak.heap.map_bytes), kib(headers), kib(rest), lowest.backend,
      kib(lowest.footprint.peak.requested_bytes), kib(lowest.footprint.peak.slab_bytes));
}

std::vector<std::size_t> largest_caches(const trace::Program& program) {
  std::vector<std::size_t> order(program.caches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto bytes = [&](std::size_t i) {
    return program.caches[i].live_peak * program.caches[i].bytes_alloc;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes(a) > bytes(b); });
  if (order.size() > caches_shown) order.resize(caches_shown);
  return order;
}

}  // namespace

std::vector<std::string> describe(const trace::Program& program) {
  std::vector<std::string> lines = {fmt::format(
      "{}: {} (compression: {}), {} lines, {} events over {:.3f} s on {} CPUs; {} operations, {} "
      "caches, {} objects live at the end",
      program.file, program.format, program.compression, program.lines.lines, program.lines.events,
      program.seconds_traced, program.cpus, program.ops.size(), program.caches.size(),
      program.live_at_end)};
  if (std::string line = not_replayed(program); !line.empty())
    lines.push_back("  not replayed: " + line);
  if (std::string line = repaired(program); !line.empty()) lines.push_back("  repaired: " + line);
  if (std::string line = lost(program); !line.empty()) lines.push_back("  lost: " + line);
  return lines;
}

Table summary_table(const trace::Program& program, std::span<const ReplayResult> results) {
  Table table;
  table.title = fmt::format("{}: {} operations", program.file, program.ops.size());
  table.columns = {"backend", "ns/event", "interval",     "cycles/event", "M events/s", "fast %",
                   "slow",    "locks",    "remote frees", "slabs made",   "failed"};
  for (const ReplayResult& result : results) {
    const Estimate ns = estimate(result.cost.ns);
    const PathCounts& paths = result.footprint.paths;
    table.rows.push_back({result.backend, fmt::format("{:.1f}", ns.median),
                          fmt::format("{:.1f}..{:.1f}", ns.low, ns.high),
                          fmt::format("{:.1f}", estimate(result.cost.cycles).median),
                          fmt::format("{:.1f}", ns.median > 0 ? 1000 / ns.median : 0),
                          fmt::format("{:.1f}", 100 * fast_share(paths)),
                          fmt::format("{}", paths.alloc_slow + paths.free_slow),
                          fmt::format("{}", paths.locks), fmt::format("{}", paths.remote_frees),
                          fmt::format("{}", paths.slabs_created),
                          fmt::format("{}", result.footprint.failed)});
  }
  table.note =
      "fast %: of allocations and frees served without the slow path; slow, locks, slabs made: "
      "counts over the trace";
  return table;
}

Table memory_table(std::span<const ReplayResult> results) {
  Table table;
  table.title = "memory, KiB";
  table.columns = {"backend",    "peak slabs",  "requested", "x requested", "kernel's bytes_alloc",
                   "x kernel's", "final slabs", "requested", "x requested"};
  const auto times = [](std::size_t a, std::size_t b) {
    return b == 0 ? std::string("-")
                  : fmt::format("{:.2f}", static_cast<double>(a) / static_cast<double>(b));
  };
  for (const ReplayResult& result : results) {
    const Footprint& peak = result.footprint.peak;
    const Footprint& end = result.footprint.end;
    table.rows.push_back({result.backend, kib(peak.slab_bytes), kib(peak.requested_bytes),
                          times(peak.slab_bytes, peak.requested_bytes), kib(peak.kernel_bytes),
                          times(peak.slab_bytes, peak.kernel_bytes), kib(end.slab_bytes),
                          kib(end.requested_bytes), times(end.slab_bytes, end.requested_bytes)});
  }
  table.note =
      "slabs: pages in slabs and large blocks; requested and bytes_alloc: live in the trace at "
      "that moment, in what it asked for and in what its kernel gave";
  return table;
}

Table cache_table(const trace::Program& program, std::span<const ReplayResult> results) {
  Table table;
  table.title = "the caches that matter most, KiB at each design's peak";
  table.columns = {"cache", "object", "kernel slot", "allocs", "live peak", "its KiB"};
  for (const ReplayResult& result : results) table.columns.push_back(result.backend);
  for (const std::size_t index : largest_caches(program)) {
    const trace::TracedCache& cache = program.caches[index];
    std::vector<std::string> cells = {cache.name,
                                      fmt::format("{}", cache.bytes_req),
                                      fmt::format("{}", cache.bytes_alloc),
                                      fmt::format("{}", cache.allocs),
                                      fmt::format("{}", cache.live_peak),
                                      kib(cache.live_peak * cache.bytes_alloc)};
    for (const ReplayResult& result : results)
      cells.push_back(slab_cell(result.footprint.peak, cache));
    table.rows.push_back(std::move(cells));
  }
  table.note =
      "-: no cache of that name in this design, another class or whole pages serve it; shared: all "
      "caches "
      "share SLOB's pages";
  return table;
}

std::vector<std::string> verdict_on_memory(std::span<const ReplayResult> results) {
  if (results.size() < 2) return {};
  const auto by_peak = [](const ReplayResult& a, const ReplayResult& b) {
    return a.footprint.peak.slab_bytes < b.footprint.peak.slab_bytes;
  };
  const ReplayResult& lowest = *std::min_element(results.begin(), results.end(), by_peak);
  const ReplayResult& highest = *std::max_element(results.begin(), results.end(), by_peak);
  const auto peak_of = [](const ReplayResult& r) { return r.footprint.peak.slab_bytes; };
  std::vector<std::string> lines = {
      fmt::format("lowest peak: {} with {} KiB; highest: {} with {} KiB ({} % more)",
                  lowest.backend, kib(peak_of(lowest)), highest.backend, kib(peak_of(highest)),
                  percent(static_cast<double>(peak_of(highest) - peak_of(lowest)),
                          static_cast<double>(peak_of(lowest))))};
  for (const ReplayResult& result : results)
    if (result.backend == "slob" && peak_of(result) > peak_of(lowest))
      lines.push_back(why_slob_is_larger(result, lowest));
  return lines;
}

void add_results(Report& report, const trace::Program& program,
                 std::span<const ReplayResult> results) {
  for (const ReplayResult& result : results) {
    const Params params = {{"trace", program.file}};
    const auto add = [&](const char* metric, double value) {
      report.results.push_back(
          {result.backend, "backend", params, metric, {value, value, value, 1, 1}});
    };
    const auto count = [&](const char* metric, std::uint64_t value) {
      add(metric, static_cast<double>(value));
    };
    const ReplayFootprint& footprint = result.footprint;
    count("events", program.ops.size());
    count("peak_slab_bytes", footprint.peak.slab_bytes);
    count("peak_requested_bytes", footprint.peak.requested_bytes);
    count("peak_kernel_bytes", footprint.peak.kernel_bytes);
    count("final_slab_bytes", footprint.end.slab_bytes);
    count("final_requested_bytes", footprint.end.requested_bytes);
    count("final_kernel_bytes", footprint.end.kernel_bytes);
    add("fast_share", fast_share(footprint.paths));
    count("alloc_slow", footprint.paths.alloc_slow);
    count("free_slow", footprint.paths.free_slow);
    count("locks", footprint.paths.locks);
    count("remote_frees", footprint.paths.remote_frees);
    count("slabs_created", footprint.paths.slabs_created);
    count("slabs_freed", footprint.paths.slabs_freed);
    count("failed_allocations", footprint.failed);
  }
}

}  // namespace kmem::bench
