// SLAB's bulk paths, beyond the kernel's: whole batches are copied between the caller's array and
// the CPU's by one sequence; the rest comes from the shared array and the slabs straight into the
// caller's array, or goes the other way, under one hold of the node's lock.
#pragma once

#include <algorithm>
#include <utility>

#include "backends/slab/slab.h"

namespace kmem::slab {

// The first taken objects are there. All or nothing: on failure they are given back.
template <class Policy>
bool Cache<Policy>::alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                    std::size_t taken) noexcept {
  std::size_t got = taken + cpus_.template take<array_field>(objects + taken, n - taken);
  if (got < n) count(Event::alloc_miss);
  const int node = here();
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

// Unlike a refill, as much as there is: what the shared array lacks comes from slabs at once.
template <class Policy>
std::size_t Cache<Policy>::take_from_node(NodeLists& lists, gfp_t gfp, void** out,
                                          std::size_t want) noexcept {
  if (seems_empty(lists) || !lock_for(lists, gfp)) return 0;
  std::size_t taken = take_shared(lists, out, want);
  if (taken < want) taken += take_from_slabs(lists, out + taken, want - taken);
  lists.lock.unlock();
  return taken;
}

// The array had no room for all. Less than a batch makes room by flushing older objects, so that
// the lock is taken once a batch; a batch or more goes past the array.
template <class Policy>
void Cache<Policy>::free_bulk_overflow(std::size_t n, void** objects, int node) noexcept {
  const auto put_more = [&] {
    const std::size_t put =
        cpus_.template put<array_field>(objects, n, static_cast<unsigned>(node));
    objects += put;
    n -= put;
  };
  put_more();  // where the fast form only refuses
  if (n != 0 && cpus_.template make_room<array_field>()) put_more();
  if (n == 0) return;
  count(Event::free_miss);
  if (n < batchcount_.load(std::memory_order_relaxed) && flush()) {
    put_more();
    if (n != 0 && cpus_.template make_room<array_field>()) put_more();
  }
  if (n != 0) give_to_node(lists_of(node), objects, n);
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
  if constexpr (Policy::counts_fast_paths) count(Event::free_hit, put);
  if (put != n) free_bulk_overflow(n - put, objects + put, node);
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
