// Who owns what, and looking at the heap as a whole: caches that come and go, iteration,
// validation.
#include <algorithm>

#include "backends/slob/heap.h"

namespace kmem::slob {
namespace {

pages::Page* next_page(const pages::Page* page) noexcept {
  const std::uint32_t index = state_of(page).next_page;
  return index == 0 ? nullptr : pages::arena.map + index;
}

bool is_whole_of(const Share& share, const pages::Page* page) noexcept {
  return page->word == 0 && page->free_list == &share;
}

}  // namespace

// ---- Caches that come and go -------------------------------------------------------------------

// Short ids first; of those, some are kept for the blocks that have no room for a wide one. Coarse
// maps take any.
OwnerId Heap::free_id(const Request& request) const noexcept {
  const bool any = request.units * unit_bytes >= min_wide_bytes;
  const unsigned end = any ? owner_id::end : owner_id::first_wide;
  unsigned id = request.fit == Fit::small ? owner_id::first_cache : owner_id::first_wide;
  for (; id < end; ++id) {
    if (any && id == owner_id::first_scarce) id = owner_id::first_wide;
    if (cache_of_id_[id].load(std::memory_order_relaxed) == nullptr)
      return static_cast<OwnerId>(id);
  }
  return owner_id::shared;
}

void Heap::join(Share& share) noexcept {
  Guard guard(lock_);
  if (share.request.units == 0) return;  // the page names its owner
  const OwnerId id = free_id(share.request);
  share.request.id = id;
  share.code = OwnerCode(id);
  if (id == owner_id::shared) {
    share.next_shared = shared_;
    shared_ = &share;
    return;
  }
  cache_of_id_[id].store(share.cache, std::memory_order_relaxed);
  units_of_id_[id] = share.request.units;
}

// Objects of caches that share an id are told apart by their length alone.
bool Heap::other_of_same_size(const Share& share) const noexcept {
  if (share.request.id != owner_id::shared) return false;
  for (const Share* other = shared_; other != nullptr; other = other->next_shared) {
    if (other != &share && other->request.units == share.request.units) return true;
  }
  return false;
}

// Objects still in use when their cache goes stay where they are, and are nobody's from now on.
void Heap::orphan(const Share& share) noexcept {
  if (other_of_same_size(share)) return;
  for (pages::Page* page = first_page_; page != nullptr;) {
    pages::Page* next = next_page(page);
    for_each_live_on(share, page, [&](unsigned at) {
      if (share.request.units != 0) return map_of(page).change(at * unit_bytes, owner_id::orphan);
      unlink_page(page);
      pages::set_owner(page, nullptr, 0);
    });
    page = next;
  }
}

void Heap::forget_id(Share& share) noexcept {
  if (share.request.id != owner_id::shared) {
    cache_of_id_[share.request.id].store(nullptr, std::memory_order_relaxed);
    units_of_id_[share.request.id] = 0;
    return;
  }
  Share** link = &shared_;
  while (*link != &share) link = &(*link)->next_shared;
  *link = share.next_shared;
}

std::size_t Heap::leave(Share& share) noexcept {
  Leaving leaving;
  std::size_t live = 0;
  {
    Guard guard(lock_);
    Finger finger;
    while (share.parked != nullptr) {
      void* object = unpark(share);
      if (share.request.units != 0) {
        free_run(share, 1, &object, finger, leaving);
      } else {
        free_whole(share, pages::page_of(object), leaving);
      }
    }
    live = share.live;
    if (live != 0) orphan(share);
    forget_id(share);
  }
  leaving.release();
  return live;
}

// ---- Who owns an object ------------------------------------------------------------------------

bool Heap::is_live_whole(const Share& share, const pages::Page* page,
                         const void* object) const noexcept {
  return page->owner == this && page->head == page && is_whole_of(share, page) &&
         object == pages::address_of(page);
}

bool Heap::has_length_of(const Share& share, const pages::Page* page,
                         const void* object) const noexcept {
  return units_in_use(page, unit_of(object)) == share.request.units;
}

bool Heap::owns_shared(const Share& share, const pages::Page* page,
                       const void* object) const noexcept {
  Guard guard(lock_);  // its length is looked at, and that depends on its neighbours
  return is_live(share, page, object);
}

bool Heap::is_kmalloc(const pages::Page* page, const void* object) const noexcept {
  const std::size_t offset = offset_in_page(object);
  return offset >= kmalloc_header_bytes && is_blocks(page) &&
         map_of(page).starts_at(offset - kmalloc_header_bytes, OwnerCode(owner_id::kmalloc));
}

Cache* Heap::cache_of(const void* object) noexcept {
  const pages::Page* page = pages::page_of(object);
  if (page->owner != this) return nullptr;
  if (page->word == 0) {
    const Share* share = static_cast<const Share*>(page->free_list);
    return share != nullptr && is_live_whole(*share, page, object) ? share->cache : nullptr;
  }
  const OwnerId id = map_of(page).id_at(offset_in_page(object));
  if (id != owner_id::shared) return cache_of_id_[id].load(std::memory_order_relaxed);
  Guard guard(lock_);
  for (const Share* share = shared_; share != nullptr; share = share->next_shared) {
    if (is_live(*share, page, object)) return share->cache;
  }
  return nullptr;
}

// ---- Looking at all of it ----------------------------------------------------------------------

template <class Visitor>
void Heap::for_each_live_on(const Share& share, pages::Page* page, Visitor visit) const noexcept {
  if (share.request.units == 0) {
    if (is_whole_of(share, page)) visit(0U);
    return;
  }
  if (page->word == 0) return;
  const char* base = pages::address_of(page);
  for (unsigned at = next_in_use(page, 0); at != page_units; at = next_in_use(page, at + 1)) {
    if (is_live(share, page, base + at * unit_bytes)) visit(at);
  }
}

void Heap::for_each_live(const Share& share, LiveVisitor visit, void* context) noexcept {
  void* objects[pages::page_bytes / min_block_bytes];  // those of one page
  lock_.lock();
  Walker walker{first_page_, walkers_};
  walkers_ = &walker;
  while (walker.at != nullptr) {
    pages::Page* page = walker.at;
    std::size_t found = 0;
    for_each_live_on(share, page, [&](unsigned at) { objects[found++] = units_of(page) + at; });
    walker.at = next_page(page);
    if (found == 0) continue;
    lock_.unlock();
    for (std::size_t i = 0; i < found; ++i) {
      visit(context, objects[i], unit_of(objects[i]) * unit_bytes);
    }
    lock_.lock();
  }
  Walker** link = &walkers_;
  while (*link != &walker) link = &(*link)->next;
  *link = walker.next;
  lock_.unlock();
}

const char* Heap::validate_pages() noexcept {
  std::size_t blocks = 0;
  std::size_t with_room = 0;
  const pages::Page* before = nullptr;
  for (pages::Page* page = first_page_; page != nullptr; before = page, page = next_page(page)) {
    if (page->owner != this || page->owner_tag != backend_tag || page->head != page)
      return "I1: the heap owns each of its pages";
    if (page->first_object != (before == nullptr ? 0 : before - pages::arena.map))
      return "I1: each page knows the page before it";
    if (page->word == 0) continue;
    const unsigned free_units = state_of(page).free_units;
    if (free_units == page_units) return "I2: no page is wholly free";
    if (page->link.linked() != (free_units != 0)) return "I2: a page is listed while it has room";
    if (const char* broken = validate_blocks(page, units_of_id_)) return broken;
    ++blocks;
    with_room += free_units != 0;
  }
  for (List& list : lists_) {
    for (ListNode* link = list.front(); link != nullptr; link = list.after(link)) {
      if (state_of(pages::from_link(link)).free_units == 0)
        return "I2: a page is listed while it has room";
      --with_room;
    }
  }
  if (with_room != 0) return "I2: each page with room is on one of the three lists";
  if (blocks != block_pages_ || blocks != fine_maps_.map_count() + coarse_maps_.map_count())
    return "I8: there is a map for each page of blocks";
  return nullptr;
}

const char* Heap::validate(const Share& share) noexcept {
  Guard guard(lock_);
  if (const char* broken = validate_pages()) return broken;
  std::size_t live = 0;
  for (pages::Page* page = first_page_; page != nullptr; page = next_page(page)) {
    for_each_live_on(share, page, [&](unsigned) { ++live; });
  }
  if (live != share.live && !other_of_same_size(share))
    return "I9: a cache's objects in use are those that the maps name";
  std::size_t parked = 0;
  for (const void* object = share.parked; object != nullptr && parked <= share.parked_count;) {
    ++parked;
    object = *reinterpret_cast<void* const*>(static_cast<const char*>(object) + share.link_offset);
  }
  if (parked != share.parked_count) return "I10: parked_count is the length of the parked list";
  return nullptr;
}

Heap::Usage Heap::usage() noexcept {
  Guard guard(lock_);
  Usage usage{};
  usage.block_pages = block_pages_;
  usage.map_pages = fine_maps_.page_count() + coarse_maps_.page_count();
  usage.whole_pages = whole_pages_;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Fit::count); ++i) {
    for (ListNode* link = lists_[i].front(); link != nullptr; link = lists_[i].after(link)) {
      usage.listed_pages[i] += 1;
      usage.free_bytes += state_of(pages::from_link(link)).free_units * unit_bytes;
    }
  }
  return usage;
}

PathCounts Heap::counts_of(const Share& share) noexcept {
  Guard guard(lock_);
  return share.counts;
}

Heap::Counts Heap::objects_of(const Share& share) noexcept {
  Guard guard(lock_);
  return {share.live, share.parked_count};
}

std::size_t Heap::kmalloc_live() noexcept { return objects_of(kmalloc_).live; }

}  // namespace kmem::slob
