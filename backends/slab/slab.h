// SLAB: free objects wait in arrays of pointers, and move between CPUs and slabs in batches.
//
// 1. Picture
//      CPU 0         CPU 1            node 0                             a slab
//      array         array            shared array (8 batches)           [colour| o | X | o | X ]
//      [....oooo]    [......oo] <-->  [...ooooooooooo]  <-->  partial -> index: 1 3 | 2 0
//       bottom^ ^top                                          full             active^
//                                     an alien array for      free       from active on: the
//                                     each other node: [..oo]            numbers of free objects
//    alloc pops the newest object of the CPU's array. An empty array takes a batch from the end of
//    the shared array, else from slabs. A full one gives its oldest batch to the shared array, else
//    to the slabs.
//
// 2. States of a slab, by how many of its objects it lacks (active): in use, or in some array
//      partial  0 < active < objects      full  active == objects      free  active == 0
//    Each is on the node's list of that name. Free slabs stay while the node has at most free_limit
//    free objects, and until nobody has wanted one for some seconds. A slab is private from its
//    page allocation until link_slab(), and again when it was taken off the lists to be destroyed.
//
// 3. Who may touch what (lock order: common/sync/lock_rank.h; alien before node)
//      a CPU's array            an operation of common/percpu/sequences.h, or a drain's visitor
//      lists, shared array,     the holder of the node's lock
//      free_list, counters and
//      link of a listed slab
//      an alien array           the holder of its lock; one node's lock may be taken under it
//    Objects under way are in a private batch: taken out of an array by one operation and put into
//    another by a second, on whichever CPU the thread is then. What does not fit goes to the node.
//
// 4. Invariants, checked by validate()
//      I1 a slab is on the list that its active count names
//      I2 total_slabs, free_slabs and free_objects are what the lists hold
//      I3 a slab's free numbers are below objects, each there once
//      I4 bottom <= top <= end <= capacity, end - bottom <= limit; no array is over its limit
//      I5 an array holds objects of this cache, in use in their slabs, and of the array's node
//      I6 no array holds an object twice
//      I7 the index array is where the cache's management keeps it; in an object: nowhere while the
//         slab is full, else in the object that is its last number
//      I8 every page of a slab names this cache; its first object is at a colour's offset
//
// 5. Unlike Linux: nothing masks interrupts, so a thread may be on another CPU when it puts the
//    rest of a batch back. There is no timer: reap() is one round of it, run by slow paths when 2 s
//    have passed, or by the caller. No freelist randomisation, no pfmemalloc. TYPESAFE_BY_RCU
//    caches keep their empty slabs until destroy(). Bulk calls copy whole batches. More in
//    README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/slab/geometry.h"
#include "common/base/assert.h"
#include "common/base/attributes.h"
#include "common/base/intrusive_list.h"
#include "common/pages/pages.h"
#include "common/percpu/policies.h"
#include "common/slab/owned.h"
#include "common/slab/spec.h"
#include "common/stats/counters.h"
#include "common/stats/locked_count.h"
#include "common/sync/lock_for.h"
#include "common/sync/ranked_lock.h"

