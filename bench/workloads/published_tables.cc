#include "bench/workloads/published_tables.h"

#include <fmt/format.h>

#include "bench/published.h"

namespace kmem::bench {

Table published_bulk() {
  Table table;
  table.title = "2015: SLUB, 256 bytes, cycles for one object allocated and freed";
  table.columns = {"bulk", "generic", "optimized", "improved %"};
  for (const auto& row : published::slub_bulk_2015)
    table.rows.push_back({fmt::format("{}", row.batch), fmt::format("{}", row.generic_cycles),
                          fmt::format("{}", row.optimized_cycles),
                          fmt::format("{:.1f}", row.improved_percent)});
  table.note =
      "2015: i7-4790K at 4 GHz, inside the kernel, single call 42 to 43 cycles; compare shapes, "
      "not "
      "cycles";
  return table;
}

Table published_fastpath() {
  Table table;
  table.title = "2007: SLUB, 10,000 kmalloc, then 10,000 kfree: cycles a call";
  table.columns = {"call", "size", "interrupts off", "cmpxchg_local"};
  for (const auto& row : published::cmpxchg_local_2007)
    table.rows.push_back({row.operation, fmt::format("{}", row.bytes),
                          fmt::format("{} to {}", row.before_min_cycles, row.before_max_cycles),
                          fmt::format("{}", row.cmpxchg_local_cycles)});
  table.note =
      "2007: a Pentium 4 at 3 GHz, inside the kernel; compare shapes, not cycles: there interrupts "
      "were turned off and on, here a lock a CPU stands for that";
  return table;
}

Table published_socket() {
  Table table;
  table.title = "2008: socketallocbench, seconds in all";
  table.columns = {"allocator", "processes", "real", "user", "sys"};
  for (const auto& row : published::slqb_socketalloc_2008)
    table.rows.push_back({row.allocator, fmt::format("{}", row.processes),
                          fmt::format("{:.3f}", row.real_s), fmt::format("{:.3f}", row.user_s),
                          fmt::format("{:.3f}", row.sys_s)});
  table.note =
      "2008: two Core 2 of four CPUs at 3 GHz, real sockets: all that the kernel does for one is "
      "in "
      "it, here the allocator's part alone; compare the order of the two, not seconds";
  return table;
}

Table published_node() {
  Table table;
  table.title = "2010: hackbench, kmem_cache_node in a cache line of its own";
  table.columns = {"machine", "mode", "improvement %"};
  for (const auto& row : published::node_cacheline_2010)
    table.rows.push_back({row.machine, row.mode, row.improvement_percent});
  table.note =
      "2010: two sockets, inside the kernel, where all processes share the caches; a library's "
      "caches belong to one process, so that only threads can share a line; CPUs of one socket "
      "hand "
      "a line over at less cost";
  return table;
}

}  // namespace kmem::bench
