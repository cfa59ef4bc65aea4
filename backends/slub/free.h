// SLUB's slow path of free: where an object, and then perhaps its slab, goes. Cheapest first: the
// CPU's list, the slab of another CPU, this CPU's partial list, the slab's node, the page
// allocator.
#pragma once

#include "backends/slub/slub.h"
#include "common/debug/report.h"

namespace kmem::slub {

template <class Policy>
KMEM_SLOW void Cache<Policy>::free_slow(void* object, Page* slab) noexcept {
  if (free_chain(slab, {object, object, 1})) count(Event::free_slowpath);
}

// A chain of objects of one slab. True if it went past the CPU's list.
template <class Policy>
bool Cache<Policy>::free_chain(Page* slab, const Chain& chain) noexcept {
  const percpu::Push push = cpus_.template push<cpu_list>(chain.first, chain.last, slab, link_);
  if (push == percpu::Push::done) return note(Event::free_fastpath, chain.count), false;
  if (push == percpu::Push::duplicate) [[unlikely]] {
    report_double_free(slab, chain);
  } else {
    free_to_slab(slab, chain);
  }
  return true;
}

template <class Policy>
void Cache<Policy>::free_to_slab(Page* slab, const Chain& chain) noexcept {
  const int slab_node = slab->node;  // once its last object is given back, the slab may be gone
  for (;;) {  // a failure is another's free(), or the owner's taking of the free list
    const SlabState seen = state_of(slab);
    if (seen.free_list == chain.first || seen.inuse() < chain.count) [[unlikely]] {
      return report_double_free(slab, chain);
    }
    const bool was_full = seen.free_list == nullptr;
    const SlabState desired = seen.with_free(chain.first, chain.count);
    store_link(chain.last, link_, seen.free_list);
    if (!seen.frozen() && !was_full && desired.inuse() == 0) {
      if (free_last(slab, seen, desired)) return;
      continue;
    }
    if (!seen.frozen() && chain.count == seen.objects()) {
      set_state(slab, desired);  // on no list, and all its objects were ours
    } else if (!change_state(slab, seen, desired)) {
      note(Event::cmpxchg_double_fail);
      continue;
    }
    note_remote(slab_node, seen, chain.count);
    if (seen.frozen()) return note(Event::free_frozen);  // its owner will find them
    if (was_full) put_cpu_partial(slab);
    return;
  }
}

// Another CPU's slab, or another node's.
template <class Policy>
void Cache<Policy>::note_remote(int slab_node, SlabState seen, std::size_t n) noexcept {
  if constexpr (Policy::counts_fast_paths) {
    if (seen.frozen() || slab_node != home_node()) note(Event::free_remote, n);
  }
}

// Frees the last objects in use of a slab that is neither frozen nor full. If it is on its node's
// list, it must not be taken off between becoming empty and being discarded: hence under the lock.
template <class Policy>
bool Cache<Policy>::free_last(Page* slab, SlabState seen, SlabState desired) noexcept {
  Node& node = node_of(slab);
  lock(node);
  const bool done = change_state(slab, seen, desired);
  const bool listed = done && SlabWord::marked(slab, SlabWord::on_partial);
  const bool unwanted = listed && may_discard(node, slab);
  if (unwanted) {
    remove_partial(node, slab);
    forget(node, slab);
  }
  node.list_lock.unlock();
  if (unwanted) discard(slab);
  return done;
}

// ---- Slabs in private hands ---------------------------------------------------------------------

// A slab that was full until a moment ago. When the CPU's list is long enough, all of it goes to
// the nodes first, for one taking of a lock a node.
template <class Policy>
void Cache<Policy>::put_cpu_partial(Page* slab) noexcept {
  for (int attempt = 0; attempt < 3; ++attempt) {  // each is refused only by a migration or a drain
    const percpu::Push push = cpus_.template push<cpu_partial>(slab, slab, std::uint64_t{1},
                                                               std::uint64_t{0}, SlabChain::link);
    KMEM_ASSERT(push != percpu::Push::duplicate);
    if (push == percpu::Push::done) return note(Event::cpu_partial_free);
    const percpu::Pair whole = cpus_.template read<cpu_partial>();
    const auto slabs = reinterpret_cast<std::uint64_t>(whole.second);
    if (slabs < geometry_.cpu_partial_slabs) continue;
    if (cpus_.template cas<cpu_partial>(whole, {nullptr, nullptr})) {
      count(Event::cpu_partial_drain);
      put_partials(static_cast<Page*>(whole.first));
    }
  }
  put_node_partial(slab, End::tail);
}

// A chain of private slabs, not frozen: to their nodes' lists, at the tail.
template <class Policy>
void Cache<Policy>::put_partials(Page* first) noexcept {
  SlabChain unwanted;
  while (first != nullptr) {
    Node& node = node_of(first);
    lock(node);
    do {
      Page* const slab = first;
      first = SlabChain::next(slab);
      if (!place(node, slab, End::tail)) unwanted.push_front(slab);
    } while (first != nullptr && &node_of(first) == &node);
    node.list_lock.unlock();
  }
  while (Page* slab = unwanted.pop_front()) discard(slab);
}

template <class Policy>
void Cache<Policy>::put_node_partial(Page* slab, End end) noexcept {
  Node& node = node_of(slab);
  lock(node);
  const bool placed = place(node, slab, end);
  node.list_lock.unlock();
  if (!placed) discard(slab);
}

// Under list_lock: a private slab with free objects, not frozen, goes on the node's list; false: it
// is empty and not wanted, and forgotten. Nobody can empty it while we hold the lock (free_last()).
template <class Policy>
bool Cache<Policy>::place(Node& node, Page* slab, End end) noexcept {
  const SlabState state = state_of(slab);
  KMEM_ASSERT(!state.frozen() && state.free_list != nullptr);
  if (state.inuse() == 0 && may_discard(node, slab)) {
    forget(node, slab);
    return false;
  }
  add_partial(node, slab, end);
  return true;
}

// Gives up a private CPU slab with what is left of its list: unfrozen, then to where its objects
// say. The head of the node's list, unless others freed into it: then it may soon be emptier.
template <class Policy>
void Cache<Policy>::deactivate(Page* slab, void* list) noexcept {
  const Chain unused = walk_free_list(slab, list);
  SlabState seen, desired;
  do {
    seen = state_of(slab);
    KMEM_ASSERT(seen.frozen());
    desired = seen.unfrozen();
    if (!unused.empty()) {
      store_link(unused.last, link_, seen.free_list);
      desired = desired.with_free(unused.first, unused.count);
    }
  } while (!change_state(slab, seen, desired));
  if (desired.free_list == nullptr) return count(Event::deactivate_full);
  const bool remote_frees = seen.free_list != nullptr;
  if (remote_frees) count(Event::deactivate_remote_frees);
  count(desired.inuse() == 0 ? Event::deactivate_empty
        : remote_frees       ? Event::deactivate_to_tail
                             : Event::deactivate_to_head);
  put_node_partial(slab, remote_frees ? End::tail : End::head);
}

// What a CPU's list holds. A link that left the slab was overwritten: the list ends before it, and
// the objects behind stay in use for ever.
template <class Policy>
Chain Cache<Policy>::walk_free_list(Page* slab, void* list) noexcept {
  Chain chain;
  const unsigned objects = state_of(slab).objects();
  for (void* object = list; object != nullptr; object = load_link(object, link_)) {
    if (!is_object(slab, object) || chain.count == objects) [[unlikely]] {
      debug::report(debug::Fault::corrupt_link, cache_name_, object,
                    "the free list of a CPU left its slab", "Freelist cleared");
      break;
    }
    if (chain.empty()) chain.first = object;
    chain.last = object;
    ++chain.count;
  }
  return chain;
}

// ---- Node lists, under list_lock ----------------------------------------------------------------

template <class Policy>
void Cache<Policy>::add_partial(Node& node, Page* slab, End end) noexcept {
  KMEM_ASSERT(!SlabWord::marked(slab, SlabWord::on_partial));
  SlabWord::set_mark(slab, SlabWord::on_partial);
  if (end == End::head) {
    node.partial.push_front(&slab->link);
  } else {
    node.partial.push_back(&slab->link);
  }
  node.nr_partial.store(node.nr_partial.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  note(Event::free_add_partial);
}

template <class Policy>
void Cache<Policy>::remove_partial(Node& node, Page* slab) noexcept {
  KMEM_ASSERT(SlabWord::marked(slab, SlabWord::on_partial));
  SlabWord::clear_mark(slab, SlabWord::on_partial);
  List::remove(&slab->link);
  node.nr_partial.store(node.nr_partial.load(std::memory_order_relaxed) - 1,
                        std::memory_order_relaxed);
  note(Event::free_remove_partial);
}

template <class Policy>
bool Cache<Policy>::may_discard(const Node& node, const Page* slab) const noexcept {
  return node.nr_partial.load(std::memory_order_relaxed) >= geometry_.min_partial &&
         !keeps_empty_slabs_ && !SlabWord::marked(slab, SlabWord::pinned);
}

// The node does not count the slab any more; discard() or abandonment follows.
template <class Policy>
void Cache<Policy>::forget(Node& node, Page* slab) noexcept {
  KMEM_ASSERT(!SlabWord::marked(slab, SlabWord::on_partial));
  node.all.remove(slab);
  KMEM_ASSERT(node.nr_slabs > 0);
  --node.nr_slabs;
  node.total_objects -= state_of(slab).objects();
  node.slab_bytes -= pages::block_bytes(slab);
}

// Without a lock: a forgotten slab with no object in use.
template <class Policy>
void Cache<Policy>::discard(Page* slab) noexcept {
  KMEM_ASSERT_EQ(state_of(slab).inuse(), 0u);
  count(Event::free_slab);
  pages::free(slab);
}

// An object freed twice in a row. Objects behind the first of a chain, which were good, are lost
// with it: to take the chain apart would be to trust it.
template <class Policy>
void Cache<Policy>::report_double_free(Page* slab, const Chain& chain) noexcept {
  char* const base = pages::address_of(slab);
  KMEM_ASSERT(static_cast<char*>(chain.first) >= base);
  static_cast<void>(base);
  debug::report(debug::Fault::double_free, cache_name_, chain.first,
                "it is the head of a free list, or its slab has no object in use",
                "Object not freed");
}

}  // namespace kmem::slub
