// SLQB: free objects wait in linked queues, one a CPU; every slab has an owner, and objects that
// others free go back to it in batches.
//
// 1. Picture (a node's list is an owner like a CPU's; it has a free list in place of a LIFO)
//
//      CPU 0                                          CPU 1
//      lifo   -> o -> o -> o                          lifo   -> o -> o
//      rlist  -> o -> o   (all of one owner) ----.    rlist
//                                                |
//      owner list of CPU 0                       |    owner list of CPU 1
//      partial      slab <-> slab <-> slab       |    partial      slab <-> slab
//      remote_free                               '--> remote_free  -> o -> o -> o
//      check flag   down                              check flag   up: a batch waits
//
//    alloc pops the CPU's LIFO; else it claims the owner list's remote_free if the check flag is
//    up; else it takes one object of the first partial slab; else it makes a slab.
//
//    free pushes on the LIFO an object of any slab on the CPU's node. A LIFO over hiwater sheds its
//    most recent freebatch: own objects into their slabs, others by way of rlist to their owner's
//    remote_free. Objects of another node go to rlist at once.
//
// 2. States of a slab, by its inuse (counters): objects that are not on its own free list
//      partial  0 < inuse < objects: on its owner's partial list
//      full     inuse == objects: on no list; its next free finds it through the object's page
//      empty    inuse == 0: freed at once (TYPESAFE_BY_RCU: kept as partial until destroy)
//    An object in any queue counts as in use. A slab is private from page allocation until
//    add_slab(), and again when it has become empty. Its owner never changes: the CPU whose slow
//    path made it if the page is of that CPU's node, else the page's node.
//
// 3. Who may touch what (order of the locks: common/sync/lock_rank.h)
//      lifo, rlist         an operation of common/percpu/sequences.h, or the visitor of a drain
//      node's free list    NodeList::list_lock
//      partial, a slab's free_list, counters and link    its owner's CacheList::page_lock
//      remote_free         RemoteFree::lock; its count is read without
//      remote_free_check   written under RemoteFree::lock, read without
//      hiwater, freebatch  written by retune(), read at any time
//    A thread holds one page_lock or one RemoteFree::lock, never both. A slow path decides once
//    which CPU's owner list it serves; being moved to another CPU then costs speed only.
//
// 4. Guarantees of remote frees
//      R1 a CPU's rlist holds objects of one owner; another owner's arrival sends them off first
//      R2 below the bound of R4, sending a batch writes the owner's remote_free line and, once a
//         batch waits there, its check flag: nothing that the owner's own slow paths write
//      R3 the check flag is up whenever freebatch objects or more wait; fewer wait for the next
//         trim, for a shrink, or until there is no memory for a slab
//      R4 once more than hiwater / 2 wait, further batches are freed into the owner's slabs by the
//         freeing CPU, so an owner that never allocates holds back a bounded number of objects
//      R5 a batch is handed over under RemoteFree::lock, so the owner sees its links
//      R6 no object is lost or doubled by a migration or a drain: it is in one queue, in its slab,
//         or in the hands of one thread
//
// 5. Invariants, checked by validate()
//      I1  every page of a slab names this cache, and its first page an owner list of its node
//      I2  a slab's free list has objects - inuse objects, all its own
//      I3  a slab is on its owner's partial list just when it has a free object
//      I4  nr_slabs counts an owner's slabs
//      I5  no slab is empty, but for TYPESAFE_BY_RCU
//      I6  a LIFO is as long as its count, of this cache's objects on the CPU's node
//      I7  an rlist is as long as its count, of objects of the owner that it names
//      I8  a remote_free is as long as its count and ends at its last, of its owner's objects
//      I9  the check flag is up if freebatch objects or more wait
//      I10 no more objects are in queues than are in use
//
// 6. Unlike Linux: a thread can be migrated between any two steps, so a slow path takes objects
//    out, works on them privately, and installs them by one operation. rlist is pushed at its head:
//    appending would need a third word. Trim has no timer: slow paths do a round when 3 s have
//    passed on their CPU's list, or the caller does. Shrink empties the queues instead of one round
//    of trimming. Bulk calls, which this design never had. More in README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/slqb/geometry.h"
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
#include "common/stats/locked_count.h"
#include "common/sync/lock_for.h"
#include "common/sync/ranked_lock.h"

