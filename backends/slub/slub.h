// SLUB: free objects stay in their slab; a CPU allocates by taking over a whole slab's free list.
//
// 1. Picture
//      CPU 0                          node 0                            one slab
//      list    o -> o -> o            partial  slab <-> slab <-> slab   [ o | X | o | X | X | o ]
//      owner   its slab (frozen)      all      every slab, full too       '------>'----------->'
//      partial slab -> slab -> slab                                     its free list
//    alloc pops the CPU's list; free pushes there if the object is of the CPU's slab, and else to
//    the object's own slab, whoever has that. A slab that was full comes back to the CPU that frees
//    its first object: onto that CPU's partial list.
//
// 2. States of a slab: always exactly one
//      state         on_partial  frozen  free list  who may take its free list or relink it
//      CPU slab      no          yes     any        the CPU whose list's owner it is
//      CPU partial   no          no      not empty  the CPU on whose partial list it is
//      node partial  yes         no      not empty  who holds the node's list_lock
//      full          no          no      empty      nobody; who frees its first object has it then
//      private       no          any     any        the one slow path that took it out of another
//      state
//    Anybody may push an object to any slab's free list at any time. The last object of a slab that
//    is neither frozen nor full is freed under list_lock, so that a slab on the node's list can be
//    discarded then and there.
//
// 3. Who may touch what (order of the locks: common/sync/lock_rank.h)
//      CPU list and its owner, CPU partial list   one operation of common/percpu/sequences.h at a
//      time slab's (free list, counters)               16-byte compare-exchange; plain stores by
//      the only
//                                                 one who can change it (set_state())
//      node's lists and counts, marks of slabs    Node::list_lock
//    Slow paths take a slab into private hands by an operation, work on it, and install it by
//    another, perhaps on another CPU. What a CPU does not want any more, or refuses, goes to the
//    slab's node.
//
// 4. Invariants, checked by validate(); U1 to U4 hold for every slab
//      U1 inuse <= objects, and every page of the slab names the cache and the slab
//      U2 every link of a free list is an object of its slab, none is there twice
//      U3 inuse + length of the free list == objects; objects on a CPU's list count as in use
//      U4 the marks, frozen and the lists agree with the table of states
//      U5 nr_partial, nr_slabs, total_objects are what the node's lists hold
//      U6 a CPU partial list is as long as its count says, and within its limit
//      U7 without traffic: the slabs of no list that have free objects are those of the CPU
//      partials
//
// 5. Unlike Linux
//    There are no interrupts to mask: an operation that is interrupted starts over, and a slow path
//    that is migrated gives the slab it holds to its node if the new CPU has one already (Linux
//    flushes the other). There is no tid. Every slab is also on a list of all slabs. What empties
//    or fills a whole slab needs no compare-exchange. Slabs of TYPESAFE_BY_RCU caches stay until
//    destroy(). Object order is not randomised, links are not encoded. More in README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/slub/geometry.h"
#include "backends/slub/slab_state.h"
#include "common/base/assert.h"
#include "common/base/attributes.h"
#include "common/base/bits.h"
#include "common/base/intrusive_list.h"
#include "common/pages/pages.h"
#include "common/percpu/policies.h"
#include "common/slab/chain.h"
#include "common/slab/owned.h"
#include "common/slab/spec.h"
#include "common/stats/counters.h"
#include "common/sync/lock_for.h"
#include "common/sync/ranked_lock.h"

