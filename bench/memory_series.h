// Memory over time: what a process holds, sampled at the ends of phases and between them. Kept as
// plain numbers, since a loop in another process hands them over as its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kmem::bench {

// What the samples up to its last one were taken during. passing: one thread allocates, another
// only frees.
enum class Phase : std::uint32_t {
  start,
  fill,
  half_free,
  refill,
  free_all,
  shrink,
  passing,
};
inline constexpr std::size_t phase_count = 7;
const char* text(Phase phase) noexcept;

struct MemorySample {
  Phase phase = Phase::start;
  double seconds = 0;     // since the first sample
  double rss_bytes = 0;   // of the process
  double slab_bytes = 0;  // pages that the allocator says it holds; 0 where it does not say
};

// Four numbers a sample. unpack throws std::runtime_error for numbers that are no series.
std::vector<double> pack(std::span<const MemorySample> samples);
std::vector<MemorySample> unpack(std::span<const double> values);

// Of this process, from /proc; allocates nothing once made.
class ResidentSet {
 public:
  ResidentSet();  // throws std::runtime_error
  ~ResidentSet();
  ResidentSet(const ResidentSet&) = delete;
  ResidentSet& operator=(const ResidentSet&) = delete;
  double bytes() const;  // throws std::runtime_error

 private:
  int fd_;
  double page_bytes_;
};

}  // namespace kmem::bench
