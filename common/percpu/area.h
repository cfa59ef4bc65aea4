// The percpu area: address space in which the State of every cache has one offset, the same for
// each CPU, so that a CPU's State is base + (cpu << unit_shift).
//
//   chunk 0   | CPU 0: [State A][State B]....  1 MiB | CPU 1: [State A][State B]....  1 MiB | ...
//   chunk 1   | CPU 0: [State C]............         | CPU 1: ...
//   dummy     | zeros, read-only; as many units as a chunk
//
// Only what is touched costs memory. Chunks are added when no chunk has room, and never given back;
// a freed State's memory reads as zeros again.
#pragma once

#include <cstddef>

#include "common/percpu/sequences.h"

namespace kmem::percpu {

inline constexpr std::size_t unit_bytes = std::size_t{1} << unit_shift;

// A range of one offset in every CPU's unit; all of it reads as zeros.
struct Place {
  char* base = nullptr;   // CPU 0's; null: no memory
  char* dummy = nullptr;  // the same shape in the dummy area
};

inline char* unit_of(char* base, unsigned cpu) noexcept {
  return base + (std::size_t{cpu} << unit_shift);
}

// Room for bytes (at most unit_bytes) in the units of cpus CPUs, 64-byte aligned.
Place area_alloc(std::size_t bytes, unsigned cpus) noexcept;
// Gives back what area_alloc() gave, with the same arguments.
void area_free(Place place, std::size_t bytes, unsigned cpus) noexcept;

// The dummy alone; null: no address space.
char* area_dummy(unsigned cpus) noexcept;

// For tests and reports.
struct AreaUsage {
  std::size_t chunks;
  std::size_t used_bytes;  // of one unit each, over all chunks
};
AreaUsage area_usage() noexcept;

}  // namespace kmem::percpu
