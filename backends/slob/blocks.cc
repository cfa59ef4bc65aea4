#include "backends/slob/blocks.h"

#include <algorithm>

#include "common/debug/report.h"

namespace kmem::slob {
namespace {

void write_block(Unit* base, unsigned at, unsigned units, unsigned next) noexcept {
  KMEM_ASSERT(units > 0);
  KMEM_ASSERT(at + units <= next);
  if (units == 1) {
    base[at] = static_cast<Unit>(-static_cast<int>(next));
  } else {
    base[at] = static_cast<Unit>(units);
    base[at + 1] = static_cast<Unit>(next);
  }
}

FreeBlock decode(const Unit* base, unsigned at) noexcept {
  if (base[at] <= 0) return {1, static_cast<unsigned>(-base[at])};
  // Casts through 16 bits: a negative next, which nobody wrote, becomes one past the page.
  return {static_cast<unsigned>(base[at]), static_cast<std::uint16_t>(base[at + 1])};
}

KMEM_SLOW FreeBlock cut_list(pages::Page* page, unsigned at) noexcept {
  debug::report(debug::Fault::corrupt_link, "", units_of(page) + at,
                "the header of a free block was overwritten",
                "The page's free list ends at this block");
  write_block(units_of(page), at, 1, page_units);
  return {1, page_units};
}

// Where a free list can be changed: the link that leads to a block, be it the page's or a header.
class Link {
 public:
  explicit Link(pages::Page* page) noexcept : page_(page), base_(units_of(page)) {}
  void move_to(unsigned at, unsigned units) noexcept {
    at_ = at;
    units_ = units;
  }
  void set(unsigned next) noexcept {
    if (at_ != page_units) return write_block(base_, at_, units_, next);
    page_->free_list = next == page_units ? nullptr : base_ + next;
  }
  bool in_block() const noexcept { return at_ != page_units; }
  unsigned at() const noexcept { return at_; }
  unsigned units() const noexcept { return units_; }
  unsigned end() const noexcept { return at_ + units_; }

