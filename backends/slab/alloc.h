// SLAB's sources of objects, cheapest first: the CPU's array, the node's shared array, its partial
// and free slabs, a new slab, other nodes.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/slab/slab.h"
#include "common/pages/pages.h"

namespace kmem::slab {

template <class Policy>
void* Cache<Policy>::alloc_slow(gfp_t gfp) noexcept {
  if (void* object = cpus_.template pop<array_field>()) {  // where the fast form only refuses
    count(Event::alloc_hit);
    return object;
  }
  const int node = here();
  Batch batch;
  const std::size_t want = refill_size();
  batch.count = refill(lists_of(node), gfp, batch.objects, want);
  if (batch.count == 0) {
    count(Event::alloc_miss);
    batch.count = grow(gfp | gfp::thisnode, node, batch.objects, want);
  }
  if (batch.count == 0) return alloc_elsewhere(gfp, node);
  void* object = batch.objects[--batch.count];
  put_back(batch);
  if ((gfp & gfp::direct_reclaim) != 0) reap_if_due();
  return object;
}

// A CPU that has not allocated since the reaper's last look gets a small batch.
template <class Policy>
std::size_t Cache<Policy>::refill_size() const noexcept {
  const unsigned most = std::min(batchcount_.load(std::memory_order_relaxed), max_batch);
  return touched() ? most : std::min(most, untouched_batch);
}

// A hint, read while others may write it: a wrong one makes a batch smaller or larger.
template <class Policy>
[[gnu::no_sanitize_thread]] bool Cache<Policy>::touched() const noexcept {
  return cpus_.peek(cpus_.cpu()).array.touched != 0;
}

// Up to want objects from the node's shared array, else from its slabs; 0 without looking where
// both seem empty.
template <class Policy>
std::size_t Cache<Policy>::refill(NodeLists& lists, gfp_t gfp, void** out,
                                  std::size_t want) noexcept {
  if (seems_empty(lists) || !lock_for(lists, gfp)) return 0;
  lists.alloc_misses.add(1);
  std::size_t taken = take_shared(lists, out, want);
  if (taken == 0) taken = take_from_slabs(lists, out, want);
  lists.lock.unlock();
  return taken;
}

// The newest ones. The node's lock is held.
template <class Policy>
std::size_t Cache<Policy>::take_shared(NodeLists& lists, void** out, std::size_t want) noexcept {
  SharedArray& shared = lists.shared;
  const unsigned available = shared.available.load(std::memory_order_relaxed);
  const std::size_t taken = std::min<std::size_t>(want, available);
  if (taken == 0) return 0;
  std::memcpy(out, shared.entries + available - taken, taken * sizeof(void*));
  shared.available.store(static_cast<unsigned>(available - taken), std::memory_order_relaxed);
  shared.touched = true;
  return taken;
}

// Partial slabs first, so that free ones stay free. The node's lock is held.
template <class Policy>
std::size_t Cache<Policy>::take_from_slabs(NodeLists& lists, void** out,
                                           std::size_t want) noexcept {
  std::size_t taken = 0;
  while (taken < want) {
    ListNode* link = lists.partial.front();
    if (link == nullptr) {
      lists.free_touched = true;
      link = lists.free.front();
      if (link == nullptr) break;
      --lists.free_slabs;
    }
    Page* slab = pages::from_link(link);
    taken += take_objects(slab, out + taken, want - taken);
    List::remove(link);
    List& to = slab->counters == objects_ ? lists.full : lists.partial;
    to.push_front(link);
  }
  add_free_objects(lists, std::size_t{0} - taken);
  lists.list_allocs.add(taken);
  note_peak(lists);
  return taken;
}

// From one slab that is private or whose node's lock is held. An index array inside an object is
// gone once that object is taken, which is the last one.
template <class Policy>
std::size_t Cache<Policy>::take_objects(Page* slab, void** out, std::size_t want) noexcept {
  const std::size_t active = slab->counters;
  KMEM_ASSERT(active <= objects_);
  const std::size_t taken = std::min<std::size_t>(want, objects_ - active);
  char* const first = first_object(slab);
  const std::size_t slot_bytes = layout_.geometry.slot_bytes;
  const std::uint8_t* const index = indices(slab) + active;
  for (std::size_t i = 0; i < taken; ++i) out[i] = first + index[i] * slot_bytes;
  slab->counters = active + taken;
  if (active + taken == objects_ && layout_.management == Management::in_object) {
    slab->free_list = nullptr;
  }
  return taken;
}

// ---- New slabs ----------------------------------------------------------------------------------

// Up to want objects straight from a new slab, before it is on any list.
template <class Policy>
std::size_t Cache<Policy>::grow(gfp_t gfp, int node, void** out, std::size_t want) noexcept {
  Page* slab = new_slab(gfp, node);
  if (slab == nullptr) {
    count(Event::error);
    return 0;
  }
  const std::size_t taken = take_objects(slab, out, want);
  if (link_slab(slab, gfp)) return taken;
  destroy_slab(slab);
  return 0;
}

// A private slab, its objects constructed.
template <class Policy>
Page* Cache<Policy>::new_slab(gfp_t gfp, int node) noexcept {
  Page* slab = pages::alloc(layout_.geometry.order, node, gfp & ~gfp::zero, pages::PageKind::slab);
  if (slab == nullptr) return nullptr;
  slab->first_object = next_colour_bytes(lists_of(slab->node));
  slab->counters = 0;
  slab->word = 0;
  slab->link = {};
  if (!place_indices(slab)) {
    pages::free(slab);
    return nullptr;
  }
  std::uint8_t* const index = indices(slab);
  for (unsigned i = 0; i < objects_; ++i) index[i] = static_cast<std::uint8_t>(i);
  pages::set_owner(slab, this, tag);
  if (spec_.ctor != nullptr) {
    for (unsigned i = 0; i < objects_; ++i) {
      spec_.ctor(first_object(slab) + i * layout_.geometry.slot_bytes);
    }
  }
  return slab;
}

// False: no memory for an array outside of the slab.
template <class Policy>
bool Cache<Policy>::place_indices(Page* slab) noexcept {
  switch (layout_.management) {
    case Management::in_object:  // the last number's object is taken last
      slab->free_list = first_object(slab) + (objects_ - 1) * layout_.geometry.slot_bytes;
      return true;
    case Management::on_slab:
      slab->free_list = pages::address_of(slab) + pages::block_bytes(slab) - objects_;
      return true;
    case Management::off_slab:
      slab->free_list = pages::metadata_alloc(layout_.index_block_bytes);
      return slab->free_list != nullptr;
  }
  return false;
}

// Successive slabs of a node start their objects at successive cache lines, as far as there is
// waste.
template <class Policy>
std::uint32_t Cache<Policy>::next_colour_bytes(NodeLists& lists) noexcept {
  const auto colours = static_cast<unsigned>(layout_.geometry.colours);
  unsigned colour = lists.colour_next.load(std::memory_order_relaxed) + 1;
  if (colour >= colours) colour = 0;
  lists.colour_next.store(colour, std::memory_order_relaxed);
  return static_cast<std::uint32_t>(colour * layout_.geometry.colour_bytes);
}

// Makes a private slab one of its node's. False: the lock must not be waited for.
template <class Policy>
bool Cache<Policy>::link_slab(Page* slab, gfp_t gfp) noexcept {
  NodeLists& lists = lists_of(slab->node);
  if (!lock_for(lists, gfp)) return false;
  const std::size_t active = slab->counters;
  if (active == 0) {
    lists.free.push_back(&slab->link);
    ++lists.free_slabs;
  } else {
    (active == objects_ ? lists.full : lists.partial).push_front(&slab->link);
  }
  ++lists.total_slabs;
  lists.slabs_created.add(1);
  add_free_objects(lists, objects_ - active);
  note_peak(lists);
  lists.lock.unlock();
  return true;
}

// ---- Nodes --------------------------------------------------------------------------------------

// node is a preference, unless gfp has thisnode.
template <class Policy>
void* Cache<Policy>::alloc_node(gfp_t gfp, int node) noexcept {
  if (node_count_ == 1 || node < 0 || node >= node_count_) return alloc(gfp);
  if (node != here()) return alloc_from_node(gfp, node);
  void* object = alloc(gfp);
  if ((gfp & gfp::thisnode) == 0 || object == nullptr) return object;
  if (pages::page_of(object)->node == node) return object;
  free(object, pages::page_of(object));  // migrated after the look at here()
  return alloc_from_node(gfp, node);
}

// One object from a given node's slabs, past the arrays.
template <class Policy>
void* Cache<Policy>::alloc_from_node(gfp_t gfp, int node) noexcept {
  count(Event::node_alloc);
  void* object = nullptr;
  if (take_one(lists_of(node), gfp, &object)) return object;
  if (grow(gfp | gfp::thisnode, node, &object, 1) != 0) return object;
  return alloc_elsewhere(gfp, node);
}

template <class Policy>
bool Cache<Policy>::take_one(NodeLists& lists, gfp_t gfp, void** out) noexcept {
  if (lists.free_objects.load(std::memory_order_relaxed) == 0 || !lock_for(lists, gfp))
    return false;
  const std::size_t taken = take_from_slabs(lists, out, 1);
  lists.lock.unlock();
  return taken != 0;
}

// node has nothing and cannot grow: what any other node has free, then a slab from anywhere.
template <class Policy>
void* Cache<Policy>::alloc_elsewhere(gfp_t gfp, int node) noexcept {
  if (node_count_ == 1 || (gfp & gfp::thisnode) != 0) return nullptr;
  void* object = nullptr;
  for (int i = 1; i < node_count_; ++i) {
    if (take_one(lists_of((node + i) % node_count_), gfp, &object)) return object;
  }
  grow(gfp, no_node, &object, 1);
  return object;
}

// ---- Helpers ------------------------------------------------------------------------------------

// The rest of a refill into the array of whichever CPU this is now; what does not fit, or would be
// on the wrong node, back to its slabs.
template <class Policy>
void Cache<Policy>::put_back(Batch& batch) noexcept {
  if (batch.count == 0) return;
  const int node = pages::page_of(batch.objects[0])->node;
  const std::size_t put =
      cpus_.template put<array_field>(batch.objects, batch.count, static_cast<unsigned>(node));
  if (put == batch.count) return;
  give_to_slabs(lists_of(node), batch.objects + put, batch.count - put);
}

template <class Policy>
bool Cache<Policy>::lock_for(NodeLists& lists, gfp_t gfp) noexcept {
  if (!kmem::lock_for(lists.lock, gfp)) return false;
  lists.locks.add(1);
  return true;
}

template <class Policy>
bool Cache<Policy>::seems_empty(const NodeLists& lists) const noexcept {
  return lists.free_objects.load(std::memory_order_relaxed) == 0 &&
         lists.shared.available.load(std::memory_order_relaxed) == 0;
}

// n may be negative, as its two's complement. The node's lock is held.
template <class Policy>
void Cache<Policy>::add_free_objects(NodeLists& lists, std::size_t n) noexcept {
  const std::size_t now = lists.free_objects.load(std::memory_order_relaxed);
  lists.free_objects.store(now + n, std::memory_order_relaxed);
}

template <class Policy>
void Cache<Policy>::note_peak(NodeLists& lists) noexcept {
  lists.max_active.raise_to(lists.total_slabs * objects_ -
                            lists.free_objects.load(std::memory_order_relaxed));
}

}  // namespace kmem::slab