namespace kmem::slqb {

using pages::Page;

// ---- Structures ---------------------------------------------------------------------------------

struct CpuState {
  percpu::SlotHeader header;
  percpu::CountedList lifo;  // limit: hiwater
  percpu::OwnedList rlist;   // its second word is a Waiting
};
static_assert(std::is_trivially_copyable_v<CpuState>);

// What others freed, for the owner to claim.
struct RemoteFree {
  SpinLock lock{LockRank::remote};
  void* first = nullptr;
  void* last = nullptr;
  stats::LockedCount count;
};

// The owner of slabs: one a CPU and one a node. Remote CPUs write the second line only (R2), so
// that the first stays with its owner.
struct alignas(cache_line_bytes) CacheList {
  SpinLock page_lock{LockRank::page_list};
  std::atomic<std::uint32_t> remote_free_check{0};
  std::int32_t node = 0;
  List partial;
  stats::LockedCount nr_partial, nr_slabs;

  alignas(cache_line_bytes) RemoteFree remote_free;

  // Under page_lock, so counting costs no atomic operation.
  alignas(cache_line_bytes) stats::LockedCount page_locks, objects_out, alloc_slab_fill,
      alloc_slab_new, flush_slab_partial, flush_slab_free;
  std::atomic<std::uint32_t> colour_next{0};    // racy: two slabs of one colour do no harm
  std::atomic<std::int32_t> fallback_node{-1};  // where slabs came from when this node had none
  std::atomic<std::uint64_t> next_trim_ms{0};
};

struct NodeList : CacheList {
  alignas(cache_line_bytes) SpinLock list_lock{LockRank::node};
  Chain free_list;  // for those who ask for this node from another
};

// rlist's two words: the newest object; and its owner (48 bits) with the number of objects.
struct Waiting {
  void* first = nullptr;
  CacheList* owner = nullptr;
  std::size_t count = 0;

  explicit Waiting(const percpu::Pair& pair) noexcept
      : first(pair.first),
        owner(reinterpret_cast<CacheList*>(word_of(pair) & owner_mask)),
        count(word_of(pair) >> owner_bits) {}
  static percpu::Pair pack(void* first, const CacheList& owner, std::size_t count) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(&owner);
    KMEM_ASSERT((address & ~owner_mask) == 0 && count >> (64 - owner_bits) == 0);
    return {first, reinterpret_cast<void*>(address | count << owner_bits)};
  }

 private:
  static constexpr unsigned owner_bits = 48;
  static constexpr std::uint64_t owner_mask = (std::uint64_t{1} << owner_bits) - 1;
  static std::uint64_t word_of(const percpu::Pair& pair) noexcept {
    return reinterpret_cast<std::uintptr_t>(pair.second);
  }
};

// Slabs that became empty under a page_lock; declared before the lock is taken, they are freed
// after it is given back.
class EmptySlabs {
 public:
  EmptySlabs() noexcept = default;
  EmptySlabs(const EmptySlabs&) = delete;
  EmptySlabs& operator=(const EmptySlabs&) = delete;
  ~EmptySlabs() {
    while (first_ != nullptr) {
      Page* const slab = first_;
      first_ = static_cast<Page*>(slab->free_list);
      pages::free(slab);
    }
  }
  void add(Page* slab) noexcept {
    slab->free_list = first_;
    first_ = slab;
  }

 private:
  Page* first_ = nullptr;
};

class [[nodiscard]] PageLock {
 public:
  explicit PageLock(CacheList& list, gfp_t gfp = gfp::kernel) noexcept
      : guard_(list.page_lock, gfp) {
    if (guard_) list.page_locks.add();
  }
  explicit operator bool() const noexcept { return static_cast<bool>(guard_); }

 private:
  GuardFor<SpinLock> guard_;
};

