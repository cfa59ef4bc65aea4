// The allocators that are compared, behind one interface: a backend under a policy. The interface
// is called once a measurement, never once an object: the loops that are timed are templates over a
// World (world.h), compiled once for each backend and policy (subjects/*.cc).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/loop.h"
#include "bench/options.h"
#include "bench/report/report.h"
#include "bench/trace/program.h"
#include "common/percpu/sequences.h"
#include "common/slab/spec.h"

namespace kmem::bench {

struct CacheSnapshot {
  std::string name;
  Geometry geometry{};
  CacheUsage usage{};
  PathCounts paths{};
};

// A heap that all caches share (SLOB); all 0 for the others.
struct SharedHeap {
  std::size_t block_bytes = 0;  // pages of small objects
  std::size_t whole_bytes = 0;  // objects of whole pages
  std::size_t map_bytes = 0;    // pages that tell the owners of blocks
  std::size_t free_bytes = 0;   // free in block_bytes
};

// Where a design keeps what it was asked for, at one moment of a replay.
struct Footprint {
  std::size_t op = 0;               // after this operation of the program
  std::size_t slab_bytes = 0;       // pages in slabs and large blocks
  std::size_t requested_bytes = 0;  // live, as the program asked for them
  std::size_t kernel_bytes = 0;     // live, as the traced kernel had rounded them up
  std::size_t live_objects = 0, live_kmalloc = 0;
  SharedHeap heap{};
  std::vector<CacheSnapshot> caches;
};

struct ReplayFootprint {
  Footprint peak, end;
  PathCounts paths{};        // of the whole trace, all caches
  std::uint64_t failed = 0;  // allocations that the design could not serve
};

struct ReplayOptions {
  bool touch = true;
  std::string slabinfo_out;  // empty: none
};

class ReplayBench {
 public:
  virtual ~ReplayBench() = default;
  // From empty caches to the end of the trace; looks at the memory after every operation.
  virtual ReplayFootprint footprint() = 0;
  // Cost of an event. The caches stay as the last round left them, but for live objects.
  virtual Sample round() = 0;
};

class Subject : public Contender {
 public:
  Side side() const override { return Side::backend; }
  virtual percpu::Running running() const = 0;
  virtual Geometry geometry(const CacheSpec& spec, unsigned cpus) const = 0;
  // Throws std::runtime_error when the caches cannot be made.
  virtual std::unique_ptr<ReplayBench> replay(const trace::Program& program,
                                              const ReplayOptions& options) const = 0;
};

// policy as in --policy. Throws BadRequest for what this build does not have.
std::unique_ptr<Subject> make_subject(const std::string& backend, const std::string& policy);
// Those of settings.backends, under settings.policy or else the given one, which the report names.
std::vector<std::unique_ptr<Subject>> make_subjects(const Settings& settings,
                                                    const std::string& policy, Report& report);
std::vector<std::string> policies_of(const std::string& backend);

// One a backend, in subjects/BACKEND.cc; null: no such policy.
std::unique_ptr<Subject> make_slab(const std::string& policy);
std::unique_ptr<Subject> make_slub(const std::string& policy);
std::unique_ptr<Subject> make_slob(const std::string& policy);
std::unique_ptr<Subject> make_slqb(const std::string& policy);
// Under rseq; for the node workload alone.
std::unique_ptr<Subject> make_slub_with_embedded_node();

}  // namespace kmem::bench
