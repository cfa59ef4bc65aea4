// The invariants of slab.h, checked. Exact beside traffic too: arrays are looked at while the CPUs
// are drained, slabs under their node's lock.
#pragma once

#include <algorithm>

#include "backends/slab/slab.h"

namespace kmem::slab {

// The broken invariant, or null. Right beside traffic too: arrays are looked at while the CPUs are
// drained, slabs under their node's lock. O(objects), and quadratic in the length of an array.
template <class Policy>
const char* Cache<Policy>::validate() noexcept {
  const char* broken = nullptr;
  cpus_.drain([&](CpuState& state, unsigned) {
    if (broken == nullptr) broken = validate_array(state.array);
  });
  for (int node = 0; node < node_count_ && broken == nullptr; ++node) {
    broken = validate_node(nodes_[node]);
  }
  return broken;
}

template <class Policy>
const char* Cache<Policy>::validate_array(const percpu::PointerArray& array) noexcept {
  if (array.bottom > array.top || array.top > array.end || array.end > array.capacity ||
      array.end - array.bottom > array.limit) {
    return "I4: bottom <= top <= end <= capacity, end - bottom <= limit";
  }
  NodeLists& lists = lists_of(static_cast<int>(array.node));
  void* const* entries = reinterpret_cast<void* const*>(&array + 1);
  Guard guard(lists.lock);
  return validate_held(lists, entries + array.bottom, array.top - array.bottom);
}

// What some array holds. The lock of lists, whose objects these should be, is held.
template <class Policy>
const char* Cache<Policy>::validate_held(const NodeLists& lists, void* const* objects,
                                         std::size_t n) const noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const Page* page = pages::page_of(objects[i]);
    if (!owns(page, objects[i]) || page->node != lists.node) {
      return "I5: an array holds objects of this cache and of its node";
    }
    const Page* slab = page->head;
    const std::uint64_t number = number_of(slab, objects[i]);
    for (std::size_t k = slab->counters; k < objects_; ++k) {
      if (indices(slab)[k] == number) return "I5: an object in an array is in use in its slab";
    }
    if (std::find(objects, objects + i, objects[i]) != objects + i) {
      return "I6: no array holds an object twice";
    }
  }
  return nullptr;
}

template <class Policy>
const char* Cache<Policy>::validate_node(NodeLists& lists) const noexcept {
  for (int node = 0; node < node_count_ && node_count_ > 1; ++node) {
    AlienArray& alien = lists.aliens[node];
    Guard guard(alien.lock);
    if (alien.available > alien_limit) return "I4: no array is over its limit";
    NodeLists& target = nodes_[node];
    Guard target_guard(target.lock);
    if (const char* broken = validate_held(target, alien.entries, alien.available)) return broken;
  }
  Guard guard(lists.lock);
  const unsigned available = lists.shared.available.load(std::memory_order_relaxed);
  if (available > lists.shared.capacity.load(std::memory_order_relaxed)) {
    return "I4: no array is over its limit";
  }
  if (const char* broken = validate_held(lists, lists.shared.entries, available)) return broken;
  return validate_lists(lists);
}

// The node's lock is held.
template <class Policy>
const char* Cache<Policy>::validate_lists(const NodeLists& lists) const noexcept {
  std::size_t slabs = 0;
  std::size_t free_slabs = 0;
  std::size_t free_objects = 0;
  for (const List* list : {&lists.partial, &lists.full, &lists.free}) {
    for (ListNode* link = list->front(); link != nullptr; link = list->after(link)) {
      const Page* slab = pages::from_link(link);
      const List* named = slab->counters == 0          ? &lists.free
                          : slab->counters == objects_ ? &lists.full
                                                       : &lists.partial;
      if (named != list) return "I1: a slab is on the list that its active count names";
      if (const char* broken = validate_slab(lists, slab)) return broken;
      ++slabs;
      free_slabs += slab->counters == 0 ? 1 : 0;
      free_objects += objects_ - slab->counters;
    }
  }
  if (slabs != lists.total_slabs || free_slabs != lists.free_slabs ||
      free_objects != lists.free_objects.load(std::memory_order_relaxed)) {
    return "I2: total_slabs, free_slabs and free_objects are what the lists hold";
  }
  return nullptr;
}

template <class Policy>
const char* Cache<Policy>::validate_slab(const NodeLists& lists, const Page* slab) const noexcept {
  for (std::size_t i = 0; i < std::size_t{1} << slab->order; ++i) {
    const Page& page = slab[i];
    if (page.owner != this || page.owner_tag != tag || page.head != slab ||
        page.node != lists.node) {
      return "I8: every page of a slab names this cache";
    }
  }
  const Geometry& geometry = layout_.geometry;
  if (slab->first_object % geometry.colour_bytes != 0 ||
      slab->first_object / geometry.colour_bytes >= geometry.colours) {
    return "I8: a slab's first object is at a colour's offset";
  }
  const std::size_t active = slab->counters;
  if (!indices_in_place(slab))
    return "I7: the index array is where the cache's management keeps it";
  bool seen[max_objects] = {};
  for (std::size_t i = active; i < objects_; ++i) {
    const std::uint8_t number = indices(slab)[i];
    if (number >= objects_ || seen[number]) {
      return "I3: a slab's free numbers are below objects, each there once";
    }
    seen[number] = true;
  }
  return nullptr;
}

