// A slab of SLUB is a Page: this is what its words mean here, and how they change.
//   free_list, counters   the slab's state, changed together (SlabState)
//   link                  node partial list; next alone: CPU partial list, or a private chain
//   word                  neighbours in its node's list of all slabs, and marks (SlabWord), under
//                         the node's list_lock
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/assert.h"
#include "common/base/attributes.h"
#include "common/pages/page.h"
#include "common/percpu/atomic_pair.h"

namespace kmem::slub {

using pages::Page;

// (free list, counters) at one instant. counters = inuse:16, objects:15, frozen:1.
struct SlabState {
  static constexpr std::uint64_t inuse_mask = 0xffff, frozen_bit = std::uint64_t{1} << 31;

  void* free_list;
  std::uint64_t counters;

  unsigned inuse() const noexcept { return static_cast<unsigned>(counters & inuse_mask); }
  unsigned objects() const noexcept { return static_cast<unsigned>(counters >> 16) & 0x7fff; }
  bool frozen() const noexcept { return (counters & frozen_bit) != 0; }
  unsigned free_objects() const noexcept { return objects() - inuse(); }

  // What is left of a slab whose whole free list was taken: every object counts as in use.
  SlabState emptied(bool frozen) const noexcept {
    return {nullptr, (counters & ~(inuse_mask | frozen_bit)) | objects() |
                         (frozen ? frozen_bit : std::uint64_t{0})};
  }
  // With n more objects, linked in front.
  SlabState with_free(void* head, std::uint64_t n) const noexcept {
    KMEM_ASSERT(inuse() >= n);
    return {head, counters - n};
  }
  SlabState unfrozen() const noexcept { return {free_list, counters & ~frozen_bit}; }
};
static_assert(offsetof(Page, free_list) % 16 == 0 && offsetof(Page, counters) == 8,
              "a compare-exchange of 16 bytes covers both");

// Each word whole, but perhaps not of one instant: acted upon only by change_state().
KMEM_FAST SlabState state_of(const Page* slab) noexcept {
  const percpu::Pair pair = percpu::load_pair(slab);
  return {pair.first, reinterpret_cast<std::uint64_t>(pair.second)};
}
// How many objects a slab has: the same from its making to its end, whatever else changes.
KMEM_FAST unsigned objects_of(const Page* slab) noexcept {
  return SlabState{nullptr, __atomic_load_n(&slab->counters, __ATOMIC_RELAXED)}.objects();
}
KMEM_FAST percpu::Pair pair_of(SlabState state) noexcept {
  return {state.free_list, reinterpret_cast<void*>(state.counters)};
}
KMEM_FAST bool change_state(Page* slab, SlabState expected, SlabState desired) noexcept {
  return percpu::compare_exchange_pair(slab, pair_of(expected), pair_of(desired));
}
// For a slab that nobody else can change: it is on no list, and no object of it is in other hands
// (none is in use, or the caller holds all that are). Saves a locked instruction of 20 cycles.
KMEM_FAST void set_state(Page* slab, SlabState state) noexcept {
  // Relaxed: whoever changes the state next got an object or the slab from us, by an operation that
  // orders these stores. Statistics may see one without the other.
  __atomic_store_n(&slab->free_list, state.free_list, __ATOMIC_RELAXED);
  __atomic_store_n(&slab->counters, state.counters, __ATOMIC_RELAXED);
}

// Page::word = prev:30, next:30, marks:4. Pages by number; 0 is the null page, and so nobody.
struct SlabWord {
  static constexpr std::uint64_t on_partial = 1;  // mark: on its node's partial list
  static constexpr std::uint64_t pinned = 2;      // mark: for_each_live() stands on it, no discard
  static constexpr unsigned next_shift = 4, prev_shift = 34;
  static constexpr std::uint64_t page_mask = (std::uint64_t{1} << 30) - 1;  // 4 TiB

  static bool marked(const Page* slab, std::uint64_t mark) noexcept {
    return (slab->word & mark) != 0;
  }
  static void set_mark(Page* slab, std::uint64_t mark) noexcept { slab->word |= mark; }
  static void clear_mark(Page* slab, std::uint64_t mark) noexcept { slab->word &= ~mark; }

  static Page* page(const Page* slab, unsigned shift) noexcept {
    const std::uint64_t number = slab->word >> shift & page_mask;
    return number == 0 ? nullptr : pages::arena.map + number;
  }
  static void set_page(Page* slab, unsigned shift, const Page* to) noexcept {
    const std::uint64_t number =
        to == nullptr ? 0 : static_cast<std::uint64_t>(to - pages::arena.map);
    KMEM_ASSERT(number <= page_mask);
    slab->word = (slab->word & ~(page_mask << shift)) | number << shift;
  }
};

// Every slab of a node, so that full slabs, which are on no other list, are found by destroy() and
// validate().
class AllSlabs {
 public:
  Page* first() const noexcept { return first_; }
  static Page* next(const Page* slab) noexcept {
    return SlabWord::page(slab, SlabWord::next_shift);
  }
  void add(Page* slab) noexcept {
    SlabWord::set_page(slab, SlabWord::next_shift, first_);
    SlabWord::set_page(slab, SlabWord::prev_shift, nullptr);
    if (first_ != nullptr) SlabWord::set_page(first_, SlabWord::prev_shift, slab);
    first_ = slab;
  }
  void remove(Page* slab) noexcept {
    Page* const after = next(slab);
    Page* const before = SlabWord::page(slab, SlabWord::prev_shift);
    KMEM_ASSERT(before != nullptr || first_ == slab);
    if (after != nullptr) SlabWord::set_page(after, SlabWord::prev_shift, before);
    if (before != nullptr) SlabWord::set_page(before, SlabWord::next_shift, after);
    if (before == nullptr) first_ = after;
  }

 private:
  Page* first_ = nullptr;
};

// Slabs in private hands, linked through link.next.
struct SlabChain {
  Page* first = nullptr;
  Page* last = nullptr;
  unsigned count = 0;

  void push_front(Page* slab) noexcept {
    set_next(slab, first);
    if (last == nullptr) last = slab;
    first = slab;
    ++count;
  }
  void push_back(Page* slab) noexcept {
    set_next(slab, nullptr);
    if (last != nullptr) set_next(last, slab);
    if (first == nullptr) first = slab;
    last = slab;
    ++count;
  }
  Page* pop_front() noexcept {
    Page* const slab = first;
    if (slab == nullptr) return nullptr;
    first = next(slab);
    if (first == nullptr) last = nullptr;
    --count;
    return slab;
  }

  static constexpr std::size_t link = offsetof(Page, link) + offsetof(ListNode, next);
  static Page* next(const Page* slab) noexcept { return reinterpret_cast<Page*>(slab->link.next); }
  static void set_next(Page* slab, Page* next) noexcept {
    slab->link.next = reinterpret_cast<ListNode*>(next);
  }
};

}  // namespace kmem::slub
