// SLQB as a whole: creating, trimming, emptying and destroying a cache, and what it tells about
// itself.
#pragma once

#include <time.h>

#include <algorithm>
#include <new>

#include "backends/slqb/free.h"
#include "backends/slqb/slqb.h"
#include "common/nodes/topology.h"

namespace kmem::slqb {

// Coarse: a few ns, good to a few ms.
inline std::uint64_t now_ms() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

// ---- Create -------------------------------------------------------------------------------------

template <class Policy>
bool Cache<Policy>::create(const CacheSpec& spec) noexcept {
  spec_ = spec;
  geometry_ = plan_geometry(spec);
  if (geometry_.objects == 0 || !pages::start()) return false;
  link_offset_ = geometry_.link_offset;
  objects_ = geometry_.objects;
  KMEM_ASSERT(objects_ <= max_objects);
  divider_ = ObjectDivider(static_cast<std::uint32_t>(geometry_.slot_bytes));
  keeps_empty_slabs_ = (spec.flags & slab_flag::typesafe_by_rcu) != 0;
  hiwater_.store(geometry_.limit, std::memory_order_relaxed);
  freebatch_.store(geometry_.batchcount, std::memory_order_relaxed);
  const bool has_cpus = cpus_.create([this](CpuState& state, unsigned, int node) {
    state.lifo.limit = hiwater();
    state.lifo.node = static_cast<std::uint64_t>(node);
  });
  if (!has_cpus) return false;
  if (counters_.create(cpus_.count())) {
    if (create_lists()) return true;
    counters_.destroy();
  }
  cpus_.destroy();
  return false;
}

template <class Policy>
bool Cache<Policy>::create_lists() noexcept {
  const unsigned cpus = cpus_.count();
  // A scripted machine may have nodes without memory: CPUs, and no slabs.
  node_count_ = nodes::count();
  for (unsigned cpu = 0; cpu < cpus; ++cpu)
    node_count_ = std::max(node_count_, static_cast<int>(cpus_.peek(cpu).lifo.node) + 1);
  const auto nodes = static_cast<std::size_t>(node_count_);
  void* const of_cpus = pages::metadata_alloc(cpus * sizeof(CacheList));
  void* const of_nodes =
      of_cpus == nullptr ? nullptr : pages::metadata_alloc(nodes * sizeof(NodeList));
  if (of_nodes == nullptr) {
    if (of_cpus != nullptr) pages::metadata_free(of_cpus, cpus * sizeof(CacheList));
    return false;
  }
  cpu_lists_ = static_cast<CacheList*>(of_cpus);
  node_lists_ = static_cast<NodeList*>(of_nodes);
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    CacheList* const list = new (cpu_lists_ + cpu) CacheList;
    list->node = static_cast<std::int32_t>(cpus_.peek(cpu).lifo.node);
    list->next_trim_ms.store(now_ms() + first_trim_ms, std::memory_order_relaxed);
  }
  for (int node = 0; node < node_count_; ++node) new (node_lists_ + node) NodeList;
  for (int node = 0; node < node_count_; ++node) node_lists_[node].node = node;
  return true;
}

template <class Policy>
void Cache<Policy>::destroy_lists() noexcept {
  pages::metadata_free(cpu_lists_, cpus_.count() * sizeof(CacheList));
  pages::metadata_free(node_lists_, static_cast<std::size_t>(node_count_) * sizeof(NodeList));
  cpu_lists_ = nullptr;
  node_lists_ = nullptr;
}

// ---- Trim ---------------------------------------------------------------------------------------

template <class Policy>
void Cache<Policy>::trim() noexcept {
  CacheList& own = own_list();
  install(own, take_remote_free(own));
  shed(own, nullptr, freebatch());
  flush_rlist();
  trim_node(node_list(own.node));
}

template <class Policy>
void Cache<Policy>::trim_node(NodeList& list) noexcept {
  Guard guard(list.list_lock);
  count(Event::locks);
  list.free_list.append(take_remote_free(list), link_offset_);
  free_to_slabs(list, cut_batch(list.free_list));
}

// Who finds that the time has come does the round; the others go on.
template <class Policy>
void Cache<Policy>::trim_if_due(CacheList& own) noexcept {
  if (scripted) return;
  const std::uint64_t now = now_ms();
  std::uint64_t due = own.next_trim_ms.load(std::memory_order_relaxed);
  if (now < due) return;
  // Relaxed: it elects one thread, and guards nothing.
  if (own.next_trim_ms.compare_exchange_strong(due, now + trim_interval_ms,
                                               std::memory_order_relaxed))
    trim();
}

// ---- Empty --------------------------------------------------------------------------------------

