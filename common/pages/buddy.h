// A buddy allocator for one node: free blocks of 2^0 .. 2^max_order pages in chunks of the arena.
//
// 1. Picture
//      lists[dirty][order]    blocks that may hold memory: used first, oldest at the back
//      lists[clean][order]    blocks that read as zeros and take no memory
//      states, a byte a page  head mark and order in a free block's first page; a dirty mark in
//      every
//                             page that was used since it was last given back to the system
//
//    A block's Page, while it is free: link is its place in a list, counters the number of its
//    dirty pages, word the epoch (limits.h) of the youngest page freed into it.
//
// 2. Merging is by address: the buddy of a block is the other half of the block of the next order.
//    A block never grows beyond its chunk, which is a whole block, so both halves are one node's.
//
// 3. Memory goes back to the system page by page within a block, the dirty ones only, and without
//    the lock: a block that is being discarded is on no list meanwhile. A whole clean chunk goes
//    back to the arena, so that other nodes and runs can have it.
//
// 4. Invariants, checked by validate()
//      I1 a listed block is aligned to its order, and its state says head and order
//      I2 counters is the number of dirty marks in the block; the list is dirty iff it is not 0
//      I3 no two free buddies of one order stay apart
//      I4 free_pages and dirty_pages are the sums over the lists
//      I5 a clean block is smaller than a chunk
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/intrusive_list.h"
#include "common/pages/page.h"
#include "common/sync/ranked_lock.h"

namespace kmem::pages {

class Buddy {
 public:
  explicit Buddy(int node) noexcept : node_(node) {}

  struct Block {
    Page* head = nullptr;  // nullptr: this node has no memory left
    int node = 0;
    bool clean = false;  // reads as zeros
  };
  Block take(unsigned order) noexcept;
  void give(Page* head, unsigned order) noexcept;

  // Blocks for a per-CPU list, under one acquisition of the lock, side by side where that splits
  // nothing more; how many there were.
  std::size_t take_blocks(Page** out, std::size_t n, unsigned order) noexcept;
  void give_blocks(Page* const* blocks, std::size_t n, unsigned order) noexcept;

  // Gives dirty blocks back to the system, oldest first, that are of epoch_max or older, until
  // pages_max are done; blocks below order_min stay. Returns the number of pages given back.
  std::size_t release(std::uint64_t epoch_max, std::size_t pages_max,
                      unsigned order_min = 0) noexcept;

  void lock_for_fork() noexcept { lock_.unranked().lock(); }
  void unlock_after_fork() noexcept { lock_.unranked().unlock(); }

  std::size_t free_pages() noexcept;
  std::size_t dirty_pages() noexcept;
  const char* validate() noexcept;  // the broken invariant, or nullptr

 private:
  static constexpr unsigned order_count = max_order + 1;
  enum Kind : unsigned { clean, dirty, kinds };

  unsigned smallest_order(unsigned order) noexcept;
  bool grow() noexcept;
  Block take_locked(unsigned order) noexcept;
  bool insert(std::size_t index, unsigned order, std::size_t dirty_count,
              std::uint64_t epoch) noexcept;
  void link(std::size_t index, unsigned order, std::size_t dirty_count,
            std::uint64_t epoch) noexcept;
  void unlink(Page* head) noexcept;
  void split(Page* head, unsigned from, unsigned to) noexcept;
  Page* oldest_dirty(std::uint64_t epoch_max, unsigned order_min) noexcept;
  static void discard_dirty(std::size_t index, std::size_t pages) noexcept;
  void give_clean(std::size_t index, unsigned order) noexcept;
  const char* validate_block(const Page* head, Kind kind, unsigned order) const noexcept;

  SpinLock lock_{LockRank::buddy};
  const int node_;
  std::uint32_t orders_[kinds] = {};  // bit o: lists_[.][o] is not empty
  std::size_t free_pages_ = 0;
  std::size_t dirty_pages_ = 0;
  List lists_[kinds][order_count];
};

}  // namespace kmem::pages