// The events are the kernel's; those of slabs are in CacheList, under its lock.
enum class Event : std::uint8_t {
  alloc,  // this and the next: all calls, by policies that count fast paths
  free,
  free_slow,        // that found no room on the LIFO
  free_remote,      // of another node's object
  flush_free_list,  // batches shed by a LIFO
  flush_free_list_objects,
  flush_free_list_remote,  // of those, of another owner
  flush_rfree_list,        // batches sent to an owner
  flush_rfree_list_objects,
  flush_rfree_list_in_place,  // of those batches, freed into the owner's slabs: R4
  claim_remote_list,
  claim_remote_list_objects,
  alloc_claimed,  // objects given out that others had freed to the owner
  locks,          // list_lock and RemoteFree::lock taken; page_lock: CacheList::page_locks
  count
};

// All statistics, under the kernel's names.
struct Statistics {
  std::uint64_t alloc, alloc_slab_fill, alloc_slab_new, free, free_remote, flush_free_list,
      flush_free_list_objects, flush_free_list_remote, flush_slab_partial, flush_slab_free,
      flush_rfree_list, flush_rfree_list_objects, claim_remote_list, claim_remote_list_objects;
};

struct QueueFill {
  std::size_t lifo, rlist, remote_free;
  bool remote_free_check;
};

// Objects looked at together on a flush; and the most that one restartable sequence walks.
inline constexpr std::size_t flush_chunk = 64;
inline constexpr std::size_t cut_most = 256;

inline constexpr std::size_t max_objects = 512;  // of a slab: 8 bytes each in one page

inline constexpr std::uint64_t trim_interval_ms = 3000, first_trim_ms = 1000;

class OwnerChains;

// ---- The cache ----------------------------------------------------------------------------------

template <class Policy>
class Cache {
 public:
  static constexpr const char* name = "slqb";
  static constexpr std::uint8_t tag = 0x40 | Policy::id;
  // 64-byte lines: 96-byte objects have no cache of their own.
  static constexpr KmallocClasses kmalloc_classes{8, std::size_t{2} << 20, false, true, false};
  static constexpr bool merges_caches = false;
  static Geometry geometry(const CacheSpec& spec, unsigned) noexcept { return plan_geometry(spec); }

  Cache() noexcept = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  bool create(const CacheSpec& spec) noexcept;
  std::size_t destroy() noexcept;
  const Geometry& geometry() const noexcept { return geometry_; }

  KMEM_FAST void* alloc(gfp_t gfp) noexcept {
    void* object = alloc_fast();
    return object != nullptr ? object : alloc_slow(gfp);
  }
  // From the CPU alone; nullptr: alloc() knows further places.
  KMEM_FAST void* alloc_fast() noexcept {
    void* object = cpus_.template fast_pop<lifo_field>(link_offset_);
    if (object != nullptr) note(Event::alloc);
    return object;
  }

  // The LIFO refuses objects of another node, and the object that is already its head.
  KMEM_FAST void free(void* object, Page* page) noexcept {
    const std::uint64_t node = page->node;
    const percpu::Push push =
        cpus_.template fast_push<lifo_field>(object, object, std::uint64_t{1}, node, link_offset_);
    if (push != percpu::Push::done) [[unlikely]]
      return free_slow(object, page, push);
    note(Event::free);
  }

  KMEM_FAST bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept {
    const std::size_t most = n < cut_most ? n : cut_most;
    const std::size_t taken = cpus_.template fast_take<lifo_field>(objects, most, link_offset_);
    note(Event::alloc, taken);
    return taken == n || alloc_bulk_slow(gfp, n, objects, taken);
  }

  // Checks and frees all in one pass; or none, when something needs a closer look. Returns how
  // many.
  std::size_t free_bulk_checked(std::size_t n, void** objects) noexcept;

  // On a single node no object's page is looked at, unless the LIFO overflows.
  KMEM_FAST void free_bulk(std::size_t n, void** objects) noexcept {
    if (n == 0) return;
    if (node_count_ != 1) [[unlikely]]
      return free_bulk_by_node(n, objects);
    free_bulk_local(n, objects, 0);
  }