 private:
  pages::Page* const page_;
  Unit* const base_;
  unsigned at_ = page_units;  // the page's own link
  unsigned units_ = 0;
};

// The first start of a block at or after `at` whose object is aligned.
unsigned aligned_start(unsigned at, const Request& request) noexcept {
  const unsigned object = at + request.lead_units;
  return static_cast<unsigned>(align_up(object, request.align_units)) - request.lead_units;
}

}  // namespace

FreeBlock read_block(pages::Page* page, unsigned at) noexcept {
  const FreeBlock block = decode(units_of(page), at);
  if (at + block.units > block.next || block.next > page_units) [[unlikely]]
    return cut_list(page, at);
  return block;
}

void format_page(pages::Page* page, OwnerMap map) noexcept {
  KMEM_ASSERT(std::all_of(map.bytes(), map.bytes() + map.size(),
                          [](std::uint8_t byte) { return byte == 0; }));
  page->word = map.word();
  page->free_list = units_of(page);
  PageState state = state_of(page);
  state.free_units = state.fit_units = page_units;
  set_state(page, state);
  write_block(units_of(page), 0, page_units, page_units);
}

std::size_t carve(pages::Page* page, const Request& wanted, std::size_t n,
                  void** objects) noexcept {
  // In registers: the stores into the map could change anything else, for all the compiler knows.
  const Request request = wanted;
  const OwnerCode owner(request.id);
  const OwnerMap map = map_of(page);
  Unit* const base = units_of(page);
  Link link(page);
  std::size_t taken = 0;
  unsigned longest = 0;  // of the free blocks that stay
  unsigned at = first_free(page);
  while (at != page_units && taken < n) {
    const FreeBlock block = read_block(page, at);
    const unsigned end = at + block.units;
    unsigned start = aligned_start(at, request);
    unsigned free_from = at;
    while (start + request.units <= end && taken < n) {
      if (start > free_from) {  // what lies before an aligned start stays free
        link.set(free_from);
        link.move_to(free_from, start - free_from);
        longest = std::max(longest, start - free_from);
      }
      map.mark(start * unit_bytes, owner);
      objects[taken++] = base + start + request.lead_units;
      free_from = start + request.units;
      start = aligned_start(free_from, request);
    }
    if (free_from < end) {
      if (free_from != at) link.set(free_from);
      link.move_to(free_from, end - free_from);
      longest = std::max(longest, end - free_from);
    }
    if (free_from != at) link.set(block.next);
    at = block.next;
  }
  PageState state = state_of(page);
  state.free_units = static_cast<std::uint16_t>(state.free_units - taken * request.units);
  if (taken < n) state.fit_units = static_cast<std::uint16_t>(longest);
  state.fit_units = std::min(state.fit_units, state.free_units);
  set_state(page, state);
  return taken;
}

unsigned insert(pages::Page* page, unsigned at, unsigned units, unsigned finger) noexcept {
  Link link(page);
  unsigned next = finger == page_units ? first_free(page) : finger;
  while (next < at) {
    const FreeBlock block = read_block(page, next);
    link.move_to(next, block.units);
    next = block.next;
  }
  KMEM_ASSERT(!link.in_block() || link.end() <= at);
  KMEM_ASSERT(at + units <= next);
  PageState state = state_of(page);
  state.free_units = static_cast<std::uint16_t>(state.free_units + units);
  if (next == at + units && next != page_units) {
    const FreeBlock after = read_block(page, next);
    units += after.units;
    next = after.next;
  }
  if (link.in_block() && link.end() == at) {
    at = link.at();
    units += link.units();
  } else {
    link.set(at);
  }
  write_block(units_of(page), at, units, next);
  state.fit_units = std::max(state.fit_units, static_cast<std::uint16_t>(units));
  set_state(page, state);
  return at;
}

unsigned next_in_use(const pages::Page* page, unsigned from) noexcept {
  if (from == page_units) return page_units;
  return static_cast<unsigned>(map_of(page).next_start(from * unit_bytes) / unit_bytes);
}

unsigned units_in_use(const pages::Page* page, unsigned at) noexcept {
  const unsigned end = next_in_use(page, at + 1);
  for (unsigned free = first_free(page); free < end;) {
    if (free > at) return free - at;
    const unsigned next = decode(units_of(page), free).next;
    if (next <= free) break;  // overwritten: the next change of the list reports it
    free = next;
  }
  return end - at;
}

namespace {

const char* validate_free_list(const pages::Page* page) noexcept {
  const PageState state = state_of(page);
  unsigned free_units = 0;
  unsigned end = 0;
  for (unsigned at = first_free(page); at != page_units;) {
    const FreeBlock block = decode(units_of(page), at);
    if (free_units != 0 && at <= end) return "I3: free blocks are in address order and merged";
    end = at + block.units;
    if (end > block.next || block.next > page_units)
      return "I3: free blocks are in address order and merged";
    if (block.units > state.fit_units) return "I7: no free block is longer than fit_units";
    free_units += block.units;
    at = block.next;
  }
  if (free_units != state.free_units) return "I4: free_units is the sum of the free blocks";
  return nullptr;
}

}  // namespace

const char* validate_blocks(pages::Page* page, const std::uint16_t* units_for_id) noexcept {
  if (const char* broken = validate_free_list(page)) return broken;
  unsigned free = first_free(page);
  unsigned start = next_in_use(page, 0);
  for (unsigned at = 0; at != page_units;) {
    if (at == free) {
      const FreeBlock block = decode(units_of(page), at);
      at += block.units;
      free = block.next;
    } else if (at == start) {
      const unsigned end = std::min(free, next_in_use(page, at + 1));
      const std::uint16_t units = units_for_id[map_of(page).id_at(at * unit_bytes)];
      if (units != 0 && at + units != end) return "I6: a block in use is as long as its owner says";
      start = next_in_use(page, at + 1);
      at = end;
    } else {
      return "I5: free blocks and blocks in use fill the page without overlap";
    }
  }
  if (start != page_units) return "I5: free blocks and blocks in use fill the page without overlap";
  return nullptr;
}

}  // namespace kmem::slob
