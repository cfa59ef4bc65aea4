// The owner map: where blocks start in a page, and whose they are, without a header in the block.
//
// A page serves one list for as long as it lives, so the shortest block that can start in it is
// known. Blocks start at multiples of 8.
//
//   pages of the small list: one byte for 16 bytes, the shortest block (256 bytes a page)
//     0             no block in use starts in these 16 bytes
//     h 0 iiiiii    one does, in half h; i: its owner's id, 1..59
//     h 0 1111pp    the same; the id is wide: 7 bits of it are in the next byte, where no other
//     block
//                   can start as this one is at least 32 bytes long; pp: the other two
//     x 1 xxxxxx    those 7 bits: no start, whatever they are
//   pages of the other two: one word for 256 bytes, the shortest block (64 bytes a page)
//     0             no block in use starts in these 256 bytes
//     id * 32 + s   one does, at the s-th multiple of 8
//
// Maps of one kind share pages of their own, so that they are part of the footprint. Written under
// Heap::lock; read without it by owns() and cache_of(), which is why entries are atomics: those of
// an object in use do not change, whatever its neighbours do.
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

inline constexpr std::size_t fine_granule_bytes = min_block_bytes;
inline constexpr std::size_t coarse_granule_bytes = small_below_bytes;
inline constexpr std::size_t fine_map_bytes = pages::page_bytes / fine_granule_bytes;
inline constexpr std::size_t coarse_map_bytes =
    pages::page_bytes / coarse_granule_bytes * sizeof(std::uint32_t);

// An id as the maps hold it, for a block that starts where its granule does.
struct OwnerCode {
  constexpr explicit OwnerCode(OwnerId id) noexcept : coarse(std::uint32_t{id} << 5) {
    const unsigned wide = id - owner_id::first_wide;
    if (id < owner_id::first_wide) {
      first = static_cast<std::uint8_t>(id);
    } else {
      first = static_cast<std::uint8_t>(owner_id::first_wide | wide >> 7);
      second = static_cast<std::uint8_t>(0x40 | (wide & 0x3f) | (wide & 0x40) << 1);
    }
  }
  std::uint32_t coarse;
  std::uint8_t first = 0;
  std::uint8_t second = 0;  // 0: there is none
};

// A view of a page's map; Page::word. Offsets are bytes from the page's start, below page_bytes.
class OwnerMap {
 public:
  explicit OwnerMap(std::uint64_t word) noexcept : word_(word) {}
  OwnerMap(const void* map, Fit fit) noexcept
      : word_(reinterpret_cast<std::uintptr_t>(map) | (fit != Fit::small)) {}
  std::uint64_t word() const noexcept { return word_; }
  bool exists() const noexcept { return word_ != 0; }  // else: an object of whole pages
  bool coarse() const noexcept { return (word_ & 1) != 0; }
  std::uint8_t* bytes() const noexcept {
    return reinterpret_cast<std::uint8_t*>(word_ & ~std::uint64_t{1});
  }
  std::size_t size() const noexcept { return coarse() ? coarse_map_bytes : fine_map_bytes; }

  // none: no block starts there.
  OwnerId id_at(std::size_t offset) const noexcept;

  // Whether a block of this owner starts at offset: one compare of one entry for most.
  KMEM_FAST bool starts_at(std::size_t offset, const OwnerCode& owner) const noexcept {
    if (offset % min_align_bytes != 0) return false;
    if (!coarse()) return starts_at_fine(offset, owner);
    return entry(offset).load(std::memory_order_relaxed) == (owner.coarse | step(offset));
  }

  // Where none started.
  KMEM_FAST void mark(std::size_t offset, const OwnerCode& owner) const noexcept {
    KMEM_ASSERT_EQ(offset % min_align_bytes, 0);
    KMEM_ASSERT(next_start(offset) != offset);
    if (coarse())
      return entry(offset).store(owner.coarse | step(offset), std::memory_order_relaxed);
    store(offset, static_cast<std::uint8_t>(owner.first | half(offset)));
    if (owner.second != 0) store(offset + fine_granule_bytes, owner.second);
  }

  KMEM_FAST void clear(std::size_t offset) const noexcept {
    if (coarse()) return entry(offset).store(0, std::memory_order_relaxed);
    const bool wide = (load(offset) & 0x3f) >= owner_id::first_wide;
    store(offset, 0);
    if (wide) store(offset + fine_granule_bytes, 0);
  }

  void change(std::size_t offset, OwnerId id) const noexcept {
    clear(offset);
    mark(offset, OwnerCode(id));
  }

  // The first block in use that starts at or after offset; page_bytes: none.
  std::size_t next_start(std::size_t offset) const noexcept;

 private:
  bool starts_at_fine(std::size_t offset, const OwnerCode& owner) const noexcept {
    if (load(offset) != (owner.first | half(offset))) return false;
    return owner.second == 0 || load(offset + fine_granule_bytes) == owner.second;
  }
  static unsigned half(std::size_t offset) noexcept {
    return offset % fine_granule_bytes == 0 ? 0 : 0x80;
  }
  static unsigned step(std::size_t offset) noexcept {
    return offset % coarse_granule_bytes / min_align_bytes;
  }
  std::uint8_t load(std::size_t offset) const noexcept {
    std::atomic_ref<std::uint8_t> byte(bytes()[offset / fine_granule_bytes]);
    return byte.load(std::memory_order_relaxed);
  }
  void store(std::size_t offset, std::uint8_t value) const noexcept {
    std::atomic_ref<std::uint8_t> byte(bytes()[offset / fine_granule_bytes]);
    byte.store(value, std::memory_order_relaxed);
  }
  std::atomic_ref<std::uint32_t> entry(std::size_t offset) const noexcept {
    auto* entries = reinterpret_cast<std::uint32_t*>(bytes());
    return std::atomic_ref<std::uint32_t>(entries[offset / coarse_granule_bytes]);
  }
  std::size_t start_in(std::size_t granule) const noexcept;  // page_bytes: none

  std::uint64_t word_;
};

inline OwnerMap map_of(const pages::Page* page) noexcept { return OwnerMap(page->word); }

// The pages that maps of one size are in. All under Heap::lock.
class MapPages {
 public:
  constexpr explicit MapPages(std::size_t map_bytes) noexcept : map_bytes_(map_bytes) {}
  // A map of zeros, or nullptr: add() a page first.
  std::uint8_t* take() noexcept;
  // Takes over a page and gives its first map.
  std::uint8_t* add(pages::Page* page) noexcept;
  // map has no start any more. Returns the page that it was in when that is no longer needed.
  pages::Page* put(std::uint8_t* map) noexcept;

  std::size_t page_count() const noexcept { return page_count_; }
  std::size_t map_count() const noexcept { return map_count_; }

 private:
  // Page::counters has a bit for each map in use.
  std::uint64_t all_in_use() const noexcept {
    return ~std::uint64_t{0} >> (64 - pages::page_bytes / map_bytes_);
  }

  const std::size_t map_bytes_;
  List open_;  // pages with a free map
  std::size_t page_count_ = 0;
  std::size_t map_count_ = 0;
};
static_assert(pages::page_bytes / coarse_map_bytes <= 64, "a bit for each map of a page");

}  // namespace kmem::slob
