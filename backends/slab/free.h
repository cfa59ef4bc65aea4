// SLAB's destinations of objects, cheapest first: the CPU's array, the node's shared array, the
// slabs; for another node's objects that node's alien array here.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/slab/slab.h"
#include "common/debug/report.h"
#include "common/pages/pages.h"

namespace kmem::slab {

template <class Policy>
void Cache<Policy>::free_slow(void* object, Page* page, percpu::Push refusal) noexcept {
  if (refusal == percpu::Push::duplicate) return report_double_free(object);
  const int node = page->node;
  if (node != here()) return free_remote(object, node);
  if (push_local(object, node)) return;
  give_to_slabs(lists_of(node), &object, 1);  // a drain is under way, or we were migrated
}

// Into the array, which is made to have room: by moving its window down, else by a flush.
template <class Policy>
bool Cache<Policy>::push_local(void* object, int node) noexcept {
  for (int tries = 0; tries < 3; ++tries) {
    const percpu::Push push = cpus_.template push<array_field>(object, static_cast<unsigned>(node));
    if (push == percpu::Push::duplicate) return report_double_free(object), true;
    if (push == percpu::Push::done) return true;
    if (!cpus_.template make_room<array_field>() && !flush()) return false;
  }
  return false;
}

// The CPU's oldest batch goes to the node. False: there was none to be had.
template <class Policy>
bool Cache<Policy>::flush() noexcept {
  void* oldest[max_batch];
  const std::size_t n =
      cpus_.template take_oldest<array_field>(oldest, flush_size(lists_of(here())));
  if (n == 0) return false;
  flush_to_node(lists_of(pages::page_of(oldest[0])->node), oldest, n);
  reap_if_due();
  return true;
}

// As much of a batch as the shared array has room for, if it has any; what does not fit stays.
template <class Policy>
std::size_t Cache<Policy>::flush_size(const NodeLists& lists) const noexcept {
  const std::size_t batch = std::min(batchcount_.load(std::memory_order_relaxed), max_batch);
  const std::size_t room = shared_room(lists);
  return room != 0 ? std::min(batch, room) : batch;
}

template <class Policy>
void Cache<Policy>::flush_to_node(NodeLists& lists, void** objects, std::size_t n) noexcept {
  List doomed;
  lock(lists);
  lists.free_misses.add(1);
  const std::size_t put = put_shared(lists, objects, n);
  free_block(lists, objects + put, n - put, doomed);
  lists.lock.unlock();
  destroy_slabs(doomed);
}

template <class Policy>
void Cache<Policy>::give_to_node(NodeLists& lists, void** objects, std::size_t n) noexcept {
  List doomed;
  lock(lists);
  const std::size_t put = put_shared(lists, objects, n);
  free_block(lists, objects + put, n - put, doomed);
  lists.lock.unlock();
  destroy_slabs(doomed);
}

template <class Policy>
void Cache<Policy>::give_to_slabs(NodeLists& lists, void** objects, std::size_t n) noexcept {
  List doomed;
  lock(lists);
  free_block(lists, objects, n, doomed);
  lists.lock.unlock();
  destroy_slabs(doomed);
}

// The node's lock is held, here and below.
template <class Policy>
std::size_t Cache<Policy>::put_shared(NodeLists& lists, void** objects, std::size_t n) noexcept {
  const std::size_t put = std::min(n, shared_room(lists));
  append_shared(lists.shared, objects, put);
  return put;
}

template <class Policy>
void Cache<Policy>::append_shared(SharedArray& shared, void** objects, std::size_t n) noexcept {
  if (n == 0) return;
  const unsigned available = shared.available.load(std::memory_order_relaxed);
  KMEM_ASSERT(available + n <= shared.capacity.load(std::memory_order_relaxed));
  std::memcpy(shared.entries + available, objects, n * sizeof(void*));
  shared.available.store(static_cast<unsigned>(available + n), std::memory_order_relaxed);
}

// Objects back into their slabs; free slabs beyond the node's limit are moved to doomed, for the
// caller to destroy without the lock. A slab that becomes partial goes to the tail, to have time to
// drain.
template <class Policy>
void Cache<Policy>::free_block(NodeLists& lists, void** objects, std::size_t n,
                               List& doomed) noexcept {
  for (std::size_t i = 0; i < n;) {
    Page* slab = slab_of(objects[i]);
    std::size_t end = i + 1;  // neighbours of one slab are relinked once
    while (end < n && slab_of(objects[end]) == slab) ++end;
    put_objects(lists, slab, objects + i, end - i);
    i = end;
  }
  lists.max_free_slabs.raise_to(lists.free_slabs);
  if (keeps_empty_slabs_) return;
  while (lists.free_objects.load(std::memory_order_relaxed) > lists.free_limit &&
         !lists.free.empty()) {
    unlink_free_slab(lists, doomed);
  }
}

template <class Policy>
void Cache<Policy>::put_objects(NodeLists& lists, Page* slab, void** objects,
                                std::size_t n) noexcept {
  KMEM_ASSERT(slab->owner == this && slab->node == lists.node);
  std::size_t active = slab->counters;
  if (n > active) [[unlikely]] {  // more frees than objects in use
    for (std::size_t i = active; i < n; ++i) report_double_free(objects[i]);
    n = active;
    if (n == 0) return;
  }
  if (slab->free_list == nullptr) slab->free_list = objects[0];  // now the last number's object
  std::uint8_t* const index = indices(slab);
  for (std::size_t i = 0; i < n; ++i) {
    index[--active] = static_cast<std::uint8_t>(number_of(slab, objects[i]));
  }
  slab->counters = active;
  List::remove(&slab->link);
  if (active == 0) {
    lists.free.push_front(&slab->link);
    ++lists.free_slabs;
  } else {
    lists.partial.push_back(&slab->link);
  }
  add_free_objects(lists, n);
}

template <class Policy>
std::size_t Cache<Policy>::shared_room(const NodeLists& lists) const noexcept {
  const unsigned limit = lists.shared.limit.load(std::memory_order_relaxed);
  const unsigned available = lists.shared.available.load(std::memory_order_relaxed);
  return limit > available ? limit - available : 0;
}

// The last free slab, which was free longest, off the lists.
template <class Policy>
void Cache<Policy>::unlink_free_slab(NodeLists& lists, List& doomed) noexcept {
  ListNode* link = lists.free.back();
  List::remove(link);
  doomed.push_back(link);
  --lists.free_slabs;
  --lists.total_slabs;
  lists.slabs_freed.add(1);
  add_free_objects(lists, std::size_t{0} - objects_);
}

// ---- Objects of other nodes ---------------------------------------------------------------------

template <class Policy>
void Cache<Policy>::free_remote(void* object, int node) noexcept {
  count(Event::remote_free);
  AlienArray& alien = lists_of(here()).aliens[node];
  List doomed;
  {
    Guard guard(alien.lock);
    if (alien.available == alien_limit) {
      count(Event::alien_overflow);
      drain_alien(alien, lists_of(node), doomed);
    }
    alien.entries[alien.available++] = object;
  }
  destroy_slabs(doomed);
}

// To the target's shared array, what does not fit to its slabs. The array's lock is held.
template <class Policy>
void Cache<Policy>::drain_alien(AlienArray& alien, NodeLists& target, List& doomed) noexcept {
  if (alien.available == 0) return;
  lock(target);
  const std::size_t put = put_shared(target, alien.entries, alien.available);
  free_block(target, alien.entries + put, alien.available - put, doomed);
  target.lock.unlock();
  alien.available = 0;
}

template <class Policy>
void Cache<Policy>::report_double_free(const void* object) noexcept {
  debug::report(debug::Fault::double_free, spec_.name, object, nullptr,
                "The second free was ignored");
}

}  // namespace kmem::slab
