// Figures that others published, from which these workloads take their shape: printed beside ours,
// to compare ratios. Machines differ; cycles are not to be compared.
#pragma once

#include <cstddef>

namespace kmem::bench::published {

// "slub: bulk alloc and free for slub allocator" V2, June 2015, the whole series: i7-4790K at 4
// GHz, objects of 256 bytes, cycles for one allocated and freed; a single call took 42 to 43.
struct SlubBulk2015 {
  std::size_t batch;
  unsigned generic_cycles, optimized_cycles;
  double improved_percent;
};

// clang-format off
inline constexpr SlubBulk2015 slub_bulk_2015[] = {
  {1, 57, 44, 22.8},   {2, 51, 28, 45.1},   {3, 48, 22, 54.2},   {4, 48, 19, 60.4},
  {8, 46, 18, 60.9},   {16, 45, 18, 60.0},  {30, 45, 18, 60.0},  {32, 79, 65, 17.7},
  {34, 78, 63, 19.2},  {48, 68, 50, 26.5},  {64, 80, 63, 21.3},  {128, 94, 86, 8.5},
  {158, 97, 90, 7.2},  {250, 102, 98, 3.9},
};

// "SLUB use cmpxchg_local", August 2007: Pentium 4 at 3 GHz, 10,000 calls a test, cycles a call
// (of the code before: smallest and largest).
struct CmpxchgLocal2007 {
  const char* operation;
  std::size_t bytes;
  unsigned before_min_cycles, before_max_cycles, cmpxchg_local_cycles;
};

inline constexpr CmpxchgLocal2007 cmpxchg_local_2007[] = {
  {"kmalloc", 8, 190, 201, 83},      {"kfree", 8, 351, 351, 363},
  {"kmalloc", 64, 224, 245, 115},    {"kfree", 64, 389, 394, 397},
  {"kmalloc", 16384, 713, 741, 724}, {"kfree", 16384, 843, 856, 843},
};
// "SLQB slab allocator" thread, December 2008: socketallocbench on two Core 2 of
// four CPUs at 3 GHz.
struct SlqbSocketalloc2008 {
  const char* allocator;
  unsigned processes;
  double real_s, user_s, sys_s;
};

inline constexpr SlqbSocketalloc2008 slqb_socketalloc_2008[] = {
  {"SLQB", 1, 1.300, 0.078, 1.207}, {"SLQB", 8, 1.686, 0.614, 12.737},
  {"SLAB", 1, 1.201, 0.071, 1.122}, {"SLAB", 8, 1.616, 0.578, 12.220},
};
// "slub: move kmem_cache_node into it's own cacheline", May 2010: hackbench.
struct NodeCacheline2010 {
  const char* machine;
  const char* mode;
  const char* improvement_percent;
};

inline constexpr NodeCacheline2010 node_cacheline_2010[] = {
  {"2 nodes", "not stated", "5"},
  {"2-socket Westmere", "threads", "10"},
  {"2-socket Westmere", "processes", "8-13"},
  {"2-socket Nehalem", "not stated", "7"},
};
// clang-format on

}  // namespace kmem::bench::published