// All queues of all CPUs and owners into the slabs. Frees that go on meanwhile may fill them again.
template <class Policy>
void Cache<Policy>::flush_all() noexcept {
  cpus_.drain([this](CpuState& state, unsigned) { flush_cpu(state); });
  for_each_list([this](CacheList& list) { free_to_slabs(list, take_remote_free(list)); });
  for (int node = 0; node < node_count_; ++node) flush_node(node_lists_[node]);
}

// In a drain: nobody else reaches state.
template <class Policy>
void Cache<Policy>::flush_cpu(CpuState& state) noexcept {
  const percpu::Pair lifo = cpus_.template detach<lifo_field>(state);
  free_mixed(lifo.first, reinterpret_cast<std::uintptr_t>(lifo.second));
  const Waiting waiting(cpus_.template detach<rlist_field>(state));
  if (waiting.count != 0)
    free_to_slabs(*waiting.owner, walk_chain(waiting.first, waiting.count, link_offset_));
}

template <class Policy>
void Cache<Policy>::flush_node(NodeList& list) noexcept {
  Guard guard(list.list_lock);
  count(Event::locks);
  free_to_slabs(list, list.free_list.split(list.free_list.count, link_offset_));
}

// Objects of any owners into their slabs, a run of one slab at a time.
template <class Policy>
void Cache<Policy>::free_mixed(void* first, std::size_t count) noexcept {
  Chain chain{first, nullptr, count};
  while (!chain.empty()) {
    void* chunk[flush_chunk];
    const std::size_t n = chain.take(chunk, flush_chunk, link_offset_);
    for (std::size_t i = 0; i < n;) {
      Page* slab;
      const Chain run = run_of_slab(chunk + i, n - i, slab);
      i += run.count;
      CacheList& owner = owner_of(slab);
      EmptySlabs empty;
      PageLock lock(owner);
      put_back(owner, slab, run, empty);
    }
  }
}

// The kernel does one round of trim on every CPU. Here the queues are emptied: a caller asks for
// memory, and no timer will come by to finish the work. False always, as the kernel's 0.
template <class Policy>
bool Cache<Policy>::shrink() noexcept {
  flush_all();
  return false;
}

// ---- Destroy ------------------------------------------------------------------------------------

template <class Policy>
std::size_t Cache<Policy>::destroy() noexcept {
  flush_all();
  if (keeps_empty_slabs_) free_empty_slabs();
  const std::size_t live = sum(&CacheList::nr_slabs) == 0 ? 0 : abandon_slabs();
  destroy_lists();
  counters_.destroy();
  cpus_.destroy();
  return live;
}

// What a TYPESAFE_BY_RCU cache kept: by now no reader can be looking.
template <class Policy>
void Cache<Policy>::free_empty_slabs() noexcept {
  for_each_list([](CacheList& list) {
    EmptySlabs empty;
    PageLock lock(list);
    for (ListNode* node = list.partial.front(); node != nullptr;) {
      Page* const slab = pages::from_link(node);
      node = list.partial.after(node);
      if (slab->counters != 0) continue;
      List::remove(&slab->link);
      list.nr_partial.subtract();
      list.nr_slabs.subtract();
      list.flush_slab_free.add();
      empty.add(slab);
    }
  });
}

// Slabs with live objects stay for ever, without an owner; returns the number of those objects.
template <class Policy>
std::size_t Cache<Policy>::abandon_slabs() noexcept {
  std::size_t live = 0;
  pages::for_each_slab(
      this,
      [](void* context, Page* slab) {
        *static_cast<std::size_t*>(context) += slab->counters;
        slab->word = 0;
        slab->link = {};
        pages::set_owner(slab, nullptr, 0);
      },
      &live);
  return live;
}

// ---- Fork ---------------------------------------------------------------------------------------

// Rank after rank; locks of one rank together, which nobody else holds so.
template <class Policy>
void Cache<Policy>::prepare_fork() noexcept {
  for (int node = 0; node < node_count_; ++node) node_lists_[node].list_lock.unranked().lock();
  for_each_list([](CacheList& list) { list.page_lock.unranked().lock(); });
  for_each_list([](CacheList& list) { list.remote_free.lock.unranked().lock(); });
}

template <class Policy>
void Cache<Policy>::after_fork() noexcept {
  for_each_list([](CacheList& list) { list.remote_free.lock.unranked().unlock(); });
  for_each_list([](CacheList& list) { list.page_lock.unranked().unlock(); });
  for (int node = 0; node < node_count_; ++node) node_lists_[node].list_lock.unranked().unlock();
}

// ---- Tuning -------------------------------------------------------------------------------------

