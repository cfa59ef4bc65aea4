// A memory pool: a reserve of elements over an allocator that may fail. What it promises is in
// <kmem/mempool.h>; this is the part that no backend has to do with (mempool_abi.cc has the rest).
//
// 1. Where an element comes from, in this order
//      the allocator, told not to wait or warn        no lock
//      the reserve, last in first out                 lock_
//      the allocator, with the caller's own mask      no lock
//      a free, after a wait in the queue              lock_ to enter it; then the request's word
//    and where one goes: the oldest request of the queue, else the reserve if that lacks any, else
//    the allocator.
//
// 2. A request is on its thread's stack. In the queue it belongs to the holder of lock_, who fills
//    its slots one by one, the oldest request alone. With the last slot it leaves the queue, its
//    word is set and woken, and it must not be touched again. Since elements are handed over rather
//    than put where anyone may take them, nobody can come first who came later.
//
// 3. A request for many cannot starve or deadlock with its like: only the oldest one holds elements
//    of the reserve, and what it lacks is in the hands of those who do not wait.
//
// 4. Invariants, under lock_
//      I1 curr_nr <= capacity                I3 hungry == (curr_nr < reserve_max), always if I2
//      I2 requests wait only if curr_nr == 0 I4 waiting is the length of the queue
//                                            I5 every element of the reserve is one
//    hungry is read without the lock by a free: one that sees it unset though the reserve lacks
//    elements must not be the last. It is not: who took an element from the reserve has seen hungry
//    set, and so has, by the order in which one word changes, whoever frees that element.
//
// 5. fork: all pools are on a list, so that their locks can be had before it. In the child nobody
//    waits.
#pragma once

#include <cstddef>

#include "common/base/attributes.h"
#include "common/base/flags.h"
#include "common/base/intrusive_list.h"
#include "common/sync/futex.h"
#include "common/sync/ranked_lock.h"
#include "kmem/mempool.h"

namespace kmem {

class Mempool {
 public:
  // An element and where more come from.
  struct Source {
    mempool_alloc_t* alloc;
    mempool_free_t* free;
    void* data;
  };

  explicit Mempool(const Source& source) noexcept : source_(source) {}
  Mempool(const Mempool&) = delete;
  Mempool& operator=(const Mempool&) = delete;

  // Once, first. 0 or -ENOMEM; then only the destructor may follow.
  int fill_first(unsigned min_nr, gfp_t gfp) noexcept;
  // After the last use; false: threads wait, nothing was done.
  bool close() noexcept;

  void* alloc(gfp_t gfp) noexcept {
    void* element = source_.alloc(unwaiting(gfp), source_.data);
    if (element == nullptr || waiting() != 0) [[unlikely]]
      return alloc_rest(element, gfp);
    return element;
  }
  void* alloc_preallocated() noexcept;  // null and ENOMEM
  void free(void* element) noexcept {
    if (!hungry_.load(std::memory_order_relaxed) || absorb(&element, 1) == 0) [[likely]]
      source_.free(element, source_.data);
  }

  // missing of slots[0..count) are null.
  void alloc_bulk(void** slots, unsigned count, unsigned missing) noexcept;
  // To waiters and the reserve, from the front; returns how many.
  unsigned absorb(void** elements, unsigned count) noexcept;

  int resize(unsigned min_nr) noexcept;  // 0 or -ENOMEM

  bool initialized() const noexcept { return elements_ != nullptr; }
  unsigned min_nr() noexcept;
  unsigned curr_nr() noexcept;
  unsigned waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }
  unsigned bulk_max() noexcept;     // what the reserve can serve at one time
  const char* validate() noexcept;  // the broken invariant, or null

  // After how long a waiter asks the allocator again; tests shorten it.
  static void set_retry_ms(unsigned ms) noexcept;

  // For fork handlers (fork.h).
  static void prepare_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  // What a call still wants.
  struct Request {
    void** slots;
    unsigned count;
    unsigned missing;
    ListNode link{};
    FutexWord served{0};

    void fill(void* element) noexcept;
    bool is_served() const noexcept {
      // Acquire: pairs with the release in give(), so that the slots are seen filled.
      return served.load(std::memory_order_acquire) != 0;
    }
  };

  static constexpr gfp_t patient(gfp_t gfp) noexcept {
    return gfp | gfp::nomemalloc | gfp::noretry | gfp::nowarn;
  }
  static constexpr gfp_t unwaiting(gfp_t gfp) noexcept {
    return patient(gfp) & ~(gfp::direct_reclaim | gfp::io);
  }

  KMEM_SLOW void* alloc_rest(void* element, gfp_t gfp) noexcept;
  void wait_for_all(Request& request, gfp_t gfp) noexcept;
  bool ask_source(Request& request, gfp_t gfp) noexcept;
  bool take_all(Request& request, gfp_t gfp) noexcept;
  bool take_or_queue(Request& request) noexcept;
  void wait_once(Request& request, gfp_t gfp) noexcept;

  bool refill(gfp_t gfp) noexcept;
  bool reserve_capacity(unsigned capacity) noexcept;
  void* take_excess() noexcept;

  // With lock_ held.
  const FutexWord* give(void* element) noexcept;
  void* take() noexcept;
  void set_reserve(unsigned min_nr) noexcept;
  void note_hunger() noexcept { hungry_.store(curr_nr_ < reserve_max_, std::memory_order_relaxed); }

  static Request& request_of(ListNode* link) noexcept;
  static Mempool& pool_of(ListNode* link) noexcept;

  const Source source_;
  void** elements_ = nullptr;  // the reserve; null: not initialized
  SpinLock lock_{LockRank::mempool};
  unsigned min_nr_ = 0;
  unsigned reserve_max_ = 0;  // min_nr, at least 1
  unsigned curr_nr_ = 0;
  unsigned capacity_ = 0;
  std::atomic<bool> hungry_{false};
  std::atomic<unsigned> waiting_{0};
  List queue_;     // requests, the oldest first
  ListNode link_;  // the list of all pools
};
static_assert(sizeof(Mempool) <= sizeof(mempool_t));
static_assert(alignof(Mempool) <= alignof(mempool_t));

}  // namespace kmem
