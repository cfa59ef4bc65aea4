// SLAB's bulk paths, beyond the kernel's: whole batches are copied between the caller's array and
// the CPU's by one sequence; the rest comes from the shared array and the slabs straight into the
// caller's array, or goes the other way, under one hold of the node's lock.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/slab/slab.h"

namespace kmem::slab {

// The first taken objects are there. All or nothing: on failure they are given back.
template <class Policy>
bool Cache<Policy>::alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                    std::size_t taken) noexcept {
  std::size_t got = taken;
  if (got == 0) got = cpus_.template take<array_field>(objects, n);  // the fast form only refuses?
  const int node = here();
  if (got < n) note_demand(lists_of(node), n - got);
  if (n - got < refill_size()) got += take_batch(lists_of(node), gfp, objects + got, n - got);
  if (got < n) got += take_from_node(lists_of(node), gfp, objects + got, n - got);
  while (got < n) {
    const std::size_t grown = grow(gfp | gfp::thisnode, node, objects + got, n - got);
    if (grown == 0) break;
    got += grown;
  }
  while (got < n) {
    objects[got] = alloc_elsewhere(gfp, node);
    if (objects[got] == nullptr) break;
    ++got;
  }
  if (got < n) {
    free_bulk(got, objects);
    return false;
  }
  if ((gfp & gfp::direct_reclaim) != 0) reap_if_due();
  return true;
}

// Few objects: a whole batch, so that the lock is taken once a batch; what is left goes to the
// array.
template <class Policy>
std::size_t Cache<Policy>::take_batch(NodeLists& lists, gfp_t gfp, void** out,
                                      std::size_t want) noexcept {
  Batch batch;
  batch.count = refill(lists, gfp, batch.objects, refill_size());
  const std::size_t taken = std::min(want, batch.count);
  batch.count -= taken;
  std::copy_n(batch.objects + batch.count, taken, out);
  put_back(batch);
  return taken;
}

// Many: as much as there is, what the shared array lacks from slabs at once.
template <class Policy>
std::size_t Cache<Policy>::take_from_node(NodeLists& lists, gfp_t gfp, void** out,
                                          std::size_t want) noexcept {
  if (seems_empty(lists) || !lock_for(lists, gfp)) return count(Event::alloc_miss), 0;
  lists.alloc_misses.add(1);
  std::size_t taken = take_shared(lists, out, want);
  if (taken < want) taken += take_from_slabs(lists, out + taken, want - taken);
  lists.lock.unlock();
  return taken;
}

// Whoever asks for n objects at once will give back as many, and ask again: the shared array keeps
// them until the reaper finds it untouched.
template <class Policy>
void Cache<Policy>::note_demand(NodeLists& lists, std::size_t n) noexcept {
  const std::size_t most = std::min(max_demand, max_demand_bytes / layout_.geometry.slot_bytes);
  const auto demand = static_cast<unsigned>(std::min(n, most));
  if (demand <= lists.shared.demand.load(std::memory_order_relaxed)) return;
  lists.shared.demand.store(demand, std::memory_order_relaxed);
}

// The array took only the first put. A call of less than a batch flushes older objects to make
// room, so that the lock is taken once a batch; a larger one goes past the array.
template <class Policy>
void Cache<Policy>::free_bulk_overflow(std::size_t n, void** objects, std::size_t put,
                                       int node) noexcept {
  const auto put_more = [&] {
    put += cpus_.template put<array_field>(objects + put, n - put, static_cast<unsigned>(node));
  };
  if (put == 0) put_more();  // the fast form only refuses?
  if (put < n && cpus_.template make_room<array_field>()) put_more();
  if (put < n && n < batchcount_.load(std::memory_order_relaxed) && flush()) {
    put_more();
    if (put < n && cpus_.template make_room<array_field>()) put_more();
  }
  if (put < n) stow(lists_of(node), objects + put, n - put);
}

// Into the shared array, as far as bulk demand goes; the rest to the slabs.
template <class Policy>
void Cache<Policy>::stow(NodeLists& lists, void** objects, std::size_t n) noexcept {
  SharedArray& shared = lists.shared;
  const unsigned demand = shared.demand.load(std::memory_order_relaxed);
  if (demand > shared.capacity.load(std::memory_order_relaxed)) grow_shared(lists, demand);
  List doomed;
  lock(lists);
  lists.free_misses.add(1);
  const std::size_t put = std::min(n, demand_room(lists));
  append_shared(shared, objects, put);
  free_block(lists, objects + put, n - put, doomed);
  lists.lock.unlock();
  destroy_slabs(doomed);
}

// The node's lock is held.
template <class Policy>
std::size_t Cache<Policy>::demand_room(const NodeLists& lists) const noexcept {
  const SharedArray& shared = lists.shared;
  const unsigned most = std::max(shared.limit.load(std::memory_order_relaxed),
                                 std::min(shared.capacity.load(std::memory_order_relaxed),
                                          shared.demand.load(std::memory_order_relaxed)));
  const unsigned available = shared.available.load(std::memory_order_relaxed);
  return most > available ? most - available : 0;
}

// Without memory it stays as it is.
template <class Policy>
void Cache<Policy>::grow_shared(NodeLists& lists, unsigned capacity) noexcept {
  SharedArray fresh;
  if (!create_shared(fresh, capacity)) return;
  SharedArray& shared = lists.shared;
  lock(lists);
  if (shared.capacity.load(std::memory_order_relaxed) < capacity) {
    const unsigned available = shared.available.load(std::memory_order_relaxed);
    if (available != 0) std::memcpy(fresh.entries, shared.entries, available * sizeof(void*));
    swap_entries(shared, fresh);
  }
  lists.lock.unlock();
  destroy_shared(fresh);
}

// Brings the objects of one node together, a node at a time; this CPU's own first.
template <class Policy>
void Cache<Policy>::free_bulk_by_node(std::size_t n, void** objects) noexcept {
  const int local = here();
  for (int i = 0; i < node_count_ && n != 0; ++i) {
    const int node = (local + i) % node_count_;
    std::size_t count_here = 0;
    for (std::size_t k = 0; k < n; ++k) {
      if (pages::page_of(objects[k])->node == node) std::swap(objects[k], objects[count_here++]);
    }
    if (count_here == 0) continue;
    if (node == local) {
      free_bulk_local(count_here, objects, node);
    } else {
      free_bulk_remote(count_here, objects, node);
    }
    objects += count_here;
    n -= count_here;
  }
}

template <class Policy>
void Cache<Policy>::free_bulk_local(std::size_t n, void** objects, int node) noexcept {
  const std::size_t put =
      cpus_.template fast_put<array_field>(objects, n, static_cast<unsigned>(node));
  note(Event::free_hit, put);
  if (put != n) free_bulk_overflow(n, objects, put, node);
}

// What would fill an alien array goes to its node at once; less than that waits in the alien array.
template <class Policy>
void Cache<Policy>::free_bulk_remote(std::size_t n, void** objects, int node) noexcept {
  count(Event::remote_free, n);
  if (n >= alien_limit) return give_to_node(lists_of(node), objects, n);
  AlienArray& alien = lists_of(here()).aliens[node];
  List doomed;
  {
    Guard guard(alien.lock);
    if (alien.available + n > alien_limit) {
      count(Event::alien_overflow);
      drain_alien(alien, lists_of(node), doomed);
    }
    std::copy_n(objects, n, alien.entries + alien.available);
    alien.available += static_cast<unsigned>(n);
  }
  destroy_slabs(doomed);
}

}  // namespace kmem::slab
