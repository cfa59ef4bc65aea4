// One measured loop: made from a Job, then run a turn at a time. The loops themselves are templates
// over a World (world.h, loops/), compiled once for each allocator; this interface is called once a
// turn, never once an object. A Job and a Turn are plain bytes: the same loop runs over a backend
// in this process and over a rival in a child process, which is told both through a pipe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/clock.h"

namespace kmem::bench {

// One row of loops/make.h each.
enum class Work : std::uint32_t { bulk, hackbench, remote, fastpath, socket, node_line, footprint };

// How hackbench hands a message over: by a lock-free ring, or by a socket pair.
enum class Transport : std::uint32_t { queue, socket };

struct Job {
  Work work = Work::bulk;
  std::uint32_t threads = 1;  // that do the same at once, or are shared out among the roles
  std::uint64_t object_bytes = 256;
  std::uint64_t live_objects = 0;  // beside those of a turn, on each thread; footprint: at the peak
  std::uint64_t seed = 1;
  std::uint32_t groups = 1, pairs = 1;  // hackbench: senders, and as many receivers, of a group
  std::uint64_t message_bytes = 100;    // hackbench
  Transport transport = Transport::queue;
};
static_assert(std::is_trivially_copyable_v<Job>);

// Whether threads of the job take objects from one cache, or pass them to each other.
bool is_shared(const Job& job) noexcept;
// Whether another thread than the one that allocated frees most objects of the job, one after
// another.
bool is_handed_over(const Job& job) noexcept;

// single: one call for each object, held in a register; stored: the same through a slot of memory,
// as a bulk call's caller has it; generic: the library's loop; optimized: the backend's own path.
enum class BulkPath : std::uint32_t { single, stored, generic, optimized };
const char* text(BulkPath path) noexcept;

// As a batch: each of another size, drawn from 1 to random_batch_most, so that no branch predictor
// learns it.
inline constexpr std::uint64_t random_batch = 0;
inline constexpr std::uint64_t random_batch_most = 128;

struct Turn {
  BulkPath path = BulkPath::single;
  std::uint64_t batch = 1;
  std::uint64_t objects = 0;  // about so many in all, on each thread
};
static_assert(std::is_trivially_copyable_v<Turn>);

struct Outcome {
  Sample cost;                 // of the loop's unit of work
  std::vector<double> values;  // what else the loop tells, in its own order
};

class Loop {
 public:
  virtual ~Loop() = default;
  // Throws std::runtime_error when it cannot be measured.
  virtual Outcome run(const Turn& turn) = 0;
};

// Where a contender stands: a backend, inlined or called through its shared library as a program in
// C calls it; a rival, which is a malloc or a pool of objects; or a floor.
enum class Side : std::uint32_t { backend, c_abi, malloc, pool, floor };
const char* kind_of(Side side) noexcept;  // "backend", "rival" or "floor"
bool is_rival(Side side) noexcept;

// Whoever takes part.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string name() const = 0;
  virtual Side side() const = 0;
  const char* kind() const { return kind_of(side()); }
  // Without bulk calls a loop of single ones stands for them, and generic is optimized.
  virtual bool has_bulk() const { return true; }
  // Null: it has no such work (a pool has no kmalloc). Throws std::runtime_error when the caches
  // cannot be made.
  virtual std::unique_ptr<Loop> loop(const Job& job) const = 0;
};

}  // namespace kmem::bench
