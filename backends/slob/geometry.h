// The numbers of SLOB: units, the three lists, and what a block for an object looks like. Pure
// functions, no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/bits.h"
#include "common/pages/page.h"
#include "common/slab/spec.h"

namespace kmem::slob {

using Unit = std::int16_t;  // what free blocks are measured in, and what their headers are made of
inline constexpr std::size_t unit_bytes = sizeof(Unit);
inline constexpr unsigned page_units = pages::page_bytes / unit_bytes;
static_assert(page_units <= INT16_MAX, "a header holds sizes and negated offsets");

// Blocks start at multiples of a word and are at least two words long: the owner map needs both.
inline constexpr std::size_t min_align_bytes = 8;
inline constexpr std::size_t min_block_bytes = 16;

// A list holds pages with free space; a request looks at the list for its size only.
enum class Fit : std::uint8_t { small, medium, large, count };
inline constexpr std::size_t small_below_bytes = 256, medium_below_bytes = 1024;
constexpr Fit fit_for(std::size_t block_bytes) noexcept {
  if (block_bytes < small_below_bytes) return Fit::small;
  return block_bytes < medium_below_bytes ? Fit::medium : Fit::large;
}

// What is asked of the heap, the same for every object of a cache.
struct Request {
  std::uint16_t units = 0;
  std::uint16_t align_units = 1;  // of the address lead_units after the block's start
  std::uint16_t lead_units = 0;   // header before the object
  Fit fit = Fit::small;
  std::uint16_t id = 0;  // goes into the owner map
};

// kmalloc: the size in the word before the object. n < kmalloc_end_bytes; larger ones are pages.
inline constexpr std::size_t kmalloc_header_bytes = min_align_bytes;
inline constexpr std::size_t kmalloc_end_bytes = pages::page_bytes - kmalloc_header_bytes;
Request kmalloc_request(std::size_t bytes) noexcept;

// An object of a cache with its footer; 0 units: it takes whole pages (whole_order).
Request cache_request(const CacheSpec& spec) noexcept;
unsigned whole_order(const CacheSpec& spec) noexcept;

// Objects that wait on their cache's own list (typesafe_by_rcu) keep the link here, outside the
// part that readers and the constructor know.
std::size_t link_offset(const CacheSpec& spec) noexcept;

Geometry geometry(const CacheSpec& spec) noexcept;  // objects == 0: impossible

}  // namespace kmem::slob
