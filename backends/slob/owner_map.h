// The owner map: where blocks start in a page, and whose they are, without a header in the block.
// One byte for 16 bytes of page: blocks are at least 16 bytes long and start at multiples of 8, so
// at most one starts there.
//
//   byte  0: no block in use starts in these 16 bytes
//         else bit 7: in which half; bits 0..6: the owner's id
//
// The maps of 16 pages share a page of their own, so that they are part of the footprint. Written
// under Heap::lock; read without it by owns() and cache_of(), which is why bytes are atomics: the
// byte of an object in use does not change, whatever its neighbours do.
#pragma once

#include <atomic>
#include <cstdint>

#include "backends/slob/geometry.h"
#include "common/base/intrusive_list.h"
#include "common/pages/page.h"

namespace kmem::slob {

namespace owner_id {
inline constexpr std::uint8_t none = 0;
inline constexpr std::uint8_t kmalloc = 1;
inline constexpr std::uint8_t first_cache = 2;
inline constexpr std::uint8_t shared = 125;  // of all caches that came when the others were taken
inline constexpr std::uint8_t parked = 126;  // free, on its cache's own list
inline constexpr std::uint8_t orphan = 127;  // in use when its cache was destroyed
inline constexpr unsigned count = 128;
}  // namespace owner_id

inline constexpr std::size_t map_granule_bytes = min_block_bytes;
inline constexpr std::size_t map_bytes = pages::page_bytes / map_granule_bytes;
inline constexpr unsigned maps_in_page = pages::page_bytes / map_bytes;

// Page::word of a page of blocks; 0: no map, the block is one object of whole pages.
inline std::uint8_t* map_of(const pages::Page* page) noexcept {
  return reinterpret_cast<std::uint8_t*>(page->word);
}

// offset: bytes from the page's start, any value below page_bytes. none: no block starts there.
inline std::uint8_t id_at(const pages::Page* page, std::size_t offset) noexcept {
  std::atomic_ref<std::uint8_t> entry(map_of(page)[offset / map_granule_bytes]);
  const std::uint8_t value = entry.load(std::memory_order_relaxed);
  const bool starts_here =
      offset % min_align_bytes == 0 && (value >> 7) == (offset / min_align_bytes & 1);
  return starts_here ? value & 0x7f : owner_id::none;
}

inline void set_id(const pages::Page* page, unsigned at, std::uint8_t id) noexcept {
  const std::size_t offset = at * unit_bytes;
  KMEM_ASSERT_EQ(offset % min_align_bytes, 0);
  const unsigned half = id == owner_id::none ? 0 : offset / min_align_bytes & 1;
  std::atomic_ref<std::uint8_t> entry(map_of(page)[offset / map_granule_bytes]);
  entry.store(static_cast<std::uint8_t>(half << 7 | id), std::memory_order_relaxed);
}

// The first block in use that starts at or after `from` (in units); page_units: none.
unsigned next_start(const pages::Page* page, unsigned from) noexcept;

// The pages that maps are in. All under Heap::lock.
class MapPages {
 public:
  // A map of zeros, or nullptr: add() a page first.
  std::uint8_t* take() noexcept;
  // Takes over a zeroed page and gives its first map.
  std::uint8_t* add(pages::Page* page) noexcept;
  // map is all zeros again. Returns the page that it was in when that is no longer needed.
  pages::Page* put(std::uint8_t* map) noexcept;

  std::size_t page_count() const noexcept { return page_count_; }
  std::size_t map_count() const noexcept { return map_count_; }

 private:
  List open_;  // pages with a free map; Page::counters has a bit for each map in use
  std::size_t page_count_ = 0;
  std::size_t map_count_ = 0;
};

}  // namespace kmem::slob
