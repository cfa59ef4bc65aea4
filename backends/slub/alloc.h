// SLUB's slow path of allocation: a list of sources, cheapest first. A source either gives an
// object and makes its slab the CPU's, or leaves nothing behind.
#pragma once

#include <algorithm>

#include "backends/slub/slub.h"
#include "common/nodes/topology.h"

namespace kmem::slub {

// The wish for a node holds for the CPU slab too: one of another node is given up.
template <class Policy>
void* Cache<Policy>::alloc_node(gfp_t gfp, int node) noexcept {
  if (node < 0 || node >= node_count_ || node_count_ == 1) {
    if (node >= node_count_ && (gfp & gfp::thisnode) != 0) return nullptr;
    return alloc(gfp);
  }
  if (void* object = cpus_.template pop<cpu_list>(link_)) {
    Page* const page = pages::page_of(object);
    if (page->node == node) return note(Event::alloc_fastpath), object;
    free(object, page);
  }
  return alloc_slow(gfp, node);
}

template <class Policy>
KMEM_SLOW void* Cache<Policy>::alloc_slow(gfp_t gfp, int node) noexcept {
  if (node == no_node) {  // the fast path may have missed because of a migration, or of a fallback
    if (void* object = cpus_.template pop<cpu_list>(link_)) {
      note(Event::alloc_fastpath);
      return object;
    }
  }
  count(Event::alloc_slowpath);
  if (void* object = from_cpu_slab(node)) return object;
  if (void* object = from_cpu_partial(node)) return object;
  if (node != no_node && (gfp & gfp::thisnode) == 0) {  // a node wished for: there, without effort
    const gfp_t there = gfp::nowait | gfp::thisnode;
    if (void* object = from_node_partial(there, node)) return object;
    if (void* object = from_new_slab(there, node)) return object;
  }
  if (void* object = from_node_partial(gfp, node)) return object;
  return from_new_slab(gfp, node);
}

// Objects of the CPU slab that were freed by others since its list was taken. Takes the slab into
// private hands first: only the whole pair can be compared without fear of ABA.
template <class Policy>
void* Cache<Policy>::from_cpu_slab(int node) noexcept {
  const percpu::Pair seen = cpus_.template read<cpu_list>();
  auto* const slab = static_cast<Page*>(seen.second);
  if (slab == nullptr || !cpus_.template cas<cpu_list>(seen, {nullptr, nullptr})) return nullptr;
  if (!node_matches(slab, node)) {
    count(Event::alloc_node_mismatch);
    deactivate(slab, seen.first);
    return nullptr;
  }
  void* const list = seen.first != nullptr ? seen.first : take_free_list(slab);
  if (list == nullptr) return note(Event::deactivate_bypass), nullptr;  // full now, on no list
  note(Event::alloc_refill);
  return activate(slab, list);
}

template <class Policy>
void* Cache<Policy>::from_cpu_partial(int node) noexcept {
  // Ends: each turn takes a slab off this CPU's list, and those of other nodes do not come back.
  while (Page* slab = pop_cpu_partial()) {
    if (node_matches(slab, node)) {
      note(Event::cpu_partial_alloc);
      return activate(slab, take_free_list(slab));
    }
    put_node_partial(slab, End::tail);
  }
  return nullptr;
}

template <class Policy>
void* Cache<Policy>::from_node_partial(gfp_t gfp, int node) noexcept {
  Grab grab = grab_partials(gfp, node, 1);
  keep_for_cpu(grab.extra);
  if (grab.use.first == nullptr) return nullptr;
  KMEM_ASSERT_EQ(grab.use.count, 1u);
  return activate(grab.use.first, take_free_list(grab.use.first));
}

template <class Policy>
void* Cache<Policy>::from_new_slab(gfp_t gfp, int node) noexcept {
  Page* const slab = new_slab(gfp, node);
  if (slab == nullptr) return nullptr;
  return activate(slab, link_objects(slab, 0));
}

// slab is private and frozen, list all its free objects: the first is handed out, the others become
// this CPU's list.
template <class Policy>
void* Cache<Policy>::activate(Page* slab, void* list) noexcept {
  KMEM_ASSERT(list != nullptr);
  KMEM_ASSERT(state_of(slab).frozen());
  void* const rest = load_link(list, link_);
  KMEM_ASSERT(rest == nullptr || is_object(slab, rest));
  install(slab, rest);
  return list;
}

template <class Policy>
void Cache<Policy>::install(Page* slab, void* list) noexcept {
  if (cpus_.template cas<cpu_list>({nullptr, nullptr}, {list, slab})) return;
  note(Event::cmpxchg_double_cpu_fail);  // this CPU, or the one we were moved to, has a slab
  deactivate(slab, list);
}

template <class Policy>
Page* Cache<Policy>::pop_cpu_partial() noexcept {
  return static_cast<Page*>(cpus_.template pop<cpu_partial>(SlabChain::link));
}

// Takes the free list of a private slab and freezes it. An empty list leaves the slab full, on no
// list: not ours any more.
template <class Policy>
void* Cache<Policy>::take_free_list(Page* slab) noexcept {
  for (;;) {  // a failure is another's free()
    const SlabState seen = state_of(slab);
    const SlabState desired = seen.emptied(seen.free_list != nullptr);
    if (seen.inuse() == 0) {
      set_state(slab, desired);
      return seen.free_list;
    }
    if (change_state(slab, seen, desired)) return seen.free_list;
    note(Event::cmpxchg_double_fail);
  }
}

// ---- Node partial lists -------------------------------------------------------------------------

// Slabs with that many free objects, and a few more for the CPU: of the node wished for or of this
// CPU's, else of the others, nearest first, if they have more than they need themselves.
template <class Policy>
auto Cache<Policy>::grab_partials(gfp_t gfp, int node, std::size_t objects) noexcept -> Grab {
  const int home = node == no_node ? home_node() : node;
  Grab grab = grab_from(node_at(home), gfp, objects);
  if (grab.use.first != nullptr || node_count_ == 1) return grab;
  if (((gfp & gfp::thisnode) != 0 && node != no_node) || !may_defragment()) return grab;
  for (int rank = 1; rank < node_count_; ++rank) {
    Node& other = node_at(nodes::nearest(home, rank));
    if (other.nr_partial.load(std::memory_order_relaxed) <= geometry_.min_partial) continue;
    grab = grab_from(other, gfp, objects);
    if (grab.use.first != nullptr) break;
  }
  return grab;
}

// Now and then a CPU leaves the others' slabs alone, and opens a new one at home.
template <class Policy>
bool Cache<Policy>::may_defragment() noexcept {
  const unsigned ratio = defrag_ratio_.load(std::memory_order_relaxed);
  if (ratio == 0) return false;
  // Linux looks at the cycle counter; a hashed turn is as even, and the same in every run.
  const std::uint32_t turn = defrag_turn_.fetch_add(1, std::memory_order_relaxed);
  return (turn * 2654435761u) >> 22 <= ratio;
}

template <class Policy>
auto Cache<Policy>::grab_from(Node& node, gfp_t gfp, std::size_t objects) noexcept -> Grab {
  Grab grab;
  if (node.nr_partial.load(std::memory_order_relaxed) == 0 || !lock_for(node, gfp)) return grab;
  const unsigned extra_max = geometry_.cpu_partial_slabs / 2 + 1;
  std::size_t got = 0;
  while (ListNode* link = node.partial.front()) {
    const bool enough = got >= objects;
    if (grab.use.count == slabs_per_hold || (enough && grab.extra.count == extra_max)) break;
    Page* const slab = pages::from_link(link);
    remove_partial(node, slab);
    got += state_of(slab).free_objects();
    (enough ? grab.extra : grab.use).push_back(slab);
  }
  node.list_lock.unlock();
  note(Event::alloc_from_partial, grab.use.count);
  note(Event::cpu_partial_node, grab.extra.count);
  return grab;
}

template <class Policy>
bool Cache<Policy>::lock_for(Node& node, gfp_t gfp) noexcept {
  if (!kmem::lock_for(node.list_lock, gfp)) return false;
  count(Event::list_lock);
  return true;
}

template <class Policy>
void Cache<Policy>::keep_for_cpu(SlabChain& chain) noexcept {
  if (chain.first == nullptr) return;
  const percpu::Push push = cpus_.template push<cpu_partial>(chain.first, chain.last, chain.count,
                                                             std::uint64_t{0}, SlabChain::link);
  KMEM_ASSERT(push != percpu::Push::duplicate);
  if (push == percpu::Push::done) return;
  SlabChain::set_next(chain.last, nullptr);  // a push that started over may have linked it
  put_partials(chain.first);
}

// ---- New slabs ----------------------------------------------------------------------------------

// A private slab, frozen, all objects constructed, none of them linked; all count as in use.
template <class Policy>
Page* Cache<Policy>::new_slab(gfp_t gfp, int node) noexcept {
  const gfp_t pages_gfp = gfp & ~gfp::zero;
  const int wish = node == no_node ? home_node() : node;
  const bool can_fall_back = geometry_.order > geometry_.order_min;
  const gfp_t first_try = (pages_gfp | gfp::noretry | gfp::nowarn) & ~gfp::nofail;
  Page* slab = pages::alloc(geometry_.order, wish, can_fall_back ? first_try : pages_gfp,
                            pages::PageKind::slab);
  if (slab == nullptr && can_fall_back) {
    slab = pages::alloc(geometry_.order_min, wish, pages_gfp, pages::PageKind::slab);
    if (slab != nullptr) count(Event::order_fallback);
  }
  if (slab == nullptr) return nullptr;

  const auto objects = static_cast<unsigned>(
      std::min<std::size_t>(pages::block_bytes(slab) / slot_bytes_, max_objects));
  KMEM_ASSERT(objects > 0);
  set_state(slab, SlabState{nullptr, std::uint64_t{objects} << 16}.emptied(true));
  slab->word = 0;
  slab->first_object = 0;
  slab->link = {};
  pages::set_owner(slab, this, tag);
  if (ctor_ != nullptr) {
    for (unsigned i = 0; i < objects; ++i) ctor_(object_at(slab, i));
  }
  Node& home = node_of(slab);
  if (!lock_for(home, gfp)) {
    pages::free(slab);
    return nullptr;
  }
  home.all.add(slab);
  ++home.nr_slabs;
  home.total_objects += objects;
  home.slab_bytes += pages::block_bytes(slab);
  home.list_lock.unlock();
  count(Event::alloc_slab);
  return slab;
}

// Links the objects from number first on, in order of address.
template <class Policy>
void* Cache<Policy>::link_objects(Page* slab, unsigned first) noexcept {
  const unsigned objects = state_of(slab).objects();
  if (first == objects) return nullptr;
  char* object = static_cast<char*>(object_at(slab, first));
  for (unsigned i = first + 1; i < objects; ++i) {
    store_link(object, link_, object + slot_bytes_);
    object += slot_bytes_;
  }
  store_link(object, link_, nullptr);
  return object_at(slab, first);
}

}  // namespace kmem::slub
