// The arena: one reserved range of addresses in chunks of max_block_bytes, and the tables beside
// it.
//
//   arena    [ chunk 0 | chunk 1 | ...                      ]  chunk 0 is never given out: page 0
//   is map      one Page a page, touched when first used          the null page states   one byte a
//   page, of free blocks (buddy.h) chunks   one entry a chunk: taken or not, length of a run
//
// A chunk belongs to one node's buddy allocator, to a run, or to nobody. Chunks of nobody read as
// zeros, take no memory, and neither do their Pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/pages/page.h"

namespace kmem::pages {

inline constexpr std::size_t chunk_bytes = max_block_bytes;
inline constexpr std::size_t chunk_pages = std::size_t{1} << max_order;

// Reserves the arena and its tables; called once, by start().
bool reserve_arena() noexcept;

// n chunks side by side, bound to node; their first page, or nullptr if there are none.
Page* take_chunks(std::size_t n, int node) noexcept;
// Gives them back: the caller has discarded their memory, except for the Pages.
void give_chunks(Page* first, std::size_t n) noexcept;

std::size_t free_chunks() noexcept;

void lock_arena_for_fork() noexcept;
void unlock_arena_after_fork() noexcept;

// The first page of the next chunk that somebody has, at or after chunk; nullptr: no more.
Page* next_taken_chunk(std::size_t chunk) noexcept;

// Length of the run that starts at a chunk's first page, in pages; 0: no run starts there.
void set_run_pages(const Page* first, std::size_t pages) noexcept;
std::size_t run_pages(const Page* first) noexcept;

// buddy.h's byte for each page, protected by the lock of the node that has the chunk.
extern std::uint8_t* block_states;

inline std::size_t index_of(const Page* page) noexcept {
  return static_cast<std::size_t>(page - arena.map);
}
inline bool in_map(const Page* page) noexcept {
  return page > arena.map && page < arena.map + arena.page_count;
}

}  // namespace kmem::pages
