// SLQB's destinations of objects, cheapest first: the CPU's LIFO, the slabs of its owner list, the
// remote list on the way to another owner, that owner's remote_free, that owner's slabs.
#pragma once

#include <algorithm>

#include "backends/slqb/slqb.h"
#include "common/debug/report.h"

namespace kmem::slqb {

// Objects of up to flush_chunk slabs, grouped by owner, so that rlist changes owners once a group.
class OwnerChains {
 public:
  explicit OwnerChains(std::size_t link) noexcept : link_(link) {}
  // At most flush_chunk calls.
  void add(CacheList& owner, const Chain& run) noexcept {
    std::size_t i = groups_;
    while (i != 0 && owners_[i - 1] != &owner) --i;  // the newest group first: runs repeat
    if (i == 0) {
      KMEM_ASSERT(groups_ < flush_chunk);
      i = ++groups_;
      owners_[i - 1] = &owner;
      chains_[i - 1] = Chain{};
    }
    chains_[i - 1].append(run, link_);
  }
  std::size_t groups() const noexcept { return groups_; }
  CacheList& owner(std::size_t i) const noexcept { return *owners_[i]; }
  const Chain& chain(std::size_t i) const noexcept { return chains_[i]; }

 private:
  const std::size_t link_;
  std::size_t groups_ = 0;
  CacheList* owners_[flush_chunk];
  Chain chains_[flush_chunk];
};

template <class Policy>
void Cache<Policy>::free_slow(void* object, Page* page, percpu::Push refusal) noexcept {
  if (refusal == percpu::Push::duplicate) return report_double_free(object);
  note(Event::free);
  Chain chain{object, object, 1};
  if (page->node != cpus_.node()) {
    count(Event::free_remote);
    return free_to_remote(owner_of(page->head), chain);
  }
  if (splice(chain, page->node)) return;  // where the fast form only refuses
  count(Event::free_slow);
  CacheList& own = own_list();
  shed(own, object, freebatch());
  trim_if_due(own);
}

// ---- The LIFO -----------------------------------------------------------------------------------

// Puts the chain at the LIFO's head. An object that is the head already has been freed twice: it is
// reported and leaves the chain. False: refused, the chain is still the caller's.
template <class Policy>
bool Cache<Policy>::splice(Chain& chain, unsigned node) noexcept {
  while (!chain.empty()) {
    const percpu::Push push = cpus_.template push<lifo_field>(
        chain.first, chain.last, std::uint64_t{chain.count}, std::uint64_t{node}, link_offset_);
    if (push == percpu::Push::done) return true;
    if (push == percpu::Push::refused) return false;
    report_double_free(chain.pop(link_offset_));
  }
  return true;
}

// Objects of own's slabs go on the LIFO, as far as hiwater allows.
template <class Policy>
void Cache<Policy>::install(CacheList& own, Chain chain) noexcept {
  while (chain.count > hiwater()) {
    const Chain batch = cut_batch(chain);
    count(Event::flush_free_list);
    count(Event::flush_free_list_objects, batch.count);
    free_to_slabs(own, batch);
  }
  // Refused: a drain, another node's CPU, or a LIFO that has filled meanwhile.
  if (!splice(chain, static_cast<unsigned>(own.node))) free_to_slabs(own, chain);
}

// Flushes n objects from the LIFO's head, the first of which is object where that is not null: it
// would have been the head, had there been room.
template <class Policy>
void Cache<Policy>::shed(CacheList& own, void* object, std::size_t n) noexcept {
  count(Event::flush_free_list);
  void* chunk[flush_chunk];
  while (n != 0) {
    const std::size_t most = std::min(n, flush_chunk);
    const std::size_t given = object != nullptr ? 1 : 0;
    chunk[0] = object;
    object = nullptr;
    const std::size_t got =
        given + cpus_.template take<lifo_field>(chunk + given, most - given, link_offset_);
    if (got == 0) return;
    flush(own, chunk, got);
    n -= got;
    if (got != most) return;  // the LIFO is empty, or cannot be reached
  }
}

// Sorts up to flush_chunk objects: into own's slabs under one hold of its lock, the rest by owner
// towards their homes.
template <class Policy>
void Cache<Policy>::flush(CacheList& own, void** objects, std::size_t n) noexcept {
  KMEM_ASSERT(n <= flush_chunk);
  count(Event::flush_free_list_objects, n);
  OwnerChains strangers(link_offset_);
  std::size_t own_objects = 0;
  {
    EmptySlabs empty;
    PageLock lock(own);
    for (std::size_t i = 0; i < n;) {
      Page* slab;
      const Chain run = run_of_slab(objects + i, n - i, slab);
      i += run.count;
      if (&owner_of(slab) != &own) {
        strangers.add(owner_of(slab), run);
      } else {
        put_back(own, slab, run, empty);
        own_objects += run.count;
      }
    }
  }
  if (own_objects != n) count(Event::flush_free_list_remote, n - own_objects);
  for (std::size_t i = 0; i < strangers.groups(); ++i)
    free_to_remote(strangers.owner(i), strangers.chain(i));
}

template <class Policy>
void Cache<Policy>::flush_chain(CacheList& own, Chain chain) noexcept {
  void* chunk[flush_chunk];
  while (!chain.empty()) {
    const std::size_t n = chain.take(chunk, flush_chunk, link_offset_);
    flush(own, chunk, n);
  }
}

// Links the objects at the front of objects[0..n) that are of one slab.
template <class Policy>
Chain Cache<Policy>::run_of_slab(void** objects, std::size_t n, Page*& slab) const noexcept {
  slab = slab_of(objects[0]);
  KMEM_ASSERT(slab->owner == this);
  Chain run{objects[0], objects[0], 1};
  for (; run.count < n && slab_of(objects[run.count]) == slab; ++run.count) {
    store_link(run.last, link_offset_, objects[run.count]);
    run.last = objects[run.count];
  }
  return run;
}

// ---- Other owners -------------------------------------------------------------------------------

// Adds a chain of one owner to this CPU's rlist, which sends a batch off when it has one. A chain
// that cannot be placed, because of a drain or of too many interruptions, goes home by itself.
template <class Policy>
void Cache<Policy>::free_to_remote(CacheList& owner, Chain chain) noexcept {
  KMEM_ASSERT(!chain.empty());
  for (unsigned attempt = 0; attempt < 4 && chain.count < freebatch(); ++attempt) {
    const percpu::Pair seen = cpus_.template read<rlist_field>();
    const Waiting waiting(seen);
    const percpu::Pair none{nullptr, nullptr};
    if (waiting.count != 0 && waiting.owner != &owner) {  // R1
      if (cpus_.template cas<rlist_field>(seen, none))
        send_home(*waiting.owner, walk_chain(waiting.first, waiting.count, link_offset_));
      continue;
    }
    if (waiting.count + chain.count >= freebatch()) {
      if (!cpus_.template cas<rlist_field>(seen, none)) continue;
      chain.append(walk_chain(waiting.first, waiting.count, link_offset_), link_offset_);
      break;
    }
    // Pushing may meet the same pair again after others came and went: the link is right all the
    // same.
    store_link(chain.last, link_offset_, waiting.first);
    const percpu::Pair more = Waiting::pack(chain.first, owner, waiting.count + chain.count);
    if (cpus_.template cas<rlist_field>(seen, more)) return;
  }
  send_home(owner, chain);
}

template <class Policy>
void Cache<Policy>::flush_rlist() noexcept {
  const percpu::Pair seen = cpus_.template read<rlist_field>();
  const Waiting waiting(seen);
  // Not ours any more: then somebody else has just sent or changed it.
  if (waiting.count == 0 || !cpus_.template cas<rlist_field>(seen, {nullptr, nullptr})) return;
  send_home(*waiting.owner, walk_chain(waiting.first, waiting.count, link_offset_));
}

template <class Policy>
void Cache<Policy>::send_home(CacheList& owner, const Chain& chain) noexcept {
  KMEM_ASSERT(!chain.empty());
  KMEM_ASSERT(&owner_of(slab_of(chain.first)) == &owner);
  count(Event::flush_rfree_list);
  count(Event::flush_rfree_list_objects, chain.count);
  RemoteFree& remote = owner.remote_free;
  if (remote.count.get() > hiwater() / 2) {  // R4
    count(Event::flush_rfree_list_in_place);
    return free_to_slabs(owner, chain);
  }
  count(Event::locks);
  Guard guard(remote.lock);
  const std::size_t waiting = remote.count.get();
  store_link(chain.last, link_offset_, nullptr);
  if (waiting == 0) {
    remote.first = chain.first;
  } else {
    store_link(remote.last, link_offset_, chain.first);
  }
  remote.last = chain.last;
  remote.count.set(waiting + chain.count);
  raise_check_flag(owner);
}

// Under RemoteFree::lock. Written once for each claim, so that the owner's line stays where it is
// (R2, R3). Relaxed: a hint.
template <class Policy>
void Cache<Policy>::raise_check_flag(CacheList& owner) noexcept {
  if (owner.remote_free.count.get() >= freebatch() &&
      owner.remote_free_check.load(std::memory_order_relaxed) == 0)
    owner.remote_free_check.store(1, std::memory_order_relaxed);
}

// ---- Slabs --------------------------------------------------------------------------------------

// A chain of one owner's objects. Its links are read before the objects are linked into their
// slabs.
template <class Policy>
void Cache<Policy>::free_to_slabs(CacheList& owner, Chain chain) noexcept {
  if (chain.empty()) return;
  EmptySlabs empty;
  PageLock lock(owner);
  while (!chain.empty()) {
    void* chunk[flush_chunk];
    const std::size_t n = chain.take(chunk, flush_chunk, link_offset_);
    for (std::size_t i = 0; i < n;) {
      Page* slab;
      const Chain run = run_of_slab(chunk + i, n - i, slab);
      KMEM_ASSERT(&owner_of(slab) == &owner);
      put_back(owner, slab, run, empty);
      i += run.count;
    }
  }
}

// Under owner.page_lock.
template <class Policy>
void Cache<Policy>::put_back(CacheList& owner, Page* slab, const Chain& run,
                             EmptySlabs& empty) noexcept {
  KMEM_ASSERT(slab->counters >= run.count);
  const bool was_full = slab->counters == objects_;
  store_link(run.last, link_offset_, slab->free_list);
  slab->free_list = run.first;
  slab->counters -= run.count;
  if (slab->counters == 0 && !keeps_empty_slabs_) {
    if (!was_full) {
      List::remove(&slab->link);
      owner.nr_partial.subtract();
    }
    owner.nr_slabs.subtract();
    owner.flush_slab_free.add();
    empty.add(slab);
  } else if (was_full) {
    owner.partial.push_front(&slab->link);
    owner.nr_partial.add();
    owner.flush_slab_partial.add();
  }
}

template <class Policy>
void Cache<Policy>::report_double_free(const void* object) noexcept {
  debug::report(debug::Fault::double_free, spec_.name, object,
                "the object is the one freed last on this CPU", "Object not freed again");
}

}  // namespace kmem::slqb
