#include "api/mempool.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "api/fork.h"
#include "common/pages/pages.h"
#include "common/sync/lock_for.h"

namespace kmem {
namespace {

constexpr unsigned default_retry_ms = 5000;
constinit std::atomic<unsigned> retry_ms{default_retry_ms};

constinit List pools;
constinit SpinLock pools_lock{LockRank::pools};

}  // namespace

// ---- Requests ----

void Mempool::Request::fill(void* element) noexcept {
  KMEM_ASSERT(missing != 0 && element != nullptr);
  while (*slots != nullptr) ++slots;  // ends: a slot is missing
  *slots = element;
  --missing;
}

Mempool::Request& Mempool::request_of(ListNode* link) noexcept {
  return *reinterpret_cast<Request*>(reinterpret_cast<char*>(link) - offsetof(Request, link));
}

// ---- The reserve and the queue: lock_ is held ----

// To the oldest request, else to the reserve. The word of a request that lacks nothing more: it is
// to be woken once the lock is let go, and may be gone by then.
const FutexWord* Mempool::give(void* element) noexcept {
  if (queue_.empty()) {
    KMEM_ASSERT(curr_nr_ < capacity_);
    elements_[curr_nr_++] = element;
    return nullptr;
  }
  Request& oldest = request_of(queue_.front());
  oldest.fill(element);
  if (oldest.missing != 0) return nullptr;
  List::remove(&oldest.link);
  waiting_.store(waiting() - 1, std::memory_order_relaxed);
  const FutexWord* word = &oldest.served;
  // Release: pairs with the acquire in is_served().
  oldest.served.store(1, std::memory_order_release);
  return word;
}

void* Mempool::take() noexcept {
  KMEM_ASSERT(curr_nr_ != 0 && queue_.empty());
  void* element = elements_[--curr_nr_];
  elements_[curr_nr_] = nullptr;
  return element;
}

void Mempool::set_reserve(unsigned min_nr) noexcept {
  KMEM_ASSERT(min_nr <= capacity_);
  min_nr_ = min_nr;
  reserve_max_ = min_nr != 0 ? min_nr : 1;
  note_hunger();
}

// ---- Allocating ----

KMEM_SLOW void* Mempool::alloc_rest(void* element, gfp_t gfp) noexcept {
  const bool may_wait = (gfp & gfp::direct_reclaim) != 0;
  // Who cannot wait keeps what it got; another lets those go first who have waited.
  if (element != nullptr && !may_wait) return element;
  if (element != nullptr) free(element);
  void* slot = nullptr;
  Request request{&slot, 1, 1};
  if (take_all(request, gfp)) return slot;
  if (!may_wait) return errno = ENOMEM, nullptr;
  wait_for_all(request, gfp);
  return slot;
}

void* Mempool::alloc_preallocated() noexcept {
  void* slot = nullptr;
  Request request{&slot, 1, 1};
  if (!take_all(request, 0)) errno = ENOMEM;
  return slot;
}

void Mempool::alloc_bulk(void** slots, unsigned count, unsigned missing) noexcept {
  Request request{slots, count, missing};
  if (ask_source(request, unwaiting(gfp::kernel))) return;
  if (!take_all(request, gfp::kernel)) wait_for_all(request, gfp::kernel);
}

void Mempool::wait_for_all(Request& request, gfp_t gfp) noexcept {
  if (ask_source(request, patient(gfp)) || take_or_queue(request)) return;
  while (!request.is_served()) wait_once(request, gfp);  // ends when others free what they have
}

// Not yet in the queue. False: the source has no more. Ends: each turn serves this request or one
// that waits.
bool Mempool::ask_source(Request& request, gfp_t gfp) noexcept {
  while (request.missing != 0) {
    void* element = source_.alloc(gfp, source_.data);
    if (element == nullptr) return false;
    if (waiting() != 0) {
      free(element);
    } else {
      request.fill(element);
    }
  }
  return true;
}

// From the reserve, if that has enough. Without a rank: a handler may come here over the holder of
// any lock, and then only tries.
bool Mempool::take_all(Request& request, gfp_t gfp) noexcept {
  GuardFor guard(lock_.unranked(), gfp);
  if (!guard || curr_nr_ < request.missing) return false;
  while (request.missing != 0) request.fill(take());
  note_hunger();
  return true;
}

// Takes what the reserve has, and a place in the queue for the rest; false: it is in the queue.
bool Mempool::take_or_queue(Request& request) noexcept {
  Guard guard(lock_);
  while (request.missing != 0 && curr_nr_ != 0) request.fill(take());
  note_hunger();
  if (request.missing == 0) return true;
  queue_.push_back(&request.link);
  waiting_.store(waiting() + 1, std::memory_order_relaxed);
  return false;
}

// Until served or the time is over; then asks the source, and what that has goes the way of a freed
// element: to the oldest request, which may be this one.
void Mempool::wait_once(Request& request, gfp_t gfp) noexcept {
  const auto deadline = Deadline::after_ms(retry_ms.load(std::memory_order_relaxed));
  do {
    futex_wait(request.served, 0, deadline);
    if (request.is_served()) return;
  } while (!deadline.passed());
  while (!request.is_served()) {
    void* element = source_.alloc(patient(gfp), source_.data);
    if (element == nullptr) return;
    free(element);
  }
}

// ---- Freeing ----

unsigned Mempool::absorb(void** elements, unsigned count) noexcept {
  unsigned done = 0;
  while (done < count && hungry_.load(std::memory_order_relaxed)) {
    const FutexWord* served = nullptr;
    {
      Guard guard(lock_);
      for (; done < count && served == nullptr && curr_nr_ < reserve_max_; ++done) {
        if (elements[done] != nullptr) served = give(elements[done]);
      }
      note_hunger();
    }
    if (served != nullptr) futex_wake(served);
  }
  return done;
}

// ---- Size ----

// Until nothing lacks; false: the source failed. Bounded, as others may take what it puts in.
bool Mempool::refill(gfp_t gfp) noexcept {
  for (unsigned most = bulk_max(); most != 0; --most) {
    if (!hungry_.load(std::memory_order_relaxed)) return true;
    void* element = source_.alloc(gfp, source_.data);
    if (element == nullptr) return false;
    free(element);
  }
  return true;
}

// The list of elements never shrinks: a pool that was made smaller may grow again.
bool Mempool::reserve_capacity(unsigned capacity) noexcept {
  {
    Guard guard(lock_);
    if (capacity <= capacity_) return true;
  }
  auto* elements = static_cast<void**>(pages::metadata_alloc(capacity * sizeof(void*)));
  if (elements == nullptr) return false;
  {
    Guard guard(lock_);
    if (capacity > capacity_) {  // else another thread was faster
      if (curr_nr_ != 0) std::memcpy(elements, elements_, curr_nr_ * sizeof(void*));
      std::swap(elements, elements_);
      std::swap(capacity, capacity_);
    }
  }
  if (elements != nullptr) pages::metadata_free(elements, capacity * sizeof(void*));
  return true;
}

void* Mempool::take_excess() noexcept {
  Guard guard(lock_);
  return curr_nr_ > reserve_max_ ? take() : nullptr;
}

int Mempool::resize(unsigned min_nr) noexcept {
  if (!reserve_capacity(min_nr)) return -ENOMEM;
  {
    Guard guard(lock_);
    set_reserve(min_nr);
  }
  while (void* element = take_excess()) source_.free(element, source_.data);
  refill(gfp::kernel);
  return 0;
}

// ---- Life ----

int Mempool::fill_first(unsigned min_nr, gfp_t gfp) noexcept {
  if (!pages::start() || !reserve_capacity(min_nr != 0 ? min_nr : 1)) return -ENOMEM;
  set_reserve(min_nr);
  join_fork();
  {
    Guard guard(pools_lock);
    pools.push_back(&link_);
  }
  if (refill(gfp)) return 0;
  close();
  return -ENOMEM;
}

bool Mempool::close() noexcept {
  if (waiting() != 0) return false;
  {
    Guard guard(pools_lock);
    List::remove(&link_);
  }
  while (curr_nr_ != 0) source_.free(take(), source_.data);
  pages::metadata_free(elements_, capacity_ * sizeof(void*));
  elements_ = nullptr;
  return true;
}

// ---- Insight ----

unsigned Mempool::min_nr() noexcept {
  Guard guard(lock_);
  return min_nr_;
}

unsigned Mempool::curr_nr() noexcept {
  Guard guard(lock_);
  return curr_nr_;
}

unsigned Mempool::bulk_max() noexcept {
  Guard guard(lock_);
  return reserve_max_;
}

const char* Mempool::validate() noexcept {
  Guard guard(lock_);
  unsigned length = 0;
  for (ListNode* node = queue_.front(); node != nullptr; node = queue_.after(node)) ++length;
  if (curr_nr_ > capacity_) return "I1: curr_nr <= capacity";
  if (length != 0 && curr_nr_ != 0) return "I2: requests wait only if the reserve is empty";
  if (hungry_.load(std::memory_order_relaxed) != (curr_nr_ < reserve_max_)) {
    return "I3: hungry == (curr_nr < reserve_max)";
  }
  if (length != waiting()) return "I4: waiting is the length of the queue";
  for (unsigned i = 0; i < curr_nr_; ++i) {
    if (elements_[i] == nullptr) return "I5: every element of the reserve is one";
  }
  return nullptr;
}

void Mempool::set_retry_ms(unsigned ms) noexcept { retry_ms.store(ms, std::memory_order_relaxed); }

// ---- Fork ----

void Mempool::prepare_fork() noexcept {
  pools_lock.unranked().lock();
  for (ListNode* node = pools.front(); node != nullptr; node = pools.after(node)) {
    pool_of(node).lock_.unranked().lock();
  }
}

void Mempool::after_fork(bool in_child) noexcept {
  for (ListNode* node = pools.front(); node != nullptr; node = pools.after(node)) {
    Mempool& pool = pool_of(node);
    if (in_child) {  // the requests' threads are not here
      pool.queue_.reset();
      pool.waiting_.store(0, std::memory_order_relaxed);
    }
    pool.lock_.unranked().unlock();
  }
  pools_lock.unranked().unlock();
}

Mempool& Mempool::pool_of(ListNode* link) noexcept {
  return *reinterpret_cast<Mempool*>(reinterpret_cast<char*>(link) - offsetof(Mempool, link_));
}

}  // namespace kmem
