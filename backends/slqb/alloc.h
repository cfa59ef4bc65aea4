// SLQB's sources of objects, cheapest first: the CPU's LIFO, what others freed to its owner list,
// its partial slabs, a new slab.
#pragma once

#include <algorithm>

#include "backends/slqb/slqb.h"
#include "common/nodes/topology.h"

namespace kmem::slqb {

template <class Policy>
void* Cache<Policy>::alloc_slow(gfp_t gfp) noexcept {
  void* object;
  if (take_any(own_list(), gfp, &object, 1) == 0) return nullptr;
  note(Event::alloc);
  return object;
}

// Up to want objects from the first source that has any, and one at least unless there is no
// memory. The order is the whole policy. own is the list of the CPU that we were on; whether we
// still are does not matter.
template <class Policy>
std::size_t Cache<Policy>::take_any(CacheList& own, gfp_t gfp, void** out,
                                    std::size_t want) noexcept {
  const std::size_t most = std::min(want, cut_most);
  if (std::size_t n = cpus_.template take<lifo_field>(out, most, link_offset_)) return n;
  // Relaxed: the flag only says that it is worth taking the lock, which orders the objects.
  if (own.remote_free_check.load(std::memory_order_relaxed) != 0) {
    if (std::size_t n = claim(own, gfp, out, want)) return n;
  }
  if (std::size_t n = take_from_fallback_node(own, gfp, out, want)) return n;
  if (std::size_t n = take_from_partial(own, gfp, out, want)) return n;
  if (std::size_t n = take_from_new_slab(own, gfp, own.node, out, want)) return n;
  return claim(own, gfp, out, want);  // no memory: what waits below a batch will do
}

// ---- What others freed --------------------------------------------------------------------------

// The whole of own's remote_free: some to out, the rest to the LIFO.
template <class Policy>
std::size_t Cache<Policy>::claim(CacheList& own, gfp_t gfp, void** out, std::size_t want) noexcept {
  Chain chain = take_remote_free(own, gfp);
  const std::size_t taken = chain.take(out, want, link_offset_);
  if (taken != 0) count(Event::alloc_claimed, taken);
  install(own, chain);
  return taken;
}

template <class Policy>
Chain Cache<Policy>::take_remote_free(CacheList& list, gfp_t gfp) noexcept {
  RemoteFree& remote = list.remote_free;
  Chain chain;
  count(Event::locks);
  {
    GuardFor guard(remote.lock, gfp);
    if (!guard) return {};
    list.remote_free_check.store(0, std::memory_order_relaxed);  // read as a hint only
    chain = Chain{remote.first, remote.last, remote.count.get()};
    remote.first = remote.last = nullptr;
    remote.count.set(0);
  }
  if (chain.empty()) return chain;
  count(Event::claim_remote_list);
  count(Event::claim_remote_list_objects, chain.count);
  return chain;
}

// ---- Slabs that there are -----------------------------------------------------------------------

// A CPU whose node has no memory gets slabs of another node, which that node's list owns: their
// objects come before another slab, of which only one object would be used.
template <class Policy>
std::size_t Cache<Policy>::take_from_fallback_node(CacheList& own, gfp_t gfp, void** out,
                                                   std::size_t want) noexcept {
  const int node = own.fallback_node.load(std::memory_order_relaxed);  // a hint
  if (node < 0 || (gfp & gfp::thisnode) != 0) return 0;
  return take_from_node(node_list(node), gfp, out, want);
}

template <class Policy>
std::size_t Cache<Policy>::take_from_node(NodeList& list, gfp_t gfp, void** out,
                                          std::size_t want) noexcept {
  {
    GuardFor guard(list.list_lock, gfp);
    if (!guard) return 0;
    count(Event::locks);
    if (list.free_list.empty() && list.remote_free_check.load(std::memory_order_relaxed) != 0)
      list.free_list = take_remote_free(list, gfp);
    if (list.free_list.count > hiwater()) free_to_slabs(list, cut_batch(list.free_list));
    if (std::size_t n = list.free_list.take(out, want, link_offset_)) {
      count(Event::alloc_claimed, n);
      return n;
    }
  }
  return take_from_partial(list, gfp, out, want);
}

// One object for a single call, as many as wanted for a bulk call, under one hold of the lock.
template <class Policy>
std::size_t Cache<Policy>::take_from_partial(CacheList& list, gfp_t gfp, void** out,
                                             std::size_t want) noexcept {
  if (list.nr_partial.get() == 0) return 0;  // racy: saves the lock
  PageLock lock(list, gfp);
  if (!lock) return 0;
  std::size_t taken = 0;
  while (taken < want && !list.partial.empty()) {
    Page* const slab = pages::from_link(list.partial.front());
    taken += take_from_slab(list, slab, out + taken, want - taken);
  }
  list.alloc_slab_fill.add(taken);
  list.objects_out.add(taken);
  return taken;
}

// Under page_lock. The slab leaves the partial list with its last object.
template <class Policy>
std::size_t Cache<Policy>::take_from_slab(CacheList& list, Page* slab, void** out,
                                          std::size_t want) noexcept {
  KMEM_ASSERT(&owner_of(slab) == &list);
  KMEM_ASSERT(slab->counters < objects_);
  const std::size_t n = std::min<std::size_t>(want, objects_ - slab->counters);
  void* object = slab->free_list;
  for (std::size_t i = 0; i < n; ++i) {
    KMEM_ASSERT(object != nullptr);
    out[i] = object;
    object = load_link(object, link_offset_);
  }
  slab->free_list = object;
  slab->counters += n;
  if (slab->counters == objects_) {
    List::remove(&slab->link);
    list.nr_partial.subtract();
  }
  return n;
}

// ---- New slabs ----------------------------------------------------------------------------------

// own.node is the list's CPU's; node is where the slab is wanted.
template <class Policy>
std::size_t Cache<Policy>::take_from_new_slab(CacheList& own, gfp_t gfp, int node, void** out,
                                              std::size_t want) noexcept {
  const std::uint32_t colour = own.colour_next.fetch_add(1, std::memory_order_relaxed);
  Page* const slab = new_slab(gfp, node, colour);
  if (slab == nullptr) return 0;
  const bool is_local = slab->node == own.node;
  if (node == own.node)
    own.fallback_node.store(is_local ? -1 : slab->node, std::memory_order_relaxed);
  CacheList& owner = is_local ? own : node_list(slab->node);
  slab->word = reinterpret_cast<std::uintptr_t>(&owner);
  const std::size_t taken = carve(slab, out, want);
  if (!add_slab(owner, slab, gfp)) {
    pages::free(slab);
    return 0;
  }
  if ((gfp & gfp::direct_reclaim) != 0) trim_if_due(own);
  return taken;
}

// Pages with their colour and constructed objects; nobody else's yet, and no lock is held.
template <class Policy>
Page* Cache<Policy>::new_slab(gfp_t gfp, int node, std::uint32_t colour) noexcept {
  Page* const slab = pages::alloc(geometry_.order, node, gfp & ~gfp::zero, pages::PageKind::slab);
  if (slab == nullptr) return nullptr;
  slab->link = {};
  slab->first_object =
      static_cast<std::uint32_t>(colour % geometry_.colours * geometry_.colour_bytes);
  if (spec_.ctor != nullptr) {
    char* object = first_object(slab);
    for (unsigned i = 0; i < objects_; ++i, object += geometry_.slot_bytes) spec_.ctor(object);
  }
  pages::set_owner(slab, this, tag);
  return slab;
}

// The first objects go to out, by arithmetic; the rest become the slab's free list.
template <class Policy>
std::size_t Cache<Policy>::carve(Page* slab, void** out, std::size_t want) noexcept {
  const std::size_t slot = geometry_.slot_bytes;
  const std::size_t taken = std::min<std::size_t>(want, objects_);
  char* object = first_object(slab);
  for (std::size_t i = 0; i < taken; ++i, object += slot) out[i] = object;
  slab->counters = taken;
  slab->free_list = taken == objects_ ? nullptr : object;
  for (std::size_t i = taken; i < objects_; ++i, object += slot)
    store_link(object, link_offset_, i + 1 == objects_ ? nullptr : object + slot);
  return taken;
}

template <class Policy>
bool Cache<Policy>::add_slab(CacheList& owner, Page* slab, gfp_t gfp) noexcept {
  PageLock lock(owner, gfp);
  if (!lock) return false;
  owner.nr_slabs.add();
  owner.alloc_slab_new.add();
  owner.objects_out.add(slab->counters);
  if (slab->counters == objects_) return true;
  owner.partial.push_front(&slab->link);
  owner.nr_partial.add();
  return true;
}

// ---- A node that the caller names ---------------------------------------------------------------

template <class Policy>
void* Cache<Policy>::alloc_node(gfp_t gfp, int node) noexcept {
  if (node < 0 || node >= nodes::count() || node_count_ == 1) return alloc(gfp);
  if (node != cpus_.node()) return alloc_from_node(gfp, node);
  void* const object = alloc(gfp);
  // We may have been moved to another node's CPU before alloc() took the object.
  if (object == nullptr || (gfp & gfp::thisnode) == 0 || slab_of(object)->node == node)
    return object;
  free(object, pages::page_of(object));
  return alloc_from_node(gfp, node);
}

// The same sources on the node's list, then a new slab there, then any other node unless the caller
// insists.
template <class Policy>
void* Cache<Policy>::alloc_from_node(gfp_t gfp, int node) noexcept {
  void* object;
  if (take_from_node(node_list(node), gfp, &object, 1) != 0 ||
      take_from_new_slab(own_list(), gfp | gfp::thisnode, node, &object, 1) != 0) {
    note(Event::alloc);
    return object;
  }
  return (gfp & gfp::thisnode) != 0 ? nullptr : alloc(gfp);
}

}  // namespace kmem::slqb
