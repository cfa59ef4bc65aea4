// SLUB as a whole: create, flush, shrink, destroy; usage, live objects, validation.
#pragma once

#include <algorithm>
#include <new>

#include "backends/slub/slub.h"
#include "common/nodes/topology.h"

namespace kmem::slub {

// ---- Life ---------------------------------------------------------------------------------------

template <class Policy>
bool Cache<Policy>::create(const CacheSpec& spec) noexcept {
  geometry_ = slub::geometry(spec, nodes::present_cpus());
  if (geometry_.objects == 0 || !pages::start() || !create_nodes()) return false;
  link_ = geometry_.link_offset;
  slot_bytes_ = geometry_.slot_bytes;
  divider_ = ObjectDivider(static_cast<std::uint32_t>(slot_bytes_));
  ctor_ = spec.ctor;
  cache_name_ = spec.name;
  keeps_empty_slabs_ = (spec.flags & slab_flag::typesafe_by_rcu) != 0;
  const std::uint64_t limit = geometry_.cpu_partial_slabs;
  if (!cpus_.create([limit](CpuState& state, unsigned, int) { state.partial.limit = limit; })) {
    destroy_nodes();
    return false;
  }
  if (!counters_.create(cpus_.count())) {
    cpus_.destroy();
    destroy_nodes();
    return false;
  }
  return true;
}

template <class Policy>
bool Cache<Policy>::create_nodes() noexcept {
  node_count_ = nodes::count();
  const std::size_t bytes = static_cast<std::size_t>(node_count_) * sizeof(SeparateNode);
  nodes_ = static_cast<SeparateNode*>(pages::metadata_alloc(bytes));
  if (nodes_ == nullptr) return false;
  for (int i = 0; i < node_count_; ++i) new (&nodes_[i]) SeparateNode;
  return true;
}

template <class Policy>
void Cache<Policy>::destroy_nodes() noexcept {
  pages::metadata_free(nodes_, static_cast<std::size_t>(node_count_) * sizeof(SeparateNode));
  nodes_ = nullptr;
}

// Slabs with live objects are abandoned: their memory stays, and names no owner any more. The
// caller has waited for readers of a TYPESAFE_BY_RCU cache.
template <class Policy>
std::size_t Cache<Policy>::destroy() noexcept {
  flush_all();
  std::size_t live = 0;
  for (int i = 0; i < node_count_; ++i) {
    Node& node = node_at(i);
    while (Page* slab = node.all.first()) {
      const unsigned inuse = state_of(slab).inuse();
      if (SlabWord::marked(slab, SlabWord::on_partial)) remove_partial(node, slab);
      forget(node, slab);
      live += inuse;
      if (inuse == 0) {
        discard(slab);
      } else {
        pages::set_owner(slab, nullptr, 0);
      }
    }
    KMEM_ASSERT_EQ(node.nr_slabs, 0u);
  }
  counters_.destroy();
  cpus_.destroy();
  destroy_nodes();
  return live;
}

// ---- Flush and shrink ---------------------------------------------------------------------------

template <class Policy>
void Cache<Policy>::flush_all() noexcept {
  cpus_.drain([this](CpuState& state, unsigned) {
    const percpu::Pair list = Cpus::template detach<cpu_list>(state);
    const percpu::Pair partial = Cpus::template detach<cpu_partial>(state);
    if (list.second != nullptr) {
      count(Event::cpuslab_flush);
      deactivate(static_cast<Page*>(list.second), list.first);
    }
    put_partials(static_cast<Page*>(partial.first));
  });
}

// Locks of one rank together, which nobody else holds so.
template <class Policy>
void Cache<Policy>::prepare_fork() noexcept {
  for (int node = 0; node < node_count_; ++node) node_at(node).list_lock.unranked().lock();
}

template <class Policy>
void Cache<Policy>::after_fork() noexcept {
  for (int node = 0; node < node_count_; ++node) node_at(node).list_lock.unranked().unlock();
}

template <class Policy>
bool Cache<Policy>::shrink() noexcept {
  flush_all();
  std::size_t slabs = 0;
  for (int i = 0; i < node_count_; ++i) slabs += shrink_node(node_at(i));
  return slabs != 0;
}

// Discards the empty slabs and puts the fullest first, so that the others may become empty; returns
// how many slabs the node has left.
template <class Policy>
std::size_t Cache<Policy>::shrink_node(Node& node) noexcept {
  List by_free[shrink_promote_max + 1];  // by_free[k]: slabs with k free objects
  SlabChain empty;
  lock(node);
  ListNode* link = node.partial.front();
  while (link != nullptr) {
    Page* const slab = pages::from_link(link);
    link = node.partial.after(link);
    const SlabState state = state_of(slab);
    const bool pinned = SlabWord::marked(slab, SlabWord::pinned);
    if (state.inuse() == 0 && !keeps_empty_slabs_ && !pinned) {
      remove_partial(node, slab);
      forget(node, slab);
      empty.push_front(slab);
    } else if (state.free_objects() <= shrink_promote_max) {
      List::remove(&slab->link);
      by_free[state.free_objects()].push_back(&slab->link);
    }
  }
  for (unsigned free = shrink_promote_max; free > 0; --free) {
    while (ListNode* last = by_free[free].back()) {
      List::remove(last);
      node.partial.push_front(last);
    }
  }
  const std::size_t left = node.nr_slabs;
  node.list_lock.unlock();
  while (Page* slab = empty.pop_front()) discard(slab);
  return left;
}

// ---- Usage --------------------------------------------------------------------------------------

// As in slabinfo: objects of CPU slabs and CPU partial slabs count as active, used or not.
template <class Policy>
CacheUsage Cache<Policy>::usage() noexcept {
  CacheUsage usage{};
  for (int i = 0; i < node_count_; ++i) {
    Node& node = node_at(i);
    Guard guard(node.list_lock);
    usage.slabs += node.nr_slabs;
    usage.total_objects += node.total_objects;
    usage.slab_bytes += node.slab_bytes;
    usage.active_objects += node.total_objects - count_free_on_partial(node);
  }
  usage.active_slabs = usage.slabs;
  return usage;
}

// A list too long to walk under its lock is sampled from both ends and scaled.
template <class Policy>
std::size_t Cache<Policy>::count_free_on_partial(const Node& node) const noexcept {
  constexpr std::size_t sample_max = 10000;
  const std::size_t slabs = node.nr_partial.load(std::memory_order_relaxed);
  const std::size_t from_front = slabs <= sample_max ? slabs : sample_max / 2;
  const std::size_t from_back = slabs <= sample_max ? 0 : sample_max / 2;
  std::size_t free = 0;
  const ListNode* link = node.partial.front();
  for (std::size_t i = 0; i < from_front; ++i, link = node.partial.after(link)) {
    free += state_of(pages::from_link(const_cast<ListNode*>(link))).free_objects();
  }
  link = node.partial.back();
  for (std::size_t i = 0; i < from_back; ++i, link = link->prev) {
    free += state_of(pages::from_link(const_cast<ListNode*>(link))).free_objects();
  }
  const std::size_t sampled = from_front + from_back;
  if (sampled != 0 && sampled < slabs) {
    free = static_cast<std::size_t>(static_cast<unsigned __int128>(free) * slabs / sampled);
  }
  return std::min(free, node.total_objects);
}

template <class Policy>
PathCounts Cache<Policy>::path_counts() const noexcept {
  auto sum = [this](Event event) { return counters_.sum(event); };
  return {.alloc_fast = sum(Event::alloc_fastpath),
          .alloc_slow = sum(Event::alloc_slowpath),
          .free_fast = sum(Event::free_fastpath),
          .free_slow = sum(Event::free_slowpath),
          .locks = sum(Event::list_lock),
          .remote_frees = sum(Event::free_remote),
          .slabs_created = sum(Event::alloc_slab),
          .slabs_freed = sum(Event::free_slab)};
}

// ---- Live objects -------------------------------------------------------------------------------

// The slab that is being visited is pinned, so that a visitor may free its last object and the list
// of all slabs can still be followed.
template <class Policy>
void Cache<Policy>::for_each_live(LiveVisitor visit, void* context) noexcept {
  flush_all();
  for (int i = 0; i < node_count_; ++i) {
    Page* slab = pin_next(node_at(i), nullptr);
    while (slab != nullptr) {
      visit_live(slab, visit, context);
      slab = pin_next(node_at(i), slab);
    }
  }
}

// Pins the slab after slab, or the first, and lets slab go.
template <class Policy>
Page* Cache<Policy>::pin_next(Node& node, Page* slab) noexcept {
  lock(node);
  Page* const next = slab == nullptr ? node.all.first() : AllSlabs::next(slab);
  if (next != nullptr) SlabWord::set_mark(next, SlabWord::pinned);
  bool unwanted = false;
  if (slab != nullptr) {
    SlabWord::clear_mark(slab, SlabWord::pinned);
    unwanted = SlabWord::marked(slab, SlabWord::on_partial) && state_of(slab).inuse() == 0 &&
               may_discard(node, slab);
  }
  if (unwanted) {
    remove_partial(node, slab);
    forget(node, slab);
  }
  node.list_lock.unlock();
  if (unwanted) discard(slab);
  return next;
}

// A set of objects of one slab, by number.
struct ObjectSet {
  static constexpr unsigned words = (max_objects + 64) / 64;
  std::uint64_t bits[words] = {};
  bool insert(std::uint64_t number) noexcept {  // false: it is there already
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    const bool fresh = (bits[number / 64] & bit) == 0;
    bits[number / 64] |= bit;
    return fresh;
  }
  bool contains(unsigned number) const noexcept {
    return (bits[number / 64] >> number % 64 & 1) != 0;
  }
};

template <class Policy>
void Cache<Policy>::visit_live(Page* slab, LiveVisitor visit, void* context) noexcept {
  ObjectSet free;
  const SlabState state = state_of(slab);
  void* object = state.free_list;
  for (unsigned i = 0; i < state.objects() && object != nullptr && is_object(slab, object); ++i) {
    free.insert(number_of(slab, object));
    object = load_link(object, link_);
  }
  for (unsigned i = 0; i < state.objects(); ++i) {
    if (!free.contains(i)) visit(context, object_at(slab, i), i * slot_bytes_);
  }
}

// ---- Validation ---------------------------------------------------------------------------------

// What the walk over CPUs found, for the walk over slabs.
template <class Policy>
struct Cache<Policy>::Census {
  std::size_t cpu_slabs = 0, cpu_partials = 0;    // by the CPUs' state
  std::size_t frozen = 0, unlisted_partials = 0;  // by the slabs' state
};

template <class Policy>
const char* Cache<Policy>::validate() noexcept {
  Census census;
  for (unsigned cpu = 0; cpu < cpus_.count(); ++cpu) {
    if (const char* broken = validate_cpu(cpu, census)) return broken;
  }
  for (int i = 0; i < node_count_; ++i) {
    if (const char* broken = validate_node(node_at(i), census)) return broken;
  }
  if (census.frozen != census.cpu_slabs) return "U4: a frozen slab is one CPU's slab";
  if (census.unlisted_partials != census.cpu_partials) {
    return "U7: slabs on no list that have free objects are on a CPU partial list";
  }
  return nullptr;
}

template <class Policy>
const char* Cache<Policy>::validate_cpu(unsigned cpu, Census& census) noexcept {
  const percpu::Pair list = cpus_.template peek_pair<cpu_list>(cpu);
  const percpu::Pair partial = cpus_.template peek_pair<cpu_partial>(cpu);
  auto* const slab = static_cast<Page*>(list.second);
  if (slab == nullptr && list.first != nullptr) return "U4: a CPU's list has an owner";
  if (slab != nullptr) {
    ++census.cpu_slabs;
    if (slab->owner != this || !state_of(slab).frozen()) return "U4: a CPU slab is frozen";
    if (const char* broken = validate_slab(slab, list.first)) return broken;
  }
  const auto claimed = reinterpret_cast<std::uint64_t>(partial.second);
  if (claimed > geometry_.cpu_partial_slabs) return "U6: a CPU partial list is within its limit";
  std::uint64_t length = 0;
  for (auto* page = static_cast<Page*>(partial.first); page != nullptr && length <= claimed;
       page = SlabChain::next(page)) {
    const SlabState state = state_of(page);
    if (page->owner != this || state.frozen() || state.free_list == nullptr) {
      return "U4: a CPU partial slab has free objects and is not frozen";
    }
    ++length;
  }
  census.cpu_partials += length;
  return length == claimed ? nullptr : "U6: a CPU partial list is as long as its count says";
}

template <class Policy>
const char* Cache<Policy>::validate_node(Node& node, Census& census) noexcept {
  Guard guard(node.list_lock);
  std::size_t slabs = 0, objects = 0, listed = 0, partial = 0;
  for (const ListNode* link = node.partial.front(); link != nullptr;
       link = node.partial.after(link)) {
    ++partial;
    const Page* slab = pages::from_link(const_cast<ListNode*>(link));
    if (!SlabWord::marked(slab, SlabWord::on_partial)) return "U4: a listed slab is marked so";
  }
  for (const Page* slab = node.all.first(); slab != nullptr; slab = AllSlabs::next(slab)) {
    const SlabState state = state_of(slab);
    const bool marked = SlabWord::marked(slab, SlabWord::on_partial);
    ++slabs;
    objects += state.objects();
    if (marked) ++listed;
    if (state.frozen()) ++census.frozen;  // its own list is checked with its CPU's
    if (marked && (state.frozen() || state.free_list == nullptr)) {
      return "U4: a slab on a node's list has free objects and is not frozen";
    }
    if (!marked && !state.frozen() && state.free_list != nullptr) ++census.unlisted_partials;
    if (!state.frozen()) {
      if (const char* broken = validate_slab(slab, nullptr)) return broken;
    }
  }
  if (partial != node.nr_partial.load(std::memory_order_relaxed) || partial != listed) {
    return "U5: nr_partial is the length of the partial list";
  }
  return slabs == node.nr_slabs && objects == node.total_objects
             ? nullptr
             : "U5: nr_slabs and total_objects are what the node has";
}

// cpu_objects: the list of the CPU whose slab it is.
template <class Policy>
const char* Cache<Policy>::validate_slab(const Page* slab, void* cpu_objects) const noexcept {
  const SlabState state = state_of(slab);
  if (state.inuse() > state.objects() || state.objects() == 0) return "U1: inuse <= objects";
  const std::size_t page_count = std::size_t{1} << slab->order;
  for (std::size_t i = 0; i < page_count; ++i) {
    if (slab[i].owner != this || slab[i].head != slab) {
      return "U1: every page of a slab names the cache and the slab";
    }
  }
  ObjectSet seen;
  unsigned lengths[2] = {0, 0};
  void* const heads[2] = {state.free_list, cpu_objects};
  for (int which = 0; which < 2; ++which) {
    for (void* object = heads[which]; object != nullptr; object = load_link(object, link_)) {
      if (!is_object(slab, object)) return "U2: every link is an object of its slab";
      if (!seen.insert(number_of(slab, object))) {
        return "U2: no object is on a free list twice";
      }
      ++lengths[which];
    }
  }
  if (state.inuse() + lengths[0] != state.objects()) return "U3: inuse + free == objects";
  return lengths[1] <= state.inuse() ? nullptr : "U3: a CPU's objects count as in use";
}

}  // namespace kmem::slub
