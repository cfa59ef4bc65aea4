// What a real kernel's SLUB chose, a cache a row: the columns of /sys/kernel/slab/* as CSV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/slab/spec.h"

namespace kmem::bench {

struct KernelRow {
  std::size_t line = 0;  // in the file
  std::string cache;
  std::uint64_t object_size = 0, slab_size = 0, align = 0, order = 0, objects = 0;
  std::uint64_t min_partial = 0, cpu_partial = 0;
  bool hwcache_align = false, reclaim_account = false, typesafe_by_rcu = false, ctor = false;
};

// Columns by the names in the header line, in any order; others are passed over. Throws BadRequest
// for a file that cannot be read, or is not of this shape.
std::vector<KernelRow> read_kernel_rows(const std::string& path);

// The request that made the kernel's cache. Objects of TYPESAFE_BY_RCU caches whose slot has no
// room for a free pointer behind them were created with the pointer's offset inside.
CacheSpec spec_of(const KernelRow& row) noexcept;

// CPUs that a file's name tells ("...-2cpu.csv"); 0: it does not.
unsigned cpus_in_name(const std::string& path) noexcept;

}  // namespace kmem::bench
