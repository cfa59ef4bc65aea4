// SLQB's invariants, checked one by one, and the walk over live objects. Exact without traffic.
#pragma once

#include "backends/slqb/drain.h"
#include "backends/slqb/slqb.h"

namespace kmem::slqb {

// What a check has counted so far, to compare with what the lists say.
template <class Policy>
struct Cache<Policy>::Census {
  Cache* cache;
  std::size_t slabs = 0;          // found in the page array
  std::size_t partial_slabs = 0;  // of those, with a free object
  std::size_t inuse = 0;
  std::size_t queued = 0;
  const char* broken = nullptr;
};

template <class Policy>
const char* Cache<Policy>::validate() noexcept {
  Census census{this};
  std::size_t slabs = 0, partial = 0;
  const char* broken = nullptr;
  const auto check = [&](const char* result) {
    if (broken == nullptr) broken = result;
  };
  cpus_.drain([&](CpuState& state, unsigned) { check(validate_cpu(state, census)); });
  for_each_list([&](CacheList& list) {
    check(validate_list(list, census));
    slabs += list.nr_slabs.get();
    partial += list.nr_partial.get();
  });
  for (int node = 0; node < node_count_; ++node) {
    NodeList& list = node_lists_[node];
    Guard guard(list.list_lock);
    check(validate_queue(list.free_list, &list, node, "I8: the free list of a node", census));
  }
  check(validate_slabs(census));
  if (broken != nullptr) return broken;
  if (census.slabs != slabs) return "I4: nr_slabs counts an owner's slabs";
  if (census.partial_slabs != partial) return "I3: slabs with free objects are on partial lists";
  if (census.queued > census.inuse) return "I10: no more objects are in queues than are in use";
  return nullptr;
}

template <class Policy>
const char* Cache<Policy>::validate_list(CacheList& list, Census& census) noexcept {
  {
    PageLock lock(list);
    std::size_t partial = 0;
    for (ListNode* node = list.partial.front(); node != nullptr; node = list.partial.after(node)) {
      if (&owner_of(pages::from_link(node)) != &list) return "I3: a slab is on its owner's list";
      if (++partial > list.nr_slabs.get()) return "I3: a partial list has no cycle";
    }
    if (partial != list.nr_partial.get()) return "I3: nr_partial counts the partial list";
  }
  RemoteFree& remote = list.remote_free;
  Guard guard(remote.lock);
  const std::size_t waiting = remote.count.get();
  if (waiting >= freebatch() && list.remote_free_check.load(std::memory_order_relaxed) == 0)
    return "I9: the check flag is up if a batch waits";
  return validate_queue({remote.first, remote.last, waiting}, &list, list.node,
                        "I8: remote_free is as long as its count", census);
}

// chain.last may be null: it is not known. owner may be null: objects of any owner.
template <class Policy>
const char* Cache<Policy>::validate_queue(const Chain& chain, const CacheList* owner, int node,
                                          const char* broken, Census& census) const noexcept {
  const void* object = chain.first;
  for (std::size_t i = 0; i < chain.count; ++i) {
    if (object == nullptr) return broken;
    const Page* const page = pages::page_of(object);
    if (!owns(page, object) || page->node != node) return broken;
    if (owner != nullptr && &owner_of(page->head) != owner) return broken;
    const bool at_end = i + 1 == chain.count;
    if (at_end && chain.last != nullptr && chain.last != object) return broken;
    object = load_link(object, link_offset_);
  }
  census.queued += chain.count;
  // A node's free list may have been cut off a longer chain: then its last link is nobody's
  // business.
  if (chain.last != nullptr) return nullptr;
  return object == nullptr ? nullptr : broken;
}

template <class Policy>
const char* Cache<Policy>::validate_cpu(const CpuState& state, Census& census) const noexcept {
  const percpu::CountedList& lifo = state.lifo;
  const std::size_t length = lifo.list.count();
  if (length > lifo.limit || lifo.limit != hiwater()) return "I6: a LIFO is within hiwater";
  const char* broken =
      validate_queue({lifo.list.head(), nullptr, length}, nullptr, static_cast<int>(lifo.node),
                     "I6: a LIFO is as long as its count", census);
  if (broken != nullptr) return broken;
  const Waiting waiting({state.rlist.head, state.rlist.owner});
  if (waiting.count == 0) return waiting.first == nullptr ? nullptr : "I7: an empty rlist";
  if (waiting.count > 0xffff || waiting.owner == nullptr) return "I7: an rlist names its owner";
  return validate_queue({waiting.first, nullptr, waiting.count}, waiting.owner, waiting.owner->node,
                        "I7: an rlist is as long as its count", census);
}

template <class Policy>
const char* Cache<Policy>::validate_slabs(Census& census) noexcept {
  pages::for_each_slab(
      this,
      [](void* context, Page* slab) {
        Census& census = *static_cast<Census*>(context);
        const char* broken = census.cache->validate_slab(slab, census);
        if (census.broken == nullptr) census.broken = broken;
      },
      &census);
  return census.broken;
}

template <class Policy>
const char* Cache<Policy>::validate_slab(Page* slab, Census& census) noexcept {
  CacheList* owner = nullptr;  // slab->word, if it is one of our lists
  for_each_list([&](CacheList& list) {
    if (&list == &owner_of(slab)) owner = &list;
  });
  if (owner == nullptr || owner->node != slab->node)
    return "I1: a slab's owner is a list of this cache and the slab's node";
  PageLock lock(*owner);
  for (std::size_t i = 0; i < std::size_t{1} << geometry_.order; ++i) {
    if (slab[i].owner != this || slab[i].head != slab) return "I1: every page names its cache";
  }
  if (slab->first_object % geometry_.colour_bytes != 0 ||
      slab->first_object / geometry_.colour_bytes >= geometry_.colours)
    return "I1: the first object is at a colour's offset";
  if (slab->counters > objects_) return "I2: inuse <= objects";
  const std::size_t free_objects = objects_ - slab->counters;
  const void* object = slab->free_list;
  for (std::size_t i = 0; i < free_objects; ++i, object = load_link(object, link_offset_)) {
    if (object == nullptr) return "I2: a free list has objects - inuse objects";
    if (!owns(pages::page_of(object), object) || slab_of(object) != slab)
      return "I2: a slab's free objects are its own";
  }
  if (object != nullptr) return "I2: a free list has objects - inuse objects";
  if (slab->link.linked() != (free_objects != 0))
    return "I3: a slab is on the partial list just when it has a free object";
  if (slab->counters == 0 && !keeps_empty_slabs_) return "I5: no slab is empty";
  ++census.slabs;
  census.partial_slabs += free_objects != 0;
  census.inuse += slab->counters;
  return nullptr;
}

// ---- Live objects -------------------------------------------------------------------------------

// Empties the queues first: after that, without traffic, what is not on its slab's free list is
// live.
template <class Policy>
void Cache<Policy>::for_each_live(LiveVisitor visit, void* context) noexcept {
  flush_all();
  struct Walk {
    Cache* cache;
    LiveVisitor visit;
    void* context;
  } walk{this, visit, context};
  pages::for_each_slab(
      this,
      [](void* walk_context, Page* slab) {
        const Walk& w = *static_cast<Walk*>(walk_context);
        w.cache->visit_live(slab, w.visit, w.context);
      },
      &walk);
}

template <class Policy>
void Cache<Policy>::visit_live(Page* slab, LiveVisitor visit, void* context) noexcept {
  std::uint64_t is_free[max_objects / 64] = {};
  char* const first = first_object(slab);
  {
    PageLock lock(owner_of(slab));
    std::size_t free_objects = objects_ - slab->counters;
    for (void* object = slab->free_list; free_objects != 0; --free_objects) {
      const std::uint64_t i =
          divider_.number(static_cast<std::size_t>(static_cast<char*>(object) - first));
      if (i >= objects_) break;  // a link was overwritten
      is_free[i / 64] |= std::uint64_t{1} << (i % 64);
      object = load_link(object, link_offset_);
    }
  }
  const std::size_t colour = slab->first_object;  // visit() may free the slab's last object
  for (std::size_t i = 0; i < objects_; ++i) {
    if ((is_free[i / 64] >> (i % 64) & 1) != 0) continue;
    const std::size_t offset = i * geometry_.slot_bytes;
    visit(context, first + offset, colour + offset);
  }
}

}  // namespace kmem::slqb