namespace kmem::slub {

// ---- Structures ---------------------------------------------------------------------------------

// kmem_cache_cpu.
struct CpuState {
  percpu::SlotHeader header;
  percpu::OwnedList list;       // free objects of the CPU slab; its owner is that slab
  percpu::CountedList partial;  // slabs through link.next, limit cpu_partial_slabs
};
static_assert(std::is_trivially_copyable_v<CpuState>);

// kmem_cache_node.
struct Node {
  SpinLock list_lock{LockRank::node};
  std::atomic<std::size_t> nr_partial{0};  // written under list_lock; read without it, as a hint
  List partial;
  AllSlabs all;
  std::size_t nr_slabs = 0, total_objects = 0, slab_bytes = 0;
};
// On cache lines of its own: who takes its lock must not take the cache's hot fields from others.
struct alignas(64) SeparateNode {
  Node node;
};

// A benchmark's variant: the first node beside the cache's hot fields, as Linux had it until 2010.
// Everything else is Policy's.
template <class Policy>
struct EmbeddedNode : Policy {
  static constexpr std::uint8_t id = Policy::id | 8;
  static constexpr bool embeds_node = true;
};

// The counters of Linux 6.12, in its order, then our own. Those that even a slow path would feel
// count only where fast paths do (note()): one locked add is as dear as a push to another's slab.
enum class Event : std::uint8_t {
  alloc_fastpath,
  alloc_slowpath,
  free_fastpath,
  free_slowpath,
  free_frozen,
  free_add_partial,
  free_remove_partial,
  alloc_from_partial,
  alloc_slab,
  alloc_refill,
  alloc_node_mismatch,
  free_slab,
  cpuslab_flush,
  deactivate_full,
  deactivate_empty,
  deactivate_to_head,
  deactivate_to_tail,
  deactivate_remote_frees,
  deactivate_bypass,
  order_fallback,
  cmpxchg_double_cpu_fail,
  cmpxchg_double_fail,
  cpu_partial_alloc,
  cpu_partial_free,
  cpu_partial_node,
  cpu_partial_drain,
  list_lock,    // taken
  free_remote,  // of an object whose slab is another CPU's or another node's
  count
};

enum class End : bool { head, tail };

inline constexpr unsigned shrink_promote_max = 32;  // free objects of a slab worth sorting
inline constexpr unsigned slabs_per_hold = 32;      // slabs that bulk takes under one list_lock

// ---- The cache ----------------------------------------------------------------------------------

template <class Policy>
class Cache {
 public:
  static constexpr const char* name = "slub";
  static constexpr std::uint8_t tag = 0x20 | Policy::id;
  static constexpr KmallocClasses kmalloc_classes{8, 8192, true, true, false};
  static constexpr bool merges_caches = true;
  static constexpr bool embeds_node = requires { Policy::embeds_node; };
  static Geometry geometry(const CacheSpec& spec, unsigned cpus) noexcept {
    return slub::geometry(spec, cpus);
  }

  Cache() noexcept = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  bool create(const CacheSpec& spec) noexcept;
  std::size_t destroy() noexcept;
  const Geometry& geometry() const noexcept { return geometry_; }

  KMEM_FAST void* alloc(gfp_t gfp) noexcept {
    void* object = alloc_fast();
    return object != nullptr ? object : alloc_slow(gfp, no_node);
  }
  // From the CPU alone; nullptr: alloc() knows further places.
  KMEM_FAST void* alloc_fast() noexcept {
    void* object = cpus_.template fast_pop<cpu_list>(link_);
    if (object != nullptr) note(Event::alloc_fastpath);
    return object;
  }

  // The CPU's list refuses objects of other slabs, and the object that is already at its head.
  KMEM_FAST void free(void* object, Page* page) noexcept {
    Page* slab = page->head;
    const percpu::Push push = cpus_.template fast_push<cpu_list>(object, object, slab, link_);
    if (push != percpu::Push::done) [[unlikely]]
      return free_slow(object, slab);
    note(Event::free_fastpath);
  }

  KMEM_FAST bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept {
    const std::size_t got = cpus_.template fast_take<cpu_list>(objects, n, link_);
    note(Event::alloc_fastpath, got);
    return got == n || alloc_bulk_slow(gfp, n, objects, got);
  }
  KMEM_FAST void free_bulk(std::size_t n, void** objects) noexcept {
    if (n == 1) return free(objects[0], pages::page_of(objects[0]));
    free_bulk_slow(n, objects);
  }

  void* alloc_node(gfp_t gfp, int node) noexcept;

  KMEM_FAST bool owns(const Page* page, const void* object) const noexcept {
    if (page->owner != this) return false;
    return range_of(page->head).holds(object, divider_);
  }

  // Checks and frees in one pass, from the front, up to what needs a closer look; returns how many.
  std::size_t free_bulk_checked(std::size_t n, void** objects) noexcept;
  // How many from the front are objects of this cache.
  std::size_t count_owned(std::size_t n, void* const* objects) const noexcept;