namespace kmem::slab {

using pages::Page;

// ---- Structures ---------------------------------------------------------------------------------

// Array entries follow it: twice the limit, for the window to slide in.
struct CpuState {
  percpu::SlotHeader header;
  percpu::PointerArray array;
};
static_assert(std::is_trivially_copyable_v<CpuState>);

// A node's array, between its CPUs and its slabs; newest at the end. Under the node's lock, but for
// racy looks that decide whether the lock is worth taking, and for how much. Flushes and alien
// arrays fill it to its limit; bulk frees to what bulk calls lately asked for at once (demand), if
// that is more: it then grows.
struct SharedArray {
  void** entries = nullptr;
  std::atomic<unsigned> available{0};
  std::atomic<unsigned> limit{0};
  std::atomic<unsigned> capacity{0};  // entries that there is room for
  std::atomic<unsigned> demand{0};
  bool touched = false;
};
// So much does bulk demand keep at most: objects, and bytes of them.
inline constexpr std::size_t max_demand = 1024;
inline constexpr std::size_t max_demand_bytes = std::size_t{1} << 20;

// Objects of another node, freed on this one.
inline constexpr unsigned alien_limit = 12;
struct alignas(64) AlienArray {
  SpinLock lock{LockRank::alien};
  unsigned available = 0;
  void* entries[alien_limit];
};

using stats::LockedCount;

struct alignas(64) NodeLists {
  SpinLock lock{LockRank::node};
  int node = 0;
  List partial, full, free;
  std::size_t total_slabs = 0, free_slabs = 0;
  std::size_t free_limit = 0;                // in objects
  std::atomic<std::size_t> free_objects{0};  // read without the lock, as shared.available
  SharedArray shared;
  std::atomic<unsigned> colour_next{0};  // racy: two slabs of one colour do no harm
  bool free_touched = false;             // a free slab was wanted since the last look of the reaper
  unsigned cpus = 0;
  unsigned reap_alien = 0;       // whose alien array the reaper drains next
  AlienArray* aliens = nullptr;  // one for each node; null on a single one
  LockedCount locks, alloc_misses, free_misses, list_allocs, slabs_created, slabs_freed, reaped;
  LockedCount max_active, max_free_slabs;
};

enum class Event : std::uint8_t {
  alloc_hit,       // from the CPU's array
  alloc_miss,      // without a look at the node's lists; else NodeLists::alloc_misses
  free_hit,        // into the CPU's array
  node_alloc,      // on another node than the CPU's
  remote_free,     // of another node's object
  alien_overflow,  // alien array full
  error,           // no memory for a slab
  count
};

// The kernel's ` : globalstat` and ` : cpustat` of slabinfo.
struct Statistics {
  std::uint64_t listallocs, maxobjs, grown, reaped, error, maxfreeable, nodeallocs, remotefrees,
      alienoverflow;
  std::uint64_t allochit, allocmiss, freehit, freemiss;
};

// The longest batch moved at once: private batches are on the stack. Longer ones take turns.
inline constexpr unsigned max_batch = 256;
inline constexpr unsigned untouched_batch = 16;
inline constexpr unsigned max_limit = 32768;  // entries of a CPU: half a MiB of address space

inline constexpr std::uint64_t cpu_reap_ns = 2'000'000'000;  // the node part: every second round

struct Batch {
  std::size_t count = 0;
  void* objects[max_batch];
};

// ---- The cache ----------------------------------------------------------------------------------

template <class Policy>
class Cache {
 public:
  static constexpr const char* name = "slab";
  static constexpr std::uint8_t tag = 0x10 | Policy::id;
  static constexpr KmallocClasses kmalloc_classes{32, 8192, true, true, false};
  static constexpr bool merges_caches = true;
  static Geometry geometry(const CacheSpec& spec, unsigned cpus) noexcept {
    return plan_layout(spec, cpus).geometry;
  }

  Cache() noexcept = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  bool create(const CacheSpec& spec) noexcept;
  std::size_t destroy() noexcept;
  const Geometry& geometry() const noexcept { return layout_.geometry; }

  KMEM_FAST void* alloc(gfp_t gfp) noexcept {
    void* object = alloc_fast();
    return object != nullptr ? object : alloc_slow(gfp);
  }
  // From the CPU alone; nullptr: alloc() knows further places.
  KMEM_FAST void* alloc_fast() noexcept {
    void* object = cpus_.template fast_pop<array_field>();
    if (object != nullptr) note(Event::alloc_hit);
    return object;
  }

  // The array refuses objects of another node, and the object that is already at its top.
  KMEM_FAST void free(void* object, Page* page) noexcept {
    const percpu::Push push = cpus_.template fast_push<array_field>(object, page->node);
    if (push != percpu::Push::done) [[unlikely]]
      return free_slow(object, page, push);
    note(Event::free_hit);
  }

  KMEM_FAST bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept {
    const std::size_t taken = cpus_.template fast_take<array_field>(objects, n);
    note(Event::alloc_hit, taken);
    return taken == n || alloc_bulk_slow(gfp, n, objects, taken);
  }

  // On a single node no object's page is looked at, unless the array overflows into slabs.
  KMEM_FAST void free_bulk(std::size_t n, void** objects) noexcept {
    if (node_count_ != 1) [[unlikely]]
      return free_bulk_by_node(n, objects);
    const std::size_t put = cpus_.template fast_put<array_field>(objects, n, 0);
    note(Event::free_hit, put);
    if (put != n) [[unlikely]]
      free_bulk_overflow(n, objects, put, 0);
  }

  void* alloc_node(gfp_t gfp, int node) noexcept;

  KMEM_FAST bool owns(const Page* page, const void* object) const noexcept {
    if (page->owner != this) return false;
    return range_of(page->head).holds(object, divider_);
  }

  // How many pointers from the front are objects of this cache: cheaper than owns() for each.
  KMEM_FAST std::size_t count_owned(std::size_t n, void* const* objects) const noexcept {
    const auto range = [this](const Page* slab) { return range_of(slab); };
    return kmem::count_owned(this, divider_, range, n, objects);
  }