template <class Policy>
bool Cache<Policy>::retune(const Tunables& wanted) noexcept {
  QueueLength length{static_cast<unsigned>(freebatch()), static_cast<unsigned>(hiwater())};
  if (wanted.limit != 0) length.hiwater = wanted.limit;
  if (wanted.batchcount != 0) length.freebatch = wanted.batchcount;
  if (wanted.shared > 0 || !legal(length)) return false;
  hiwater_.store(length.hiwater, std::memory_order_relaxed);
  freebatch_.store(length.freebatch, std::memory_order_relaxed);
  // The last of several drains reads the last length that was set.
  cpus_.drain([this](CpuState& state, unsigned) {
    state.lifo.limit = hiwater();
    if (state.lifo.list.count() <= state.lifo.limit) return;
    const percpu::Pair lifo = cpus_.template detach<lifo_field>(state);
    free_mixed(lifo.first, reinterpret_cast<std::uintptr_t>(lifo.second));
  });
  for_each_list([this](CacheList& list) {  // R3: what waits may be a batch now
    Guard guard(list.remote_free.lock);
    raise_check_flag(list);
  });
  return true;
}

template <class Policy>
Tunables Cache<Policy>::tunables() const noexcept {
  return {static_cast<unsigned>(hiwater()), static_cast<unsigned>(freebatch()), 0};
}

// ---- What it tells ------------------------------------------------------------------------------

// As the kernel's slabinfo: what is in queues counts as active, so every slab is.
template <class Policy>
CacheUsage Cache<Policy>::usage() noexcept {
  CacheUsage usage{};
  std::size_t free_objects = 0;
  for_each_list([&](CacheList& list) {
    Guard guard(list.page_lock);
    usage.slabs += list.nr_slabs.get();
    for (ListNode* node = list.partial.front(); node != nullptr; node = list.partial.after(node))
      free_objects += objects_ - pages::from_link(node)->counters;
  });
  usage.total_objects = usage.slabs * objects_;
  usage.active_objects = usage.total_objects - free_objects;
  usage.active_slabs = usage.slabs;
  usage.slab_bytes = usage.slabs * (pages::page_bytes << geometry_.order);
  return usage;
}

template <class Policy>
Statistics Cache<Policy>::statistics() const noexcept {
  Statistics s{};
  s.alloc = counters_.sum(Event::alloc);
  s.alloc_slab_fill = sum(&CacheList::alloc_slab_fill);
  s.alloc_slab_new = sum(&CacheList::alloc_slab_new);
  s.free = counters_.sum(Event::free);
  s.free_remote = counters_.sum(Event::free_remote);
  s.flush_free_list = counters_.sum(Event::flush_free_list);
  s.flush_free_list_objects = counters_.sum(Event::flush_free_list_objects);
  s.flush_free_list_remote = counters_.sum(Event::flush_free_list_remote);
  s.flush_slab_partial = sum(&CacheList::flush_slab_partial);
  s.flush_slab_free = sum(&CacheList::flush_slab_free);
  s.flush_rfree_list = counters_.sum(Event::flush_rfree_list);
  s.flush_rfree_list_objects = counters_.sum(Event::flush_rfree_list_objects);
  s.claim_remote_list = counters_.sum(Event::claim_remote_list);
  s.claim_remote_list_objects = counters_.sum(Event::claim_remote_list_objects);
  return s;
}

template <class Policy>
QueueFill Cache<Policy>::queues(unsigned cpu) const noexcept {
  const CacheList& list = cpu_lists_[cpu];
  const percpu::Pair lifo = cpus_.template peek_pair<lifo_field>(cpu);
  const Waiting waiting(cpus_.template peek_pair<rlist_field>(cpu));
  return {reinterpret_cast<std::uintptr_t>(lifo.second), waiting.count,
          list.remote_free.count.get(),
          list.remote_free_check.load(std::memory_order_relaxed) != 0};
}

template <class Policy>
PathCounts Cache<Policy>::path_counts() const noexcept {
  const Statistics s = statistics();
  PathCounts counts{};
  counts.alloc_slow = sum(&CacheList::objects_out) + counters_.sum(Event::alloc_claimed);
  counts.free_slow = counters_.sum(Event::free_slow) + s.free_remote;
  if (s.alloc > counts.alloc_slow) counts.alloc_fast = s.alloc - counts.alloc_slow;
  if (s.free > counts.free_slow) counts.free_fast = s.free - counts.free_slow;
  counts.locks = sum(&CacheList::page_locks) + counters_.sum(Event::locks);
  counts.remote_frees = s.flush_rfree_list_objects;
  counts.slabs_created = s.alloc_slab_new;
  counts.slabs_freed = s.flush_slab_free;
  return counts;
}

}  // namespace kmem::slqb