  bool shrink() noexcept;
  bool retune(const Tunables&) noexcept { return false; }
  // Whether the first node's lock is on the line of what each call reads, as only an embedded
  // one's.
  bool shares_hot_line() const noexcept {
    return line_of(&link_) == line_of(&node_at(0).list_lock);
  }
  Tunables tunables() const noexcept { return {0, 0, 0}; }
  CacheUsage usage() noexcept;
  PathCounts path_counts() const noexcept;
  const char* validate() noexcept;
  void for_each_live(LiveVisitor visit, void* context) noexcept;

  // How ready a CPU is to take partial slabs of other nodes, when its own has none: 0 never, 100
  // nearly always (the default).
  void set_remote_node_defrag_ratio(unsigned percent) noexcept { defrag_ratio_ = percent * 10; }
  // Every CPU's slab and partial slabs go to their nodes.
  void flush_all() noexcept;
  // Around fork(), after percpu::prepare_fork(): no list is half changed while the child's memory
  // is copied.
  void prepare_fork() noexcept;
  void after_fork() noexcept;
  std::uint64_t event_count(Event event) const noexcept { return counters_.sum(event); }
  std::size_t partial_slabs(int node) const noexcept {
    return node_at(node).nr_partial.load(std::memory_order_relaxed);
  }
  const CpuState& peek(unsigned cpu) const noexcept { return cpus_.peek(cpu); }

 private:
  using Cpus = typename Policy::template Cpus<CpuState>;
  static constexpr percpu::Field<percpu::OwnedList> cpu_list{offsetof(CpuState, list)};
  static constexpr percpu::Field<percpu::CountedList> cpu_partial{offsetof(CpuState, partial)};

  // alloc.h: sources of objects
  KMEM_SLOW void* alloc_slow(gfp_t gfp, int node) noexcept;
  void* from_cpu_slab(int node) noexcept;
  void* from_cpu_partial(int node) noexcept;
  void* from_node_partial(gfp_t gfp, int node) noexcept;
  void* from_new_slab(gfp_t gfp, int node) noexcept;
  void* activate(Page* slab, void* list) noexcept;
  void install(Page* slab, void* list) noexcept;
  struct Grab {
    SlabChain use, extra;
  };
  Grab grab_partials(gfp_t gfp, int node, std::size_t objects) noexcept;
  bool may_defragment() noexcept;
  Grab grab_from(Node& node, gfp_t gfp, std::size_t objects) noexcept;
  bool lock_for(Node& node, gfp_t gfp) noexcept;
  void keep_for_cpu(SlabChain& chain) noexcept;
  Page* pop_cpu_partial() noexcept;
  void* take_free_list(Page* slab) noexcept;
  Page* new_slab(gfp_t gfp, int node) noexcept;
  void* link_objects(Page* slab, unsigned first) noexcept;

  // free.h: destinations of objects and slabs
  KMEM_SLOW void free_slow(void* object, Page* slab) noexcept;
  bool free_chain(Page* slab, const Chain& chain) noexcept;
  void free_to_slab(Page* slab, const Chain& chain) noexcept;
  bool free_last(Page* slab, SlabState seen, SlabState desired) noexcept;
  void note_remote(int slab_node, SlabState seen, std::size_t n) noexcept;
  void put_cpu_partial(Page* slab) noexcept;
  void put_partials(Page* first) noexcept;
  void put_node_partial(Page* slab, End end) noexcept;
  bool place(Node& node, Page* slab, End end) noexcept;
  void deactivate(Page* slab, void* list) noexcept;
  Chain walk_free_list(Page* slab, void* list) noexcept;
  void add_partial(Node& node, Page* slab, End end) noexcept;
  void remove_partial(Node& node, Page* slab) noexcept;
  bool may_discard(const Node& node, const Page* slab) const noexcept;
  void forget(Node& node, Page* slab) noexcept;
  void discard(Page* slab) noexcept;
  void report_double_free(Page* slab, const Chain& chain) noexcept;

