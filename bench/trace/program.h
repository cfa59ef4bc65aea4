// A trace made ready to replay: an array of small operations on numbered objects, so that the timed
// loop parses nothing and looks nothing up. Object numbers are reused after a free: the table of
// live pointers stays as small as the trace's own peak.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace/event.h"
#include "bench/trace/reader.h"

namespace kmem::bench::trace {

enum class OpKind : std::uint8_t { cache_alloc, cache_free, kmalloc, kfree };

constexpr bool allocates(OpKind kind) noexcept {
  return kind == OpKind::cache_alloc || kind == OpKind::kmalloc;
}

struct Op {
  std::uint32_t object;  // number of the pointer
  std::uint32_t bytes;   // requested; of a free: of the object that it frees
  std::uint16_t site;    // index in Program::sites
  std::uint16_t cpu;
  OpKind kind;
};
static_assert(sizeof(Op) == 16);

// A cache of the traced kernel, or the size class that served kmalloc.
struct TracedCache {
  std::string name;
  bool is_kmalloc = false;
  std::uint64_t bytes_req = 0;    // of kmalloc classes: the largest request seen
  std::uint64_t bytes_alloc = 0;  // the kernel's slot
  std::uint64_t allocs = 0, frees = 0;
  std::uint64_t live = 0, live_peak = 0;  // objects
};

// What all operations of one kind of call share.
struct Site {
  std::uint32_t cache = 0;  // index in Program::caches
  gfp_t gfp = 0;
  int node = no_node;
};

// Events that cannot be replayed as they stand: counted and reported.
struct Oddities {
  std::uint64_t free_of_unknown = 0;      // allocated before the trace began, or its alloc was lost
  std::uint64_t free_of_null = 0;         // kfree(NULL) and kfree(ZERO_SIZE_PTR)
  std::uint64_t failed_allocs = 0;        // the kernel got NULL
  std::uint64_t reallocated_live = 0;     // its free was lost: freed here before the allocation
  std::uint64_t freed_by_other_name = 0;  // kmem_cache_free named a cache that did not allocate it
  std::uint64_t out_of_order = 0;         // events put into the order of their times
  std::uint64_t too_large = 0;            // bigger than any kmalloc
};

struct Program {
  std::string file, format, compression;
  std::vector<Op> ops;
  std::vector<Site> sites;
  std::vector<TracedCache> caches;
  std::uint32_t objects = 0;  // numbers used
  std::uint32_t live_at_end = 0;
  unsigned cpus = 1;  // of the traced machine
  int nodes = 1;
  std::array<std::uint64_t, 4> kinds{};  // operations, by OpKind
  LineCounts lines;
  Recording recording;
  Oddities oddities;
  double seconds_traced = 0;

  const TracedCache& cache_of(const Op& op) const noexcept { return caches[sites[op.site].cache]; }
};

// Throws TraceError, also if the file has no kmem events.
Program load_program(const std::string& path);

}  // namespace kmem::bench::trace
