// SLAB as a whole: create, destroy, shrink, reap, retune.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "backends/slab/slab.h"
#include "common/nodes/topology.h"
#include "common/pages/pages.h"

namespace kmem::slab {

inline std::uint64_t coarse_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// ---- Create and destroy -------------------------------------------------------------------------

template <class Policy>
bool Cache<Policy>::create(const CacheSpec& spec) noexcept {
  if (!pages::start()) return false;
  spec_ = spec;
  layout_ = plan_layout(spec, machine_cpus());
  const Geometry& geometry = layout_.geometry;
  if (geometry.objects == 0) return false;
  objects_ = geometry.objects;
  divider_ = ObjectDivider(static_cast<std::uint32_t>(geometry.slot_bytes));
  keeps_empty_slabs_ = (spec.flags & slab_flag::typesafe_by_rcu) != 0;
  node_count_ = nodes::count();
  capacity_limit_ = geometry.limit;
  limit_.store(geometry.limit, std::memory_order_relaxed);
  batchcount_.store(geometry.batchcount, std::memory_order_relaxed);
  shared_factor_.store(geometry.shared / geometry.batchcount, std::memory_order_relaxed);
  if (!create_nodes()) return false;
  const auto init = [&](CpuState& state, unsigned, int node) {
    init_array(state.array, geometry.limit, home_of(node));
    ++nodes_[home_of(node)].cpus;
  };
  if (!cpus_.create(init, state_bytes(geometry.limit))) return destroy_nodes(), false;
  if (!counters_.create(cpus_.count())) {
    cpus_.destroy();
    return destroy_nodes(), false;
  }
  set_free_limits();
  next_reap_ns_.store(coarse_now_ns() + cpu_reap_ns, std::memory_order_relaxed);
  return true;
}

// Every structure or none.
template <class Policy>
bool Cache<Policy>::create_nodes() noexcept {
  const auto count = static_cast<std::size_t>(node_count_);
  void* block = pages::metadata_alloc(count * sizeof(NodeLists));
  if (block == nullptr) return false;
  nodes_ = static_cast<NodeLists*>(block);
  for (int node = 0; node < node_count_; ++node) (new (nodes_ + node) NodeLists)->node = node;
  for (int node = 0; node < node_count_; ++node) {
    NodeLists& lists = nodes_[node];
    if (!create_shared(lists.shared, layout_.geometry.shared)) return destroy_nodes(), false;
    if (node_count_ == 1) continue;
    void* aliens = pages::metadata_alloc(count * sizeof(AlienArray));
    if (aliens == nullptr) return destroy_nodes(), false;
    lists.aliens = static_cast<AlienArray*>(aliens);
    for (int other = 0; other < node_count_; ++other) new (lists.aliens + other) AlienArray;
  }
  return true;
}

template <class Policy>
void Cache<Policy>::destroy_nodes() noexcept {
  const auto count = static_cast<std::size_t>(node_count_);
  for (int node = 0; node < node_count_; ++node) {
    destroy_shared(nodes_[node].shared);
    if (nodes_[node].aliens != nullptr) {
      pages::metadata_free(nodes_[node].aliens, count * sizeof(AlienArray));
    }
    nodes_[node].~NodeLists();
  }
  pages::metadata_free(nodes_, count * sizeof(NodeLists));
  nodes_ = nullptr;
}

template <class Policy>
bool Cache<Policy>::create_shared(SharedArray& shared, unsigned limit) noexcept {
  if (limit == 0) return true;
  shared.entries = static_cast<void**>(pages::metadata_alloc(limit * sizeof(void*)));
  if (shared.entries == nullptr) return false;
  shared.limit.store(limit, std::memory_order_relaxed);
  shared.capacity.store(limit, std::memory_order_relaxed);
  return true;
}

template <class Policy>
void Cache<Policy>::destroy_shared(SharedArray& shared) noexcept {
  if (shared.entries == nullptr) return;
  pages::metadata_free(shared.entries,
                       shared.capacity.load(std::memory_order_relaxed) * sizeof(void*));
  shared.entries = nullptr;
}

// Slabs with live objects are left behind, with no owner.
template <class Policy>
std::size_t Cache<Policy>::destroy() noexcept {
  flush_arrays();
  flush_aliens();
  flush_shared();
  std::size_t live = 0;
  for (int node = 0; node < node_count_; ++node) {
    release_free_slabs(nodes_[node], SIZE_MAX);
    live += abandon_slabs(nodes_[node].partial) + abandon_slabs(nodes_[node].full);
  }
  counters_.destroy();
  cpus_.destroy();
  destroy_nodes();
  return live;
}

template <class Policy>
std::size_t Cache<Policy>::abandon_slabs(List& list) noexcept {
  std::size_t live = 0;
  while (ListNode* link = list.pop_front()) {
    Page* slab = pages::from_link(link);
    live += slab->counters;
    if (layout_.management == Management::off_slab) {
      pages::metadata_free(slab->free_list, layout_.index_block_bytes);
    }
    slab->free_list = nullptr;
    pages::set_owner(slab, nullptr, 0);
  }
  return live;
}

template <class Policy>
void Cache<Policy>::destroy_slab(Page* slab) noexcept {
  if (layout_.management == Management::off_slab) {
    pages::metadata_free(slab->free_list, layout_.index_block_bytes);
  }
  pages::free(slab);
}

template <class Policy>
void Cache<Policy>::destroy_slabs(List& doomed) noexcept {
  while (ListNode* link = doomed.pop_front()) destroy_slab(pages::from_link(link));
}

template <class Policy>
void Cache<Policy>::init_array(percpu::PointerArray& array, unsigned limit, int node) noexcept {
  array = {.top = 0,
           .bottom = 0,
           .end = limit,
           .touched = 0,
           .limit = limit,
           .capacity = 2 * limit,
           .node = static_cast<std::uint64_t>(node)};
}

// CPUs that a possible id stands for but the machine does not have would only inflate the limit.
template <class Policy>
void Cache<Policy>::set_free_limits() noexcept {
  const std::size_t batch = batchcount_.load(std::memory_order_relaxed);
  for (int node = 0; node < node_count_; ++node) {
    NodeLists& lists = nodes_[node];
    const std::size_t cpus = std::min(lists.cpus, machine_cpus());
    Guard guard(lists.lock);
    lists.free_limit = (1 + cpus) * batch + objects_;
  }
}

// ---- Flush and shrink ---------------------------------------------------------------------------

template <class Policy>
bool Cache<Policy>::shrink() noexcept {
  flush_arrays();
  flush_aliens();
  flush_shared();
  bool remain = false;
  for (int node = 0; node < node_count_; ++node) {
    NodeLists& lists = nodes_[node];
    trim_shared(lists);
    if (!keeps_empty_slabs_) release_free_slabs(lists, SIZE_MAX);
    Guard guard(lists.lock);
    remain |= !lists.full.empty() || !lists.partial.empty();
  }
  return remain;
}

// Every CPU's array into the slabs.
template <class Policy>
void Cache<Policy>::flush_arrays() noexcept {
  cpus_.drain([&](CpuState& state, unsigned) { empty_array(state.array, state.array.limit); });
}

template <class Policy>
void Cache<Policy>::flush_aliens() noexcept {
  if (node_count_ == 1) return;
  List doomed;
  for (int node = 0; node < node_count_; ++node) {
    for (int other = 0; other < node_count_; ++other) {
      AlienArray& alien = nodes_[node].aliens[other];
      Guard guard(alien.lock);
      drain_alien(alien, nodes_[other], doomed);
    }
  }
  destroy_slabs(doomed);
}

template <class Policy>
void Cache<Policy>::flush_shared() noexcept {
  for (int node = 0; node < node_count_; ++node) {
    NodeLists& lists = nodes_[node];
    List doomed;
    lock(lists);
    empty_shared(lists, lists.shared.available.load(std::memory_order_relaxed), doomed);
    lists.lock.unlock();
    destroy_slabs(doomed);
  }
}

// The oldest n of the shared array to the slabs. The node's lock is held.
template <class Policy>
void Cache<Policy>::empty_shared(NodeLists& lists, std::size_t n, List& doomed) noexcept {
  SharedArray& shared = lists.shared;
  const std::size_t left = shared.available.load(std::memory_order_relaxed) - n;
  if (n == 0) return;
  free_block(lists, shared.entries, n, doomed);
  std::memmove(shared.entries, shared.entries + n, left * sizeof(void*));
  shared.available.store(static_cast<unsigned>(left), std::memory_order_relaxed);
}

// Bulk demand is forgotten, and with it the part of the array beyond the limit, if that is empty.
template <class Policy>
void Cache<Policy>::trim_shared(NodeLists& lists) noexcept {
  SharedArray& shared = lists.shared;
  shared.demand.store(0, std::memory_order_relaxed);
  const unsigned limit = shared.limit.load(std::memory_order_relaxed);
  if (shared.capacity.load(std::memory_order_relaxed) == limit) return;
  SharedArray fresh;
  if (!create_shared(fresh, limit)) return;
  lock(lists);
  const unsigned available = shared.available.load(std::memory_order_relaxed);
  if (available <= limit) {
    if (available != 0) std::memcpy(fresh.entries, shared.entries, available * sizeof(void*));
    swap_entries(shared, fresh);
  }
  lists.lock.unlock();
  destroy_shared(fresh);
}

// Up to most free slabs, those that were free longest first; returns how many.
template <class Policy>
std::size_t Cache<Policy>::release_free_slabs(NodeLists& lists, std::size_t most) noexcept {
  List doomed;
  std::size_t released = 0;
  lock(lists);
  for (; released < most && !lists.free.empty(); ++released) unlink_free_slab(lists, doomed);
  lists.lock.unlock();
  destroy_slabs(doomed);
  return released;
}

// Alien arrays before lists, as everywhere; locks of one rank together, which nobody else holds so.
template <class Policy>
void Cache<Policy>::prepare_fork() noexcept {
  for (int node = 0; node < node_count_ && node_count_ > 1; ++node) {
    for (int other = 0; other < node_count_; ++other) {
      nodes_[node].aliens[other].lock.unranked().lock();
    }
  }
  for (int node = 0; node < node_count_; ++node) nodes_[node].lock.unranked().lock();
}

template <class Policy>
void Cache<Policy>::after_fork() noexcept {
  for (int node = 0; node < node_count_; ++node) nodes_[node].lock.unranked().unlock();
  for (int node = 0; node < node_count_ && node_count_ > 1; ++node) {
    for (int other = 0; other < node_count_; ++other) {
      nodes_[node].aliens[other].lock.unranked().unlock();
    }
  }
}

// ---- Reaping ------------------------------------------------------------------------------------

template <class Policy>
void Cache<Policy>::reap_if_due() noexcept {
  if constexpr (scripted) return;
  const std::uint64_t now = coarse_now_ns();
  std::uint64_t due = next_reap_ns_.load(std::memory_order_relaxed);
  if (now < due) return;
  // Relaxed: it only elects one of the threads that see the time has come.
  if (next_reap_ns_.compare_exchange_strong(due, now + cpu_reap_ns, std::memory_order_relaxed)) {
    reap();
  }
}

template <class Policy>
void Cache<Policy>::reap() noexcept {
  // Acquire, and release below: pair with each other, for reap_rounds_ and reap_alien.
  if (reaping_.exchange(true, std::memory_order_acquire)) return;
  reap_aliens();
  reap_arrays();
  if (++reap_rounds_ % 2 == 0) reap_nodes();
  reaping_.store(false, std::memory_order_release);
}

// One array of each node, in turn; one that is in use is left for the next round.
template <class Policy>
void Cache<Policy>::reap_aliens() noexcept {
  if (node_count_ == 1) return;
  List doomed;
  for (int node = 0; node < node_count_; ++node) {
    const unsigned other = nodes_[node].reap_alien++ % static_cast<unsigned>(node_count_);
    AlienArray& alien = nodes_[node].aliens[other];
    if (!alien.lock.try_lock()) continue;
    drain_alien(alien, nodes_[other], doomed);
    alien.lock.unlock();
  }
  destroy_slabs(doomed);
}

// An array that was used since the last round stays; another loses a fifth of its limit, or half of
// what it holds when that is less than a fifth of the limit.
inline std::size_t reap_size(std::size_t available, std::size_t limit) noexcept {
  const std::size_t fifth = (limit + 4) / 5;
  return fifth > available ? (available + 1) / 2 : fifth;
}

template <class Policy>
void Cache<Policy>::reap_arrays() noexcept {
  cpus_.drain([&](CpuState& state, unsigned) {
    percpu::PointerArray& array = state.array;
    const std::uint32_t available = array.top - array.bottom;
    if (available == 0) return;
    if (array.touched != 0) {
      array.touched = 0;
      return;
    }
    const auto oldest = static_cast<std::uint32_t>(reap_size(available, array.limit));
    give_to_slabs(nodes_[array.node], percpu::entries(array) + array.bottom, oldest);
    array.bottom += oldest;
    array.end = std::min(array.bottom + array.limit, array.capacity);
  });
}

// The same for shared arrays; then, unless a free slab was wanted, a fifth of the free limit in
// slabs.
template <class Policy>
void Cache<Policy>::reap_nodes() noexcept {
  for (int node = 0; node < node_count_; ++node) {
    NodeLists& lists = nodes_[node];
    List doomed;
    lock(lists);
    const unsigned available = lists.shared.available.load(std::memory_order_relaxed);
    if (available != 0 && !lists.shared.touched) {
      const unsigned limit = lists.shared.limit.load(std::memory_order_relaxed);
      empty_shared(lists, reap_size(available, limit), doomed);
    }
    const bool idle = !lists.shared.touched;
    lists.shared.touched = false;
    const bool wanted = lists.free_touched || keeps_empty_slabs_;
    const std::size_t most =
        wanted ? 0
               : (lists.free_limit + 5 * std::size_t{objects_} - 1) / (5 * std::size_t{objects_});
    lists.free_touched = false;
    lists.lock.unlock();
    destroy_slabs(doomed);
    if (idle) trim_shared(lists);
    lists.reaped.add(release_free_slabs(lists, most));
  }
}

// ---- Tuning -------------------------------------------------------------------------------------

template <class Policy>
bool Cache<Policy>::retune(const Tunables& wanted) noexcept {
  const unsigned limit = wanted.limit != 0 ? wanted.limit : limit_.load(std::memory_order_relaxed);
  const unsigned batch =
      wanted.batchcount != 0 ? wanted.batchcount : batchcount_.load(std::memory_order_relaxed);
  const unsigned factor = wanted.shared >= 0 ? static_cast<unsigned>(wanted.shared)
                                             : shared_factor_.load(std::memory_order_relaxed);
  if (limit > max_limit || batch > limit || factor > max_limit / batch) return false;
  SharedArray fresh[nodes::max_nodes];  // before anything has changed
  if (!create_all_shared(fresh, factor * batch)) return false;
  if (!resize_arrays(limit)) return destroy_all_shared(fresh), false;
  replace_shared(fresh);
  shared_factor_.store(factor, std::memory_order_relaxed);
  limit_.store(limit, std::memory_order_relaxed);
  batchcount_.store(batch, std::memory_order_relaxed);
  layout_.geometry.limit = limit;
  layout_.geometry.batchcount = batch;
  layout_.geometry.shared = factor * batch;
  set_free_limits();
  return true;
}

template <class Policy>
Tunables Cache<Policy>::tunables() const noexcept {
  return {limit_.load(std::memory_order_relaxed), batchcount_.load(std::memory_order_relaxed),
          static_cast<int>(shared_factor_.load(std::memory_order_relaxed))};
}

// Empty arrays of the new length on every CPU; what they held goes to the slabs.
template <class Policy>
bool Cache<Policy>::resize_arrays(unsigned limit) noexcept {
  const auto visit = [&](CpuState& state, unsigned) { empty_array(state.array, limit); };
  if (limit <= capacity_limit_) return cpus_.drain(visit), true;
  const auto init = [&](CpuState& state, unsigned, int node) {
    init_array(state.array, limit, home_of(node));
  };
  if (!cpus_.resize(visit, init, state_bytes(limit))) return false;
  capacity_limit_ = limit;
  return true;
}

// What the array holds to the slabs; then it is of the given length.
template <class Policy>
void Cache<Policy>::empty_array(percpu::PointerArray& array, unsigned limit) noexcept {
  if (array.top != array.bottom) {
    give_to_slabs(nodes_[array.node], percpu::entries(array) + array.bottom,
                  array.top - array.bottom);
  }
  init_array(array, limit, static_cast<int>(array.node));
}

// One for each node, or none.
template <class Policy>
bool Cache<Policy>::create_all_shared(SharedArray* arrays, unsigned capacity) noexcept {
  for (int node = 0; node < node_count_; ++node) {
    if (!create_shared(arrays[node], capacity)) return destroy_all_shared(arrays), false;
  }
  return true;
}

template <class Policy>
void Cache<Policy>::destroy_all_shared(SharedArray* arrays) noexcept {
  for (int node = 0; node < node_count_; ++node) destroy_shared(arrays[node]);
}

template <class Policy>
void Cache<Policy>::swap_entries(SharedArray& a, SharedArray& b) noexcept {
  std::swap(a.entries, b.entries);
  const unsigned capacity = a.capacity.load(std::memory_order_relaxed);
  a.capacity.store(b.capacity.load(std::memory_order_relaxed), std::memory_order_relaxed);
  b.capacity.store(capacity, std::memory_order_relaxed);
}

// What the nodes' shared arrays hold goes to the slabs, and the fresh ones take their places.
template <class Policy>
void Cache<Policy>::replace_shared(SharedArray* fresh) noexcept {
  for (int node = 0; node < node_count_; ++node) {
    SharedArray& shared = nodes_[node].shared;
    List doomed;
    lock(nodes_[node]);
    empty_shared(nodes_[node], shared.available.load(std::memory_order_relaxed), doomed);
    swap_entries(shared, fresh[node]);
    shared.limit.store(fresh[node].limit.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
    nodes_[node].lock.unlock();
    destroy_slabs(doomed);
  }
  destroy_all_shared(fresh);
}

// ---- Helpers ------------------------------------------------------------------------------------

// A virtual machine has all its CPUs; a real one may have fewer than it has ids for.
template <class Policy>
unsigned Cache<Policy>::machine_cpus() const noexcept {
  if constexpr (scripted) {
    return percpu::VirtualCpu::cpus();
  } else {
    return nodes::present_cpus();
  }
}

// A virtual machine may have more nodes than there is memory of.
template <class Policy>
int Cache<Policy>::home_of(int node) const noexcept {
  return node < node_count_ ? node : 0;
}

}  // namespace kmem::slab
