// Per-CPU state of a cache: its shapes, and the operations that change it. This file is the
// contract in words; how it is kept is in rseq_x86_64.h (restartable sequences), locked.h (a lock a
// CPU slot), virtual.h (the harness says which CPU) and atomic.h (16-byte compare-exchange, for
// OwnedList only).
//
// A policy P is a type with P::name, P::id, P::counts_fast_paths and P::Cpus<State>. State is a
// backend's per-CPU structure: it starts with a SlotHeader, is trivially copyable, all zeros means
// "list empty, array empty and full, no slab", and it holds the shapes below as members.
// Cpus<State> is a member of the cache; it reaches the current CPU's State, whichever that is at
// that instant.
//
// 1. Rules for callers
//    R1 A thread can be preempted, migrated or interrupted by a signal between any two operations:
//       only one operation is atomic. A slow path takes things out, works on them privately, and
//       puts them back by another operation, perhaps on another CPU.
//    R2 Every operation may refuse (null, false, 0, refused) though it could have succeeded: a
//       drain is under way, or the policy is in fallback (fast_ only). A slow path must get along
//       without per-CPU state then: from the node's lists, and back to them.
//    R3 No lock is held at an operation, and none of the operations waits (Locked: for the holder
//       of the slot's lock, for a few instructions).
//    R4 Objects put in are the callee's, objects taken out are the caller's, nobody else's. Memory
//       behind a free pointer stays mapped for ever (the arena is never unmapped), so a sequence
//       may read a link that is out of date; it then restarts before it commits.
//
// 2. Shapes (each at a 16-byte aligned offset; a Field<T> template argument names one)
//    OwnedList     objects linked through themselves, all of one owner (a slab). SLUB's CPU slab.
//    CountedList   objects linked through themselves, counted, with a limit of at most 65535.
//                  SLQB's LIFO; SLUB's list of partial slabs. Head and count share a word.
//    PointerArray  a window [bottom, top) of pointers; pushed and popped at the top, flushed from
//                  the bottom (oldest first). SLAB's array.
//
// 3. Operations (slot: this CPU's State + the field's offset; link: offset of the free pointer in
//    an object; all before "commit" has no effect when it is interrupted, and starts over)
//
//    void* pop<F>(link)                      OwnedList, CountedList
//        head = slot.head; if head == 0 return null
//        next = *(head + link)
//        commit slot.head = next  (CountedList: and count - 1, in the same store)
//        return head
//    Push push<F>(first, last, owner, link)  OwnedList; a chain already linked from first to last
//        if slot.head == first return duplicate        (freed twice in a row)
//        if slot.owner != owner return refused
//        *(last + link) = slot.head
//        commit slot.head = first
//    Push push<F>(first, last, n, node, link)  CountedList
//        if slot.head == first return duplicate
//        if slot.node != node return refused
//        if slot.count + n > slot.limit return refused
//        *(last + link) = slot.head
//        commit (head, count) = (first, count + n)
//        Either push may be refused when it starts over: last's link is then of no meaning.
//    size_t take<F>(out, n, link)            OwnedList, CountedList: up to n objects off the head
//        walk at most n links, storing each object to out[0..k); commit as pop; return k
//    Pair read<F>()                          OwnedList, CountedList: (head, owner) or (head, count)
//        both words as they were at one instant; (0, 0) if unavailable
//    bool cas<F>(expected, desired)          OwnedList, CountedList
//        if slot header says not live return false
//        if pair != expected return false;  commit pair = desired (one store)
//        There is no ABA protection: compare only what may be replaced when it merely looks equal
//        (a whole list taken or replaced by its head is fine; popping by cas is not).
//    void* pop<F>()                          PointerArray
//        if top == bottom return null;  object = entry[top - 1]; touched = 1;  commit top = top - 1
//    Push push<F>(object, node)              PointerArray
//        if slot.node != node return refused
//        if top != bottom and entry[top - 1] == object return duplicate
//        if top == end return refused
//        entry[top] = object;  commit top = top + 1
//    size_t take<F>(out, n)                  PointerArray: up to n newest; out[0] is the newest's
//        oldest neighbour, that is: entry order is kept (a block copy); touched = 1 if any
//    size_t put<F>(in, n, node)              PointerArray: as many of in[0..n) as there is room
//        for; 0 if slot.node != node
//    size_t take_oldest<F>(out, n)           PointerArray: up to n from the bottom, oldest first;
//        commit (bottom, end) = (bottom + k, min(bottom + k + limit, capacity))
//    bool make_room<F>()                     PointerArray: moves the window down to 0 where that
//        does not overlap; true if top < end afterwards. capacity >= 2 * limit makes that always
//        possible when count < limit.
//    fast_pop, fast_push, ...                the same, but Rseq's are the bare sequence: in
//        fallback they refuse. For fast paths; the slow path's first source is the plain form of
//        the same.
//
// 4. Whole-cache operations
//    bool create(init, bytes = sizeof(State))   all CPUs' State zeroed, header live, init(State&,
//                          cpu, node) called; bytes, if entries follow the State; at most 1 MiB
//    void destroy()
//    void drain(visit)     visit(State&, cpu) for every CPU while no other operation can reach it;
//        operations elsewhere refuse meanwhile. Serialized over the process (LockRank::drain);
//        visit may take locks of rank above cpu. Not from a signal handler.
//    bool resize(visit, init, bytes)   a drain that ends with new States of bytes each, zeroed;
//        init is called as in create(); false: no memory, and visit was not called
//    static Pair detach<F>(State&)   in visit: a list's pair, which is (0, 0) afterwards. The only
//        way to an OwnedList's owner that holds for every policy (Atomic keeps it elsewhere)
//    const State& peek(cpu)   racy, for statistics;  Pair peek_pair<F>(cpu) likewise, of a list
//    unsigned cpu()           a hint of the current CPU's id;  unsigned count()  number of CPU ids
//    int node()               node of the current CPU
#pragma once

