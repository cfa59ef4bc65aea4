// How SLAB lays out a slab, and how long its queues are: pure functions of a cache's specification.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/slab/spec.h"

namespace kmem::slab {

// Object numbers are bytes: a slot is at least 16 bytes, a slab has at most 255 objects.
inline constexpr std::size_t min_slot_bytes = 16;
inline constexpr unsigned max_objects = 255;
// Linux: 1 on a machine with more than 32 MiB, else 0.
inline constexpr unsigned preferred_max_order = 1;

// Where a slab's index array (the stack of free object numbers) lives; first that works.
enum class Management : std::uint8_t {
  in_object,  // in the free object that will be handed out last
  off_slab,   // in a block of its own
  on_slab,    // behind the last object
};

struct Layout {
  Geometry geometry;  // objects == 0: no slab can hold an object
  Management management;
  std::size_t index_block_bytes;  // off_slab: what the index array takes elsewhere; else 0
};
Layout plan_layout(const CacheSpec& spec, unsigned cpus) noexcept;

// Queue lengths for a slot size: objects in a CPU's array; a batch is half of it, rounded up.
unsigned default_limit(std::size_t slot_bytes) noexcept;
inline constexpr unsigned debug_limit = 32;
// The shared array holds this many batches: none for slots above a page or on a single CPU.
unsigned default_shared_factor(std::size_t slot_bytes, unsigned cpus) noexcept;

}  // namespace kmem::slab