  bool shrink() noexcept;
  bool retune(const Tunables& wanted) noexcept;
  Tunables tunables() const noexcept;
  CacheUsage usage() const noexcept;
  PathCounts path_counts() const noexcept;
  Statistics statistics() const noexcept;
  const char* validate() noexcept;
  void for_each_live(LiveVisitor visit, void* context) noexcept;

  // Around fork(), after percpu::prepare_fork(): no list is half changed while the child's memory
  // is copied. Private batches of other threads are lost to the child.
  void prepare_fork() noexcept;
  void after_fork() noexcept;

  // One round of the kernel's timer: an alien array of each node, every CPU's array, and every
  // second round the shared arrays and free slabs. A round that finds another under way does
  // nothing.
  void reap() noexcept;

 private:
  static constexpr percpu::Field<percpu::PointerArray> array_field{offsetof(CpuState, array)};
  // The harness that drives Virtual says when time passes: it calls reap().
  static constexpr bool scripted = std::is_same_v<Policy, percpu::Virtual>;

  static std::size_t state_bytes(unsigned limit) noexcept {
    return sizeof(CpuState) + 2 * std::size_t{limit} * sizeof(void*);
  }

  // alloc.h: sources of objects
  KMEM_SLOW void* alloc_slow(gfp_t gfp) noexcept;
  std::size_t refill_size() const noexcept;
  [[gnu::no_sanitize_thread]] bool touched() const noexcept;
  std::size_t refill(NodeLists& lists, gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t take_shared(NodeLists& lists, void** out, std::size_t want) noexcept;
  std::size_t take_from_slabs(NodeLists& lists, void** out, std::size_t want) noexcept;
  std::size_t take_objects(Page* slab, void** out, std::size_t want) noexcept;
  std::size_t grow(gfp_t gfp, int node, void** out, std::size_t want) noexcept;
  Page* new_slab(gfp_t gfp, int node) noexcept;
  bool place_indices(Page* slab) noexcept;
  std::uint32_t next_colour_bytes(NodeLists& lists) noexcept;
  bool link_slab(Page* slab, gfp_t gfp) noexcept;
  void* alloc_from_node(gfp_t gfp, int node) noexcept;
  bool take_one(NodeLists& lists, gfp_t gfp, void** out) noexcept;
  void* alloc_elsewhere(gfp_t gfp, int node) noexcept;
  void put_back(Batch& batch) noexcept;
  bool lock_for(NodeLists& lists, gfp_t gfp) noexcept;
  bool seems_empty(const NodeLists& lists) const noexcept;
  void add_free_objects(NodeLists& lists, std::size_t n) noexcept;
  void note_peak(NodeLists& lists) noexcept;

  // free.h: destinations of objects
  KMEM_SLOW void free_slow(void* object, Page* page, percpu::Push refusal) noexcept;
  bool push_local(void* object, int node) noexcept;
  bool flush() noexcept;
  std::size_t flush_size(const NodeLists& lists) const noexcept;
  void flush_to_node(NodeLists& lists, void** objects, std::size_t n) noexcept;
  void give_to_node(NodeLists& lists, void** objects, std::size_t n) noexcept;
  void give_to_slabs(NodeLists& lists, void** objects, std::size_t n) noexcept;
  std::size_t put_shared(NodeLists& lists, void** objects, std::size_t n) noexcept;
  void append_shared(SharedArray& shared, void** objects, std::size_t n) noexcept;
  void free_block(NodeLists& lists, void** objects, std::size_t n, List& doomed) noexcept;
  void put_objects(NodeLists& lists, Page* slab, void** objects, std::size_t n) noexcept;
  std::size_t shared_room(const NodeLists& lists) const noexcept;
  void unlink_free_slab(NodeLists& lists, List& doomed) noexcept;
  void free_remote(void* object, int node) noexcept;
  void drain_alien(AlienArray& alien, NodeLists& target, List& doomed) noexcept;
  void report_double_free(const void* object) noexcept;

  // bulk.h: many objects
  KMEM_SLOW bool alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                 std::size_t taken) noexcept;
  std::size_t take_from_node(NodeLists& lists, gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t take_batch(NodeLists& lists, gfp_t gfp, void** out, std::size_t want) noexcept;
  void note_demand(NodeLists& lists, std::size_t n) noexcept;
  KMEM_SLOW void free_bulk_overflow(std::size_t n, void** objects, std::size_t put,
                                    int node) noexcept;
  void stow(NodeLists& lists, void** objects, std::size_t n) noexcept;
  std::size_t demand_room(const NodeLists& lists) const noexcept;
  void grow_shared(NodeLists& lists, unsigned capacity) noexcept;
  KMEM_SLOW void free_bulk_by_node(std::size_t n, void** objects) noexcept;
  void free_bulk_local(std::size_t n, void** objects, int node) noexcept;
  void free_bulk_remote(std::size_t n, void** objects, int node) noexcept;

  // drain.h: the whole cache
  bool create_nodes() noexcept;
  void destroy_nodes() noexcept;
  bool create_shared(SharedArray& shared, unsigned limit) noexcept;
  void destroy_shared(SharedArray& shared) noexcept;
  std::size_t abandon_slabs(List& list) noexcept;
  void destroy_slab(Page* slab) noexcept;
  void destroy_slabs(List& doomed) noexcept;
  static void init_array(percpu::PointerArray& array, unsigned limit, int node) noexcept;
  void set_free_limits() noexcept;
  void flush_arrays() noexcept;
  void flush_aliens() noexcept;
  void flush_shared() noexcept;
  void empty_shared(NodeLists& lists, std::size_t n, List& doomed) noexcept;
  void trim_shared(NodeLists& lists) noexcept;
  std::size_t release_free_slabs(NodeLists& lists, std::size_t most) noexcept;
  void reap_if_due() noexcept;
  void reap_aliens() noexcept;
  void reap_arrays() noexcept;
  void reap_nodes() noexcept;
  bool resize_arrays(unsigned limit) noexcept;
  void empty_array(percpu::PointerArray& array, unsigned limit) noexcept;
  bool create_all_shared(SharedArray* arrays, unsigned capacity) noexcept;
  void destroy_all_shared(SharedArray* arrays) noexcept;
  static void swap_entries(SharedArray& a, SharedArray& b) noexcept;
  void replace_shared(SharedArray* fresh) noexcept;
  unsigned machine_cpus() const noexcept;
  int home_of(int node) const noexcept;

  // validate.h: what the cache says about itself
  Page* next_unvisited(NodeLists& lists, std::uint64_t round, bool (&in_use)[max_objects]) noexcept;
  const char* validate_array(const percpu::PointerArray& array) noexcept;
  const char* validate_held(const NodeLists& lists, void* const* objects,
                            std::size_t n) const noexcept;
  const char* validate_node(NodeLists& lists) const noexcept;
  const char* validate_lists(const NodeLists& lists) const noexcept;
  const char* validate_slab(const NodeLists& lists, const Page* slab) const noexcept;
  bool indices_in_place(const Page* slab) const noexcept;

  // Small helpers
  NodeLists& lists_of(int node) const noexcept {
    KMEM_ASSERT(node >= 0 && node < node_count_);
    return nodes_[node];
  }
  char* first_object(const Page* slab) const noexcept {
    return pages::address_of(slab) + slab->first_object;
  }
  KMEM_FAST ObjectRange range_of(const Page* slab) const noexcept {
    return {first_object(slab), objects_};
  }
  std::uint64_t number_of(const Page* slab, const void* object) const noexcept {
    return divider_.number(
        static_cast<std::size_t>(static_cast<const char*>(object) - first_object(slab)));
  }
  static std::uint8_t* indices(const Page* slab) noexcept {
    return static_cast<std::uint8_t*>(slab->free_list);
  }
  static Page* slab_of(const void* object) noexcept { return pages::page_of(object)->head; }
  void lock(NodeLists& lists) noexcept {
    lists.lock.lock();
    lists.locks.add(1);
  }
  int here() const noexcept { return home_of(cpus_.node()); }
  void count(Event event, std::uint64_t n = 1) noexcept { counters_.add(cpus_.cpu(), event, n); }
  KMEM_FAST void note(Event event, std::uint64_t n = 1) noexcept {
    if constexpr (Policy::counts_fast_paths) count(event, n);
  }

  // First line: the fast paths and owns().
  typename Policy::template Cpus<CpuState> cpus_;
  ObjectDivider divider_;
  unsigned objects_ = 0;
  int node_count_ = 1;
  std::atomic<unsigned> limit_{0};
  std::atomic<unsigned> batchcount_{0};
  std::atomic<unsigned> shared_factor_{0};
  unsigned capacity_limit_ = 0;  // the longest array that the per-CPU states have room for
  NodeLists* nodes_ = nullptr;
  bool keeps_empty_slabs_ = false;  // TYPESAFE_BY_RCU
  Layout layout_{};
  CacheSpec spec_;
  stats::Counters<Event> counters_;
  std::atomic<std::uint64_t> next_reap_ns_{0};
  std::atomic<bool> reaping_{false};
  unsigned reap_rounds_ = 0;        // by the thread that set reaping_
  std::uint64_t visit_rounds_ = 0;  // for_each_live() marks what it has seen
};

extern template class Cache<percpu::Rseq>;
extern template class Cache<percpu::Locked>;
extern template class Cache<percpu::Virtual>;

}  // namespace kmem::slab
