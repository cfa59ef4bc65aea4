#include "backends/slob/heap.h"

#include <algorithm>

#include "common/debug/report.h"

namespace kmem::slob {
namespace {

// The word before a kmalloc object. The second half shows that the first was overwritten.
struct KmallocHeader {
  std::uint32_t bytes;
  std::uint32_t check;
  bool intact() const noexcept { return check == ~bytes && bytes < kmalloc_end_bytes; }
};
static_assert(sizeof(KmallocHeader) == kmalloc_header_bytes);

KmallocHeader& header_of(const void* object) noexcept {
  return *(static_cast<KmallocHeader*>(const_cast<void*>(object)) - 1);
}

pages::Page* page_at(std::uint32_t index) noexcept {
  return index == 0 ? nullptr : pages::arena.map + index;
}
std::uint32_t index_of(const pages::Page* page) noexcept {
  return page == nullptr ? 0 : static_cast<std::uint32_t>(page - pages::arena.map);
}
void set_next(pages::Page* page, std::uint32_t next) noexcept {
  PageState state = state_of(page);
  state.next_page = next;
  set_state(page, state);
}

void*& link_in(void* object, std::size_t offset) noexcept {
  return *reinterpret_cast<void**>(static_cast<char*>(object) + offset);
}

}  // namespace

constinit Heap the_heap;

// ---- Pages -------------------------------------------------------------------------------------

void Heap::Leaving::add(pages::Page* page) noexcept {
  page->word = 0;
  page->free_list = nullptr;  // from here on it is nobody's
  pages_.push_front(&page->link);
}

void Heap::Leaving::release() noexcept {
  while (ListNode* link = pages_.pop_front()) pages::free(pages::from_link(link));
}

void Heap::link_page(pages::Page* page) noexcept {
  set_next(page, index_of(first_page_));
  page->first_object = 0;
  if (first_page_ != nullptr) first_page_->first_object = index_of(page);
  first_page_ = page;
}

void Heap::unlink_page(pages::Page* page) noexcept {
  pages::Page* next = page_at(state_of(page).next_page);
  pages::Page* before = page_at(page->first_object);
  if (next != nullptr) next->first_object = page->first_object;
  if (before != nullptr) {
    set_next(before, index_of(next));
  } else {
    KMEM_ASSERT(first_page_ == page);
    first_page_ = next;
  }
  for (Walker* walker = walkers_; walker != nullptr; walker = walker->next) {
    if (walker->at == page) walker->at = next;
  }
}

// A map for a new page; lets go of the lock when a page for maps is needed. nullptr: no memory.
std::uint8_t* Heap::get_map(Fit fit, gfp_t gfp, int node) noexcept {
  MapPages& maps = maps_for(fit);
  if (std::uint8_t* map = maps.take()) return map;
  lock_.unlock();
  pages::Page* page = pages::alloc(0, node, gfp & ~gfp::zero, pages::PageKind::slab);
  lock_.lock();
  return page != nullptr ? maps.add(page) : maps.take();
}

// A wholly free page, first on its list. The lock is let go meanwhile: pages:: may have to wait.
pages::Page* Heap::get_page(Share& share, Fit fit, gfp_t gfp, int node) noexcept {
  lock_.unlock();
  pages::Page* page = pages::alloc(0, node, gfp & ~gfp::zero, pages::PageKind::slab);
  if (page != nullptr) {
    page->word = 0;  // before the owner is known: nobody takes what was there for a map
    page->free_list = nullptr;
    page->link = {};
    pages::set_owner(page, this, backend_tag);
  }
  lock_.lock();
  share.counts.locks += 1;
  if (page == nullptr) return nullptr;
  std::uint8_t* map = get_map(fit, gfp, node);
  if (map == nullptr) {
    lock_.unlock();
    pages::free(page);
    lock_.lock();
    return nullptr;
  }
  link_page(page);
  format_page(page, OwnerMap(map, fit));
  list(fit).push_front(&page->link);
  block_pages_ += 1;
  share.counts.slabs_created += 1;
  return page;
}

// ---- Allocation --------------------------------------------------------------------------------

// Next fit over the pages of one list, each page giving as many as it can: one pass places n
// objects exactly where n searches would, as a page that had no room left then has none now.
std::size_t Heap::search(const Request& request, int node, std::size_t n, void** objects) noexcept {
  List& pages_with_room = list(request.fit);
  std::size_t taken = 0;
  ListNode* begin = nullptr;  // where the next search shall begin
  ListNode* next = nullptr;
  for (ListNode* link = pages_with_room.front(); link != nullptr && taken < n; link = next) {
    next = pages_with_room.after(link);
    pages::Page* page = pages::from_link(link);
    if (state_of(page).fit_units < request.units) continue;
    if (node != no_node && page->node != node) continue;
    const std::size_t got = carve(page, request, n - taken, objects + taken);
    taken += got;
    if (state_of(page).free_units == 0) {
      List::remove(link);
      // A page that a single search fills leaves without turning the list.
      if (got > 1 || begin == link) begin = next;
    } else if (got != 0) {
      begin = link;
    }
  }
  if (begin != nullptr && begin != pages_with_room.front()) pages_with_room.rotate_to_front(begin);
  return taken;
}

// Sources of objects, cheapest first; as many as can be had up to n.
std::size_t Heap::take(Share& share, const Request& request, gfp_t gfp, int node, std::size_t n,
                       void** objects) noexcept {
  if (request.units == 0) return take_whole(share, gfp, node, n, objects);
  std::size_t taken = search(request, node, n, objects);
  share.live += taken;
  while (taken < n) {
    pages::Page* page = get_page(share, request.fit, gfp, node);
    if (page == nullptr) break;
    const std::size_t got = carve(page, request, n - taken, objects + taken);
    KMEM_ASSERT(got > 0);
    if (state_of(page).free_units == 0) List::remove(&page->link);
    share.live += got;
    taken += got;
  }
  return taken;
}

std::size_t Heap::take_whole(Share& share, gfp_t gfp, int node, std::size_t n,
                             void** objects) noexcept {
  std::size_t taken = 0;
  lock_.unlock();
  for (; taken < n; ++taken) {
    pages::Page* page = pages::alloc(share.order, node, gfp & ~gfp::zero, pages::PageKind::slab);
    if (page == nullptr) break;
    for (unsigned i = 0; i < 1U << share.order; ++i) page[i].word = 0;  // no map
    page->free_list = &share;
    page->counters = 0;
    page->link = {};
    pages::set_owner(page, this, backend_tag);
    objects[taken] = pages::address_of(page);
  }
  lock_.lock();
  for (std::size_t i = 0; i < taken; ++i) link_page(pages::page_of(objects[i]));
  whole_pages_ += taken << share.order;
  share.live += taken;
  share.counts.locks += 1;
  share.counts.slabs_created += taken;
  return taken;
}

void* Heap::unpark(Share& share) noexcept {
  void* object = share.parked;
  pages::Page* page = pages::page_of(object);
  share.parked = link_in(object, share.link_offset);
  share.parked_count -= 1;
  if (share.request.units == 0) {
    page->free_list = &share;
  } else {
    map_of(page).change(offset_in_page(object), share.request.id);
  }
  return object;
}

void Heap::park(Share& share, void* object) noexcept {
  pages::Page* page = pages::page_of(object);
  if (share.request.units == 0) {
    page->free_list = nullptr;
  } else {
    map_of(page).change(offset_in_page(object), owner_id::parked);
  }
  link_in(object, share.link_offset) = share.parked;
  share.parked = object;
  share.parked_count += 1;
}

std::size_t Heap::take_parked(Share& share, int node, std::size_t n, void** objects) noexcept {
  std::size_t taken = 0;
  while (taken < n && share.parked != nullptr) {
    if (node != no_node && pages::page_of(share.parked)->node != node) break;
    objects[taken++] = unpark(share);
  }
  share.live += taken;
  return taken;
}

bool Heap::alloc(Share& share, gfp_t gfp, int node, std::size_t n, void** objects,
                 std::size_t& constructed) noexcept {
  if (!HeapLock::may_enter(gfp)) [[unlikely]]
    return false;
  Guard guard(lock_);
  share.counts.locks += 1;
  constructed = share.parks ? take_parked(share, node, n, objects) : 0;
  std::size_t taken = constructed;
  if (taken < n) taken += take(share, share.request, gfp, node, n - taken, objects + taken);
  if (taken < n) [[unlikely]]
    return undo(share, constructed, taken, objects), false;
  share.counts.alloc_slow += n;
  return true;
}

// All or nothing: what a bulk got goes back to where it came from.
void Heap::undo(Share& share, std::size_t parked, std::size_t n, void** objects) noexcept {
  Leaving leaving;
  Finger finger;
  for (std::size_t i = 0; i < parked; ++i) park(share, objects[i]);
  // The others were never constructed: they are not parked.
  for (std::size_t i = parked; i < n;) {
    if (share.request.units != 0) {
      i += free_run(share, n - i, objects + i, finger, leaving);
    } else {
      free_whole(share, pages::page_of(objects[i++]), leaving);
    }
  }
  share.live -= n;
  lock_.unlock();
  leaving.release();
  lock_.lock();
}

void* Heap::kmalloc(std::size_t bytes, gfp_t gfp, int node) noexcept {
  if (!HeapLock::may_enter(gfp)) [[unlikely]]
    return nullptr;
  Request request = kmalloc_request(bytes);
  request.id = owner_id::kmalloc;
  void* object = nullptr;
  {
    Guard guard(lock_);
    kmalloc_.counts.locks += 1;
    if (take(kmalloc_, request, gfp, node, 1, &object) == 0) return nullptr;
    kmalloc_.counts.alloc_slow += 1;
  }
  const std::uint32_t size = static_cast<std::uint32_t>(bytes);
  header_of(object) = {size, ~size};
  return object;
}

// ---- Freeing -----------------------------------------------------------------------------------

// Blocks [at, at + units) of one owner, whose map entries are cleared.
void Heap::give_back(Share& share, Fit fit, pages::Page* page, unsigned at, unsigned units,
                     Finger& finger, Leaving& leaving) noexcept {
  const unsigned free_units = state_of(page).free_units;
  if (free_units + units == page_units) {  // wholly free: returned at once
    if (page->link.linked()) List::remove(&page->link);
    unlink_page(page);
    if (pages::Page* map_page = maps_of(page).put(map_of(page).bytes())) leaving.add(map_page);
    leaving.add(page);
    finger = {};
    block_pages_ -= 1;
    share.counts.slabs_freed += 1;
    return;
  }
  if (free_units == 0) list(fit).push_front(&page->link);
  const bool after_finger = finger.page == page && finger.at < at;
  finger.at = insert(page, at, units, after_finger ? finger.at : page_units);
  finger.page = page;
}

// Frees objects[0] and those behind it in the array that are its neighbours in memory, upwards or
// downwards, as one block. Returns how many that were; 0 if objects[0] is not in use.
std::size_t Heap::free_run(Share& share, std::size_t n, void** objects, Finger& finger,
                           Leaving& leaving) noexcept {
  const Request request = share.request;
  pages::Page* page = pages::page_of(objects[0]);
  if (!is_live(share, page, objects[0])) return 0;
  const OwnerCode owner = share.code;
  const OwnerMap map = map_of(page);
  const char* const base = pages::address_of(page);
  unsigned low = unit_of(objects[0]);
  unsigned high = low + request.units;
  map.clear(low * unit_bytes);
  std::size_t freed = 1;
  // Of a shared id, each one's length has to be looked at: those go one by one.
  for (; freed < n && request.id != owner_id::shared; ++freed) {
    const auto offset = static_cast<std::size_t>(static_cast<char*>(objects[freed]) - base);
    const bool above = offset == high * unit_bytes && high != page_units;
    const bool below = low >= request.units && offset == (low - request.units) * unit_bytes;
    if ((!above && !below) || !map.starts_at(offset, owner)) break;
    map.clear(offset);
    above ? high += request.units : low -= request.units;
  }
  give_back(share, request.fit, page, low, high - low, finger, leaving);
  return freed;
}

void Heap::free_whole(Share& share, pages::Page* page, Leaving& leaving) noexcept {
  unlink_page(page);
  whole_pages_ -= std::size_t{1} << share.order;
  share.counts.slabs_freed += 1;
  leaving.add(page);
}

// Frees the first object, and perhaps more. Returns how many; 0: it is not an object in use.
std::size_t Heap::free_some(Share& share, std::size_t n, void** objects, Finger& finger,
                            Leaving& leaving) noexcept {
  if (share.request.units != 0 && !share.parks) {
    return free_run(share, n, objects, finger, leaving);
  }
  pages::Page* page = pages::page_of(objects[0]);
  if (!is_live(share, page, objects[0])) return 0;
  if (share.parks) return park(share, objects[0]), 1;
  return free_whole(share, page, leaving), 1;
}

std::size_t Heap::free(Share& share, std::size_t n, void** objects) noexcept {
  Leaving leaving;
  Finger finger;
  std::size_t rejected = 0;
  {
    Guard guard(lock_);
    for (std::size_t i = 0; i < n;) {
      const std::size_t freed = free_some(share, n - i, objects + i, finger, leaving);
      if (freed == 0) [[unlikely]]
        objects[rejected++] = objects[i];
      i += std::max<std::size_t>(freed, 1);
    }
    share.live -= n - rejected;
    share.counts.locks += 1;
    share.counts.free_slow += n - rejected;
  }
  leaving.release();
  return rejected;
}

bool Heap::kfree(void* object) noexcept {
  pages::Page* page = pages::page_of(object);
  Leaving leaving;
  bool intact = true;
  {
    Guard guard(lock_);
    if (!is_kmalloc(page, object)) return false;
    const unsigned at = unit_of(object) - kmalloc_header_bytes / unit_bytes;
    const KmallocHeader header = header_of(object);
    intact = header.intact();
    const unsigned units = intact ? kmalloc_request(header.bytes).units : units_in_use(page, at);
    map_of(page).clear(at * unit_bytes);
    Finger finger;
    give_back(kmalloc_, fit_for(units * unit_bytes), page, at, units, finger, leaving);
    kmalloc_.live -= 1;
    kmalloc_.counts.locks += 1;
    kmalloc_.counts.free_slow += 1;
  }
  leaving.release();
  if (!intact) {
    debug::report(debug::Fault::corrupt_link, "kmalloc", object,
                  "the size before the object was overwritten",
                  "Object freed with the length that its neighbours leave");
  }
  return true;
}

std::size_t Heap::ksize(const void* object) noexcept {
  pages::Page* page = pages::page_of(object);
  Guard guard(lock_);
  if (!is_kmalloc(page, object)) return 0;
  const KmallocHeader header = header_of(object);
  if (header.intact()) return align_up(header.bytes, unit_bytes);
  const unsigned at = unit_of(object) - kmalloc_header_bytes / unit_bytes;
  return units_in_use(page, at) * unit_bytes - kmalloc_header_bytes;
}

}  // namespace kmem::slob