#include <cstddef>
#include <cstdint>

namespace kmem::percpu {

struct alignas(16) SlotHeader {
  std::uint32_t lock;  // Locked, Virtual, fallback: 0 free, 1 held
  std::uint32_t live;  // 1 in a real slot; 0 in the dummy area
  std::uint64_t reserved;
};

struct alignas(16) OwnedList {
  void* head;
  void* owner;  // Atomic: a transaction id stands here, and the owner in atomic_owner
  void* atomic_owner;
  std::uint64_t reserved;
};

// Head and count in one word, so that an 8-byte store changes both: measured on Zen 4, a pair of
// push and pop takes 3.7 TSC cycles, and 19.7 when each ends in a 16-byte store, which does not
// reach the next load as fast. Addresses of processes have 47 bits.
class CountedHead {
 public:
  static constexpr std::uint64_t count_most = 0xffff;

  CountedHead() noexcept = default;
  explicit CountedHead(std::uint64_t word) noexcept : word_(word) {}
  CountedHead(const void* head, std::uint64_t count) noexcept
      : word_(reinterpret_cast<std::uintptr_t>(head) << 16 | count) {}
  void* head() const noexcept { return reinterpret_cast<void*>(word_ >> 16); }
  std::uint64_t count() const noexcept { return word_ & count_most; }
  bool operator==(const CountedHead&) const = default;

 private:
  std::uint64_t word_;
};

struct alignas(16) CountedList {
  CountedHead list;
  std::uint64_t reserved;
  std::uint64_t limit;
  std::uint64_t node;
};

struct alignas(16) PointerArray {
  std::uint32_t top, bottom, end, touched;
  std::uint32_t limit, capacity;
  std::uint64_t node;
  // capacity entries follow, at entries(array)
};
inline void** entries(PointerArray& array) noexcept { return reinterpret_cast<void**>(&array + 1); }
static_assert(sizeof(OwnedList) == 32 && sizeof(CountedList) == 32 && sizeof(PointerArray) == 32);

// Two words that change together.
struct alignas(16) Pair {
  void* first;
  void* second;
  bool operator==(const Pair&) const = default;
};

// Names a member of State by its offset, as a template argument: an immediate in the sequences.
template <class T>
struct Field {
  using Type = T;
  std::uint32_t offset;
};

enum class Push : std::uint8_t { done, refused, duplicate };

inline constexpr unsigned unit_shift = 20;  // 1 MiB of address space a CPU and area chunk

// Which policy runs, and why: for statistics, provenance and the user's question "am I per-CPU?".
struct Running {
  const char* asked;    // "rseq", "locked", "virtual", "atomic"
  const char* running;  // what serves: "rseq", "locked", ...
  const char* reason;   // "glibc registered rseq and membarrier is there", "no rseq: ...", "forced"
};

// Starts the area, once: finds out whether rseq and membarrier can be had (KMEM_PERCPU=locked
// forces the fallback). False: no address space.
bool start() noexcept;
bool rseq_available() noexcept;

// Around fork(): no State is half changed while the child's memory is copied. after_fork() in
// parent and child. The caller holds no lock of rank drain or above.
void prepare_fork() noexcept;
void after_fork() noexcept;

// The Virtual machine: number of CPU ids and nodes (CPUs split in equal runs), set before caches
// are created with it; then each thread says which CPU it is on. Defaults: 64 CPUs, nodes::count().
void set_virtual_machine(unsigned cpus, int nodes) noexcept;
void enter_virtual_cpu(unsigned cpu) noexcept;

}  // namespace kmem::percpu