  // bulk.h: many objects
  KMEM_SLOW bool alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                 std::size_t got) noexcept;
  KMEM_SLOW void free_bulk_slow(std::size_t n, void** objects) noexcept;
  std::size_t bulk_from_cpu_slab(void** out, std::size_t want) noexcept;
  std::size_t bulk_from_cpu_partial(void** out, std::size_t want) noexcept;
  std::size_t bulk_from_node_partial(gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t bulk_from_new_slabs(gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t take_objects(Page* slab, void** out, std::size_t want) noexcept;
  KMEM_FAST std::size_t free_run(std::size_t n, void** objects) noexcept;
  std::size_t detach_run(std::size_t n, void** objects, Page* slab, Chain& chain) noexcept;

  // drain.h: the whole cache
  bool create_nodes() noexcept;
  void destroy_nodes() noexcept;
  std::size_t shrink_node(Node& node) noexcept;
  std::size_t count_free_on_partial(const Node& node) const noexcept;
  Page* pin_next(Node& node, Page* slab) noexcept;
  void visit_live(Page* slab, LiveVisitor visit, void* context) noexcept;
  struct Census;
  const char* validate_cpu(unsigned cpu, Census& census) noexcept;
  const char* validate_node(Node& node, Census& census) noexcept;
  const char* validate_slab(const Page* slab, void* cpu_objects) const noexcept;

  // Small helpers
  // The tail of a slab is shorter than a slot.
  KMEM_FAST ObjectRange range_of(const Page* slab) const noexcept {
    return {pages::address_of(slab), objects_of(slab)};
  }
  Node& node_at(int number) const noexcept {
    if constexpr (embeds_node) {
      if (number == 0) return embedded_;
    }
    return nodes_[number].node;
  }
  Node& node_of(const Page* slab) const noexcept {
    KMEM_ASSERT(slab->node < node_count_);
    return node_at(slab->node);
  }
  int home_node() const noexcept {
    const int node = cpus_.node();
    return node < node_count_ ? node : 0;
  }
  bool node_matches(const Page* slab, int node) const noexcept {
    return node == no_node || slab->node == node;
  }
  void* object_at(const Page* slab, unsigned number) const noexcept {
    return pages::address_of(slab) + number * slot_bytes_;
  }
  std::uint64_t number_of(const Page* slab, const void* object) const noexcept {
    return divider_.number(
        static_cast<std::size_t>(static_cast<const char*>(object) - pages::address_of(slab)));
  }
  bool is_object(const Page* slab, const void* object) const noexcept {
    return owns(pages::page_of(object), object) && pages::page_of(object)->head == slab;
  }
  static std::uintptr_t line_of(const void* place) noexcept {
    return reinterpret_cast<std::uintptr_t>(place) / cache_line_bytes;
  }
  void lock(Node& node) noexcept {
    count(Event::list_lock);
    node.list_lock.lock();
  }
  void count(Event event, std::uint64_t n = 1) noexcept { counters_.add(cpus_.cpu(), event, n); }
  KMEM_FAST void note(Event event, std::uint64_t n = 1) noexcept {
    if constexpr (Policy::counts_fast_paths) count(event, n);
  }

  // First line: the fast paths and owns().
  Cpus cpus_;
  std::size_t link_ = 0;
  struct Nothing {};  // a node that is embedded lies where it hurts: see shares_hot_line()
  [[no_unique_address]] mutable std::conditional_t<embeds_node, Node, Nothing> embedded_;
  ObjectDivider divider_;
  std::size_t slot_bytes_ = 0;

  SeparateNode* nodes_ = nullptr;
  int node_count_ = 0;
  bool keeps_empty_slabs_ = false;  // TYPESAFE_BY_RCU: a reader may look at any time
  Constructor ctor_ = nullptr;
  const char* cache_name_ = "";
  std::atomic<unsigned> defrag_ratio_{1000};
  std::atomic<std::uint32_t> defrag_turn_{0};
  Geometry geometry_{};
  stats::Counters<Event> counters_;
};

extern template class Cache<percpu::Rseq>;
extern template class Cache<percpu::Locked>;
extern template class Cache<percpu::Virtual>;
extern template class Cache<percpu::Atomic>;

}  // namespace kmem::slub