  // objects[0..n), n > 0, all of one node: the first is the LIFO's new head. If it is the head
  // already, its link belongs to the LIFO: it is kept for the slow path to restore.
  KMEM_FAST void free_bulk_local(std::size_t n, void** objects, unsigned node) noexcept {
    void* const first_link = load_link(objects[0], link_offset_);
    const bool linked = link_objects(objects, n, link_offset_);
    if (!linked || cpus_.template fast_push<lifo_field>(
                       objects[0], objects[n - 1], std::uint64_t{n}, std::uint64_t{node},
                       link_offset_) != percpu::Push::done) [[unlikely]]
      return free_bulk_slow(n, objects, node, first_link);
    note(Event::free, n);
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
  CacheUsage usage() noexcept;
  PathCounts path_counts() const noexcept;
  Statistics statistics() const noexcept;
  const char* validate() noexcept;
  void for_each_live(LiveVisitor visit, void* context) noexcept;

  // Around fork(), after percpu::prepare_fork(): no list is half changed while the child's memory
  // is copied. What other threads have in hand is lost to the child.
  void prepare_fork() noexcept;
  void after_fork() noexcept;

  // What waits for and on a CPU; racy.
  QueueFill queues(unsigned cpu) const noexcept;

  // One round of the kernel's timer, for the calling thread's CPU and its node: claims what waits
  // for them, sheds one batch, sends the remote list off.
  void trim() noexcept;

 private:
  static constexpr percpu::Field<percpu::CountedList> lifo_field{offsetof(CpuState, lifo)};
  static constexpr percpu::Field<percpu::OwnedList> rlist_field{offsetof(CpuState, rlist)};
  // The harness that drives Virtual says when time passes: it calls trim().
  static constexpr bool scripted = std::is_same_v<Policy, percpu::Virtual>;

  // alloc.h: sources of objects
  KMEM_SLOW void* alloc_slow(gfp_t gfp) noexcept;
  std::size_t take_any(CacheList& own, gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t claim(CacheList& own, gfp_t gfp, void** out, std::size_t want) noexcept;
  Chain take_remote_free(CacheList& list, gfp_t gfp = gfp::kernel) noexcept;
  std::size_t take_from_fallback_node(CacheList& own, gfp_t gfp, void** out,
                                      std::size_t want) noexcept;
  std::size_t take_from_node(NodeList& list, gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t take_from_partial(CacheList& list, gfp_t gfp, void** out, std::size_t want) noexcept;
  std::size_t take_from_slab(CacheList& list, Page* slab, void** out, std::size_t want) noexcept;
  std::size_t take_from_new_slab(CacheList& own, gfp_t gfp, int node, void** out,
                                 std::size_t want) noexcept;
  Page* new_slab(gfp_t gfp, int node, std::uint32_t colour) noexcept;
  std::size_t carve(Page* slab, void** out, std::size_t want) noexcept;
  bool add_slab(CacheList& owner, Page* slab, gfp_t gfp) noexcept;
  void* alloc_from_node(gfp_t gfp, int node) noexcept;

  // free.h: destinations of objects
  KMEM_SLOW void free_slow(void* object, Page* page, percpu::Push refusal) noexcept;
  bool splice(Chain& chain, unsigned node) noexcept;
  void install(CacheList& own, Chain chain) noexcept;
  void shed(CacheList& own, void* object, std::size_t n) noexcept;
  void flush(CacheList& own, void** objects, std::size_t n) noexcept;
  void flush_chain(CacheList& own, Chain chain) noexcept;
  Chain run_of_slab(void** objects, std::size_t n, Page*& slab) const noexcept;
  void free_to_remote(CacheList& owner, Chain chain) noexcept;
  void flush_rlist() noexcept;
  void raise_check_flag(CacheList& owner) noexcept;
  void send_home(CacheList& owner, const Chain& chain) noexcept;
  void free_to_slabs(CacheList& owner, Chain chain) noexcept;
  void put_back(CacheList& owner, Page* slab, const Chain& run, EmptySlabs& empty) noexcept;
  KMEM_SLOW void report_double_free(const void* object) noexcept;

  // bulk.h: many objects
  KMEM_SLOW bool alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                 std::size_t taken) noexcept;
  KMEM_SLOW void free_bulk_slow(std::size_t n, void** objects, unsigned node,
                                void* first_link) noexcept;
  KMEM_FAST std::size_t link_all(std::size_t n, void** objects, void*& first_link) const noexcept;
  KMEM_SLOW void free_bulk_by_node(std::size_t n, void** objects) noexcept;
  void free_bulk_remote(std::size_t n, void** objects) noexcept;
  std::size_t drop_repeats(std::size_t n, void** objects) noexcept;

  // drain.h: the whole cache
  bool create_lists() noexcept;
  void destroy_lists() noexcept;
  void flush_all() noexcept;
  void flush_cpu(CpuState& state) noexcept;
  void flush_node(NodeList& list) noexcept;
  void free_mixed(void* first, std::size_t count) noexcept;
  std::size_t abandon_slabs() noexcept;
  void trim_if_due(CacheList& own) noexcept;
  void trim_node(NodeList& list) noexcept;
  void free_empty_slabs() noexcept;

  // validate.h: the invariants, one by one
  struct Census;
  const char* validate_list(CacheList& list, Census& census) noexcept;
  const char* validate_slabs(Census& census) noexcept;
  const char* validate_slab(Page* slab, Census& census) noexcept;
  const char* validate_cpu(const CpuState& state, Census& census) const noexcept;
  const char* validate_queue(const Chain& chain, const CacheList* owner, int node,
                             const char* broken, Census& census) const noexcept;
  void visit_live(Page* slab, LiveVisitor visit, void* context) noexcept;

  // Small helpers
  static Page* slab_of(const void* object) noexcept { return pages::page_of(object)->head; }
  static CacheList& owner_of(const Page* slab) noexcept {
    return *reinterpret_cast<CacheList*>(slab->word);
  }
  CacheList& own_list() const noexcept { return cpu_lists_[cpus_.cpu()]; }
  NodeList& node_list(int node) const noexcept {
    KMEM_ASSERT(node >= 0 && node < node_count_);
    return node_lists_[node];
  }
  template <class Visit>
  void for_each_list(Visit visit) const noexcept {
    for (unsigned cpu = 0; cpu < cpus_.count(); ++cpu) visit(cpu_lists_[cpu]);
    for (int node = 0; node < node_count_; ++node)
      visit(static_cast<CacheList&>(node_lists_[node]));
  }
  std::uint64_t sum(stats::LockedCount CacheList::*member) const noexcept {
    std::uint64_t total = 0;
    for_each_list([&](const CacheList& list) { total += (list.*member).get(); });
    return total;
  }
  char* first_object(const Page* slab) const noexcept {
    return pages::address_of(slab) + slab->first_object;
  }
  KMEM_FAST ObjectRange range_of(const Page* slab) const noexcept {
    return {first_object(slab), objects_};
  }
  // A batch, or what there is of it.
  Chain cut_batch(Chain& chain) const noexcept {
    const std::size_t batch = freebatch();
    return chain.split(batch < chain.count ? batch : chain.count, link_offset_);
  }
  std::size_t hiwater() const noexcept { return hiwater_.load(std::memory_order_relaxed); }
  std::size_t freebatch() const noexcept { return freebatch_.load(std::memory_order_relaxed); }
  void count(Event event, std::uint64_t n = 1) noexcept { counters_.add(cpus_.cpu(), event, n); }
  KMEM_FAST void note(Event event, std::uint64_t n = 1) noexcept {
    if constexpr (Policy::counts_fast_paths) count(event, n);
  }

  // First line: the fast paths and owns(), up to the gate that cpus_ starts with.
  std::size_t link_offset_ = 0;
  ObjectDivider divider_;
  int node_count_ = 1;
  unsigned objects_ = 0;
  bool keeps_empty_slabs_ = false;  // TYPESAFE_BY_RCU
  typename Policy::template Cpus<CpuState> cpus_;
  std::atomic<unsigned> hiwater_{0}, freebatch_{0};
  CacheList* cpu_lists_ = nullptr;
  NodeList* node_lists_ = nullptr;
  Geometry geometry_{};
  CacheSpec spec_;
  stats::Counters<Event> counters_;
};

extern template class Cache<percpu::Rseq>;
extern template class Cache<percpu::Locked>;
extern template class Cache<percpu::Virtual>;

}  // namespace kmem::slqb
