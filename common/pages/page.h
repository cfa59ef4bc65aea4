// The page array (vmemmap): one 64-byte descriptor for each 4 KiB page of the arena. A backend
// keeps a slab's state in the descriptor of its first page, so slabs need no header, and any
// pointer leads to its slab by one subtraction, one shift and one load.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/attributes.h"
#include "common/base/intrusive_list.h"

namespace kmem::pages {

inline constexpr unsigned page_shift = 12;
inline constexpr std::size_t page_bytes = std::size_t{1} << page_shift;
inline constexpr unsigned max_order = 10;  // the largest block: 4 MiB, as MAX_PAGE_ORDER
inline constexpr std::size_t max_block_bytes = page_bytes << max_order;

enum class PageKind : std::uint8_t {
  reserved,  // no block yet, or the null page
  free,      // in the buddy allocator or on a per-CPU page list
  slab,      // a backend's: owner is the cache
  large,     // kmalloc or kvmalloc beyond the caches: owner is null
  metadata,  // the library's own structures
};

// Who writes what. head, owner, kind, order, node and owner_tag of every page of a block are
// written by pages:: and by the backend before an object of it is handed out, and stay until the
// block is freed. The rest belongs to the backend (for a free block: to pages::).
struct alignas(64) Page {
  // Two words which SLUB changes together by a 16-byte compare-exchange.
  void* free_list;
  std::uint64_t counters;
  Page* head;                  // the block's first page, in every page of it; null: no block
  void* owner;                 // the backend's cache, in every page of a slab; else null
  ListNode link;               // one list at a time
  std::uint64_t word;          // backend's
  std::uint32_t first_object;  // offset of the first object from the block's start: the colour
  PageKind kind;
  std::uint8_t order;      // of the block; in its first page (large runs: 0, see run_pages)
  std::uint8_t node;       // in every page of the block
  std::uint8_t owner_tag;  // backend and policy that owner belongs to, as owner; 0: none
};
static_assert(sizeof(Page) == 64, "page_of() multiplies by 64; the array costs 1.6 %");

// Set once at start, then constant. Before that, and for pointers outside the arena, page_of()
// gives the null page, whose owner is null: check the owner before following head.
struct Arena {
  std::uintptr_t base;
  std::size_t page_count;
  Page* map;
};
[[gnu::visibility("hidden")]] extern Arena arena;

KMEM_FAST Page* page_of(const void* pointer) noexcept {
  std::size_t index = (reinterpret_cast<std::uintptr_t>(pointer) - arena.base) >> page_shift;
  index = index < arena.page_count ? index : 0;  // a conditional move: page 0 is the null page
  return arena.map + index;
}
inline bool is_null_page(const Page* page) noexcept { return page == arena.map; }

inline char* address_of(const Page* page) noexcept {
  // One shift: by the bytes of a page to a byte of its descriptor.
  const auto offset =
      reinterpret_cast<std::uintptr_t>(page) - reinterpret_cast<std::uintptr_t>(arena.map);
  return reinterpret_cast<char*>(arena.base + offset * (page_bytes / sizeof(Page)));
}
// The page whose link is on a list.
inline Page* from_link(ListNode* link) noexcept {
  return reinterpret_cast<Page*>(reinterpret_cast<char*>(link) - offsetof(Page, link));
}
inline std::size_t block_bytes(const Page* head) noexcept { return page_bytes << head->order; }

}  // namespace kmem::pages
