// The owner map: where blocks start in a page, and whose they are, without a header in the block.
// One byte for 16 bytes of page: blocks are at least 16 bytes long and start at multiples of 8, so
// at most one starts there.
//
//   0             no block in use starts in these 16 bytes
//   h 0 iiiiii    one does, in half h; i: its owner's id, 1..59
//   h 0 1111pp    the same; the id is wide: 7 bits of it are in the next byte, where no other block
//                 can start as this one is at least 32 bytes long; pp: the other two
//   x 1 xxxxxx    those 7 bits: no start, whatever they are
//
// The maps of 16 pages share a page of their own, so that they are part of the footprint. Written
// under Heap::lock; read without it by owns() and cache_of(), which is why bytes are atomics: the
// bytes of an object in use do not change, whatever its neighbours do.
#pragma once

#include <atomic>
#include <cstdint>

#include "backends/slob/geometry.h"
#include "common/base/attributes.h"
#include "common/base/intrusive_list.h"
#include "common/pages/page.h"

namespace kmem::slob {

using OwnerId = std::uint16_t;
namespace owner_id {
inline constexpr OwnerId none = 0;
inline constexpr OwnerId kmalloc = 1;
inline constexpr OwnerId parked = 2;  // free, on its cache's own list
inline constexpr OwnerId orphan = 3;  // in use when its cache was destroyed
inline constexpr OwnerId shared = 4;  // of all caches that came when the others were taken
inline constexpr OwnerId first_cache = 5;
inline constexpr OwnerId first_scarce = 40;  // from here on for blocks too short for a wide id
inline constexpr OwnerId first_wide = 60;
inline constexpr OwnerId end = first_wide + 4 * 128;
}  // namespace owner_id
inline constexpr std::size_t min_wide_bytes = 32;

inline constexpr std::size_t map_granule_bytes = min_block_bytes;
inline constexpr std::size_t map_bytes = pages::page_bytes / map_granule_bytes;
inline constexpr unsigned maps_in_page = pages::page_bytes / map_bytes;

// Page::word of a page of blocks; 0: no map, the block is one object of whole pages.
inline std::uint8_t* map_of(const pages::Page* page) noexcept {
  return reinterpret_cast<std::uint8_t*>(page->word);
}

inline constexpr std::uint8_t half_bit = 0x80, continued_bit = 0x40, id_bits = 0x3f;

inline std::uint8_t load_byte(std::uint8_t* map, std::size_t granule) noexcept {
  std::atomic_ref<std::uint8_t> byte(map[granule]);
  return byte.load(std::memory_order_relaxed);
}
inline void store_byte(std::uint8_t* map, std::size_t granule, unsigned value) noexcept {
  std::atomic_ref<std::uint8_t> byte(map[granule]);
  byte.store(static_cast<std::uint8_t>(value), std::memory_order_relaxed);
}

// The bytes of an id, for a block that starts in the first half.
struct IdBytes {
  explicit IdBytes(OwnerId id) noexcept {
    const unsigned wide = id - owner_id::first_wide;
    first = id < owner_id::first_wide ? id : owner_id::first_wide | wide >> 7;
    second = id < owner_id::first_wide ? 0 : continued_bit | (wide & id_bits) | (wide & 0x40) << 1;
  }
  unsigned first;
  unsigned second;  // 0: there is none
};
inline unsigned half_at(std::size_t offset) noexcept {
  return offset % map_granule_bytes == 0 ? 0 : half_bit;
}

// offset: bytes from the page's start, any value below page_bytes. none: no block starts there.
inline OwnerId id_at(std::uint8_t* map, std::size_t offset) noexcept {
  const std::size_t granule = offset / map_granule_bytes;
  const unsigned id = load_byte(map, granule) ^ half_at(offset);
  if (offset % min_align_bytes != 0 || id > id_bits) return owner_id::none;
  if (id < owner_id::first_wide) return static_cast<OwnerId>(id);
  const unsigned more = load_byte(map, granule + 1);
  const unsigned low = (more & id_bits) | (more & half_bit) >> 1;
  return static_cast<OwnerId>(owner_id::first_wide + (id - owner_id::first_wide) * 128 + low);
}

// Whether a block of this id starts at offset: one compare of one byte for most caches.
KMEM_FAST bool starts_at(std::uint8_t* map, std::size_t offset, IdBytes id) noexcept {
  const std::size_t granule = offset / map_granule_bytes;
  if (offset % min_align_bytes != 0 || load_byte(map, granule) != (id.first | half_at(offset)))
    return false;
  return id.second == 0 || load_byte(map, granule + 1) == id.second;
}

// Where none starts. at: in units.
inline void mark_start(std::uint8_t* map, unsigned at, IdBytes id) noexcept {
  const std::size_t offset = at * unit_bytes;
  KMEM_ASSERT_EQ(offset % min_align_bytes, 0);
  KMEM_ASSERT_EQ(load_byte(map, offset / map_granule_bytes), 0);
  store_byte(map, offset / map_granule_bytes, id.first | half_at(offset));
  if (id.second != 0) store_byte(map, offset / map_granule_bytes + 1, id.second);
}
inline void clear_start(std::uint8_t* map, unsigned at) noexcept {
  const std::size_t granule = at * unit_bytes / map_granule_bytes;
  const bool wide = (load_byte(map, granule) & id_bits) >= owner_id::first_wide;
  store_byte(map, granule, 0);
  if (wide) store_byte(map, granule + 1, 0);
}
inline void change_start(std::uint8_t* map, unsigned at, OwnerId id) noexcept {
  clear_start(map, at);
  mark_start(map, at, IdBytes(id));
}

// The first block in use that starts at or after `from` (in units); page_units: none.
unsigned next_start(std::uint8_t* map, unsigned from) noexcept;

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
