// The blocks of one page. Free blocks carry a header and are linked in address order; blocks in use
// carry none. All under Heap::lock.
//
//   free, two units or more   [ size | next | ... ]     next: offset in the page, in units;
//   free, one unit            [ -next ]                 page_units: this is the last one
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backends/slob/geometry.h"
#include "backends/slob/owner_map.h"
#include "common/pages/page.h"

namespace kmem::slob {

// Page::counters of a page of the heap.
struct PageState {
  std::uint16_t free_units;  // of a page of objects by the page: 0
  // No free block is longer. An upper bound, made exact by a walk that found nothing: the search
  // then passes the page by without walking it again. It changes no placement.
  std::uint16_t fit_units;
  std::uint32_t next_page;  // index in the page array of the heap's next page; 0: none
};
inline PageState state_of(const pages::Page* page) noexcept {
  return std::bit_cast<PageState>(page->counters);
}
inline void set_state(pages::Page* page, PageState state) noexcept {
  page->counters = std::bit_cast<std::uint64_t>(state);
}

inline Unit* units_of(const pages::Page* page) noexcept {
  return reinterpret_cast<Unit*>(pages::address_of(page));
}
inline unsigned unit_of(const void* address) noexcept {
  return (reinterpret_cast<std::uintptr_t>(address) & (pages::page_bytes - 1)) / unit_bytes;
}

// Page::free_list as an offset; page_units: no free block.
inline unsigned first_free(const pages::Page* page) noexcept {
  return page->free_list == nullptr ? page_units : unit_of(page->free_list);
}

struct FreeBlock {
  unsigned units;
  unsigned next;
};
// The free block at `at`. A header that somebody wrote over is reported; the page's free list then
// ends there: what is lost comes back when the page is wholly free.
FreeBlock read_block(pages::Page* page, unsigned at) noexcept;

// Makes a page with nothing in use one free block. map is all zeros; the page's place among the
// heap's pages (next_page) is kept.
void format_page(pages::Page* page, OwnerMap map) noexcept;

// First fit in address order, for up to n blocks in one pass: each search goes on where the last
// block ended, which is where it would end up if it began anew. Splits off what lies before an
// aligned start and behind a block's end. Stores the objects' addresses (behind the lead); returns
// how many.
std::size_t carve(pages::Page* page, const Request& request, std::size_t n,
                  void** objects) noexcept;

// Inserts [at, at + units), whose map entries are cleared, into the free list by address, and
// merges it with both neighbours. finger: a free block before `at` to begin at, or page_units.
// Returns where the merged block begins. The page was not full before, or its list is empty.
unsigned insert(pages::Page* page, unsigned at, unsigned units, unsigned finger) noexcept;

// The first block in use that starts at or after `from`; page_units: none.
unsigned next_in_use(const pages::Page* page, unsigned from) noexcept;

// How far a block in use at `at` reaches, from its neighbours alone: no size is kept for it.
unsigned units_in_use(const pages::Page* page, unsigned at) noexcept;

// The invariant that page breaks (slob.h, I3..I7), or nullptr. units_for_id[id] is the length of a
// block of that id, 0 if that differs.
const char* validate_blocks(pages::Page* page, const std::uint16_t* units_for_id) noexcept;

}  // namespace kmem::slob
