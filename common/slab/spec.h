// What a cache is asked to be, and what it answers about itself: the words that api/ and the four
// backends share. All sizes are in bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/flags.h"
#include "common/pages/page.h"

namespace kmem {

using Constructor = void (*)(void*);

// Checked by api/ before a backend sees it: 1 <= object_bytes <= max_block_bytes, align is 0 or a
// power of two up to page_bytes (kmalloc caches: up to their own size), freeptr_offset is inside
// the object and pointer aligned.
struct CacheSpec {
  const char* name = "";  // outlives the backend's use of it: api/ owns a copy
  std::size_t object_bytes = 0;
  std::size_t align = 0;  // what the caller asked for; object_align() gives what holds
  slab_flags_t flags = 0;
  Constructor ctor = nullptr;
  bool has_freeptr_offset = false;
  std::size_t freeptr_offset = 0;
};

// The alignment rule of kernel-style caches: at least the caller's; with hwcache_align a line,
// halved while two objects would fit; at least a word (8).
std::size_t object_align(const CacheSpec& spec) noexcept;

// What a design chooses for a spec; pure functions of (spec, present CPUs) give it.
struct Geometry {
  std::size_t slot_bytes;  // from one object to the next (SLOB: the block)
  unsigned order;          // of a slab
  unsigned order_min;      // fallback when memory is short (SLUB); else == order
  unsigned objects;        // in a slab of that order; SLOB: what fits an empty page
  std::size_t align;
  std::size_t inuse_bytes;     // object rounded up to a word: what ksize may show with debugging
  std::size_t link_offset;     // of the free pointer in a free object (SLUB, SLQB)
  std::size_t colours;         // number of colours, 1 if none
  std::size_t colour_bytes;    // step from one colour to the next
  std::size_t waste_bytes;     // of a slab: neither objects nor management
  const char* management;      // SLAB: "on-slab", "off-slab", "in-object"; others: ""
  unsigned min_partial;        // SLUB, else 0
  unsigned cpu_partial;        // SLUB, in objects, else 0
  unsigned cpu_partial_slabs;  // SLUB, else 0
  unsigned limit;              // SLAB limit, SLQB hiwater, else 0
  unsigned batchcount;         // SLAB batchcount, SLQB freebatch, else 0
  unsigned shared;             // SLAB capacity of the shared array in objects, else 0
};

// A snapshot for slabinfo; racy while there is traffic, exact without.
struct CacheUsage {
  std::size_t active_objects;  // as the design counts them: see each backend's README
  std::size_t total_objects;
  std::size_t active_slabs;
  std::size_t slabs;
  std::size_t shared_available;
  std::size_t slab_bytes;  // pages held by the cache; SLOB: 0, pages are shared by all caches
};

// Run-time tuning. A field of 0 keeps what is (shared: -1 keeps).
struct Tunables {
  unsigned limit = 0;
  unsigned batchcount = 0;
  int shared = -1;
};

// Events that replay and the statistics print for any backend.
struct PathCounts {
  std::uint64_t alloc_fast, alloc_slow, free_fast, free_slow;  // fast: 0 if the policy cannot count
  std::uint64_t locks;                                         // of nodes, owners and heaps, taken
  std::uint64_t remote_frees;  // objects that belong to another CPU's or node's slabs
  std::uint64_t slabs_created, slabs_freed;
};

// for_each_live(): called for each object in use, with no lock that free() needs.
using LiveVisitor = void (*)(void* context, void* object, std::size_t offset_in_slab);

// Sizes that kmalloc() serves from caches of this design, and how (kernel-style size classes).
struct KmallocClasses {
  std::size_t smallest, largest;  // caches for powers of two in between
  bool has_96, has_192;
  bool by_header;  // SLOB: kmalloc() is the design's own, with a header
};

// An object's number in its slab without a division: the offset times the inverse of the slot's odd
// part, and its power of two rotated out. Exact where a slot starts; anywhere else, and for an
// offset that wrapped below the first slot, beyond 2^41 and so beyond the objects of any slab
// (slots of at most 2^22 bytes, slabs of at most as many): one comparison tells both.
class ObjectDivider {
 public:
  ObjectDivider() noexcept = default;
  explicit ObjectDivider(std::uint32_t slot_bytes) noexcept
      : twos_(std::countr_zero(slot_bytes)), inverse_(inverse_of(slot_bytes >> twos_)) {}
  KMEM_FAST std::uint64_t number(std::uint64_t offset) const noexcept {
    return std::rotr(offset * inverse_, twos_);
  }

 private:
  // Modulo 2^64, by Newton's iteration: an odd number is its own inverse modulo 8, and each step
  // doubles the bits that are right.
  static constexpr std::uint64_t inverse_of(std::uint64_t odd) noexcept {
    std::uint64_t inverse = odd;
    for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - odd * inverse;
    return inverse;
  }

  int twos_ = 0;
  std::uint64_t inverse_ = 1;
};

}  // namespace kmem