template <class Policy>
bool Cache<Policy>::indices_in_place(const Page* slab) const noexcept {
  const void* place = slab->free_list;
  switch (layout_.management) {
    case Management::on_slab:
      return place == pages::address_of(slab) + pages::block_bytes(slab) - objects_;
    case Management::off_slab:
      return place != nullptr && pages::page_of(place)->owner != this;
    case Management::in_object: {
      if (slab->counters == objects_) return place == nullptr;
      const std::size_t last = static_cast<const std::uint8_t*>(place)[objects_ - 1];
      return place == first_object(slab) + last * layout_.geometry.slot_bytes;
    }
  }
  return false;
}

// ---- What the cache says about itself -----------------------------------------------------------

// Objects in arrays count as active, as in the kernel.
template <class Policy>
CacheUsage Cache<Policy>::usage() const noexcept {
  CacheUsage usage{};
  for (int node = 0; node < node_count_; ++node) {
    NodeLists& lists = nodes_[node];
    Guard guard(lists.lock);
    usage.slabs += lists.total_slabs;
    usage.active_slabs += lists.total_slabs - lists.free_slabs;
    usage.total_objects += lists.total_slabs * objects_;
    usage.active_objects +=
        lists.total_slabs * objects_ - lists.free_objects.load(std::memory_order_relaxed);
    usage.shared_available += lists.shared.available.load(std::memory_order_relaxed);
  }
  usage.slab_bytes = usage.slabs * (pages::page_bytes << layout_.geometry.order);
  return usage;
}

template <class Policy>
PathCounts Cache<Policy>::path_counts() const noexcept {
  PathCounts counts{};
  counts.alloc_fast = counters_.sum(Event::alloc_hit);
  counts.alloc_slow = counters_.sum(Event::alloc_miss) + counters_.sum(Event::node_alloc);
  counts.free_fast = counters_.sum(Event::free_hit);
  counts.free_slow = counters_.sum(Event::remote_free);
  counts.remote_frees = counters_.sum(Event::remote_free);
  for (int node = 0; node < node_count_; ++node) {
    counts.alloc_slow += nodes_[node].alloc_misses.get();
    counts.free_slow += nodes_[node].free_misses.get();
    counts.locks += nodes_[node].locks.get();
    counts.slabs_created += nodes_[node].slabs_created.get();
    counts.slabs_freed += nodes_[node].slabs_freed.get();
  }
  return counts;
}

template <class Policy>
Statistics Cache<Policy>::statistics() const noexcept {
  Statistics sums{};
  for (int node = 0; node < node_count_; ++node) {
    const NodeLists& lists = nodes_[node];
    sums.allocmiss += lists.alloc_misses.get();
    sums.freemiss += lists.free_misses.get();
    sums.listallocs += lists.list_allocs.get();
    sums.maxobjs += lists.max_active.get();
    sums.grown += lists.slabs_created.get();
    sums.reaped += lists.reaped.get();
    sums.maxfreeable = std::max(sums.maxfreeable, lists.max_free_slabs.get());
  }
  sums.error = counters_.sum(Event::error);
  sums.nodeallocs = counters_.sum(Event::node_alloc);
  sums.remotefrees = counters_.sum(Event::remote_free);
  sums.alienoverflow = counters_.sum(Event::alien_overflow);
  sums.allochit = counters_.sum(Event::alloc_hit);
  sums.allocmiss += counters_.sum(Event::alloc_miss);
  sums.freehit = counters_.sum(Event::free_hit);
  return sums;
}

// A slab at a time: its objects are noted under the lock and visited without it. Exact without
// traffic; the visitor may free what it is shown.
template <class Policy>
void Cache<Policy>::for_each_live(LiveVisitor visit, void* context) noexcept {
  flush_arrays();
  flush_aliens();
  flush_shared();
  const std::uint64_t round = ++visit_rounds_;
  bool in_use[max_objects];
  for (int node = 0; node < node_count_; ++node) {
    while (Page* slab = next_unvisited(nodes_[node], round, in_use)) {
      for (unsigned i = 0; i < objects_; ++i) {
        if (!in_use[i]) continue;
        char* object = first_object(slab) + i * layout_.geometry.slot_bytes;
        visit(context, object, static_cast<std::size_t>(object - pages::address_of(slab)));
      }
    }
  }
}

// Marks the slab and moves it to its list's end, so that unvisited ones are found in front; a
// marked one there means that there are no more.
template <class Policy>
Page* Cache<Policy>::next_unvisited(NodeLists& lists, std::uint64_t round,
                                    bool (&in_use)[max_objects]) noexcept {
  Guard guard(lists.lock);
  for (List* list : {&lists.full, &lists.partial}) {
    ListNode* link = list->front();
    if (link == nullptr || pages::from_link(link)->word == round) continue;
    Page* slab = pages::from_link(link);
    slab->word = round;
    List::remove(link);
    list->push_back(link);
    std::fill_n(in_use, objects_, true);
    for (std::size_t i = slab->counters; i < objects_; ++i) in_use[indices(slab)[i]] = false;
    return slab;
  }
  return nullptr;
}

}  // namespace kmem::slab
