#include "common/pages/cpu_lists.h"

#include <algorithm>
#include <cstring>

#include "common/base/assert.h"
#include "common/pages/buddy.h"
#include "common/pages/limits.h"

namespace kmem::pages {
namespace {

// Counters that only the lock's holder writes: no read-modify-write is needed.
template <class T>
KMEM_FAST void set(std::atomic<T>& value, T to) noexcept {
  value.store(to, std::memory_order_relaxed);
}
template <class T>
KMEM_FAST T get(const std::atomic<T>& value) noexcept {
  return value.load(std::memory_order_relaxed);
}

}  // namespace

Page* CpuList::pop(Buddy& buddy) noexcept {
  if (!lock_.try_lock()) return nullptr;
  if (get(count_) == 0) [[unlikely]]
    refill(buddy);
  Page* page = nullptr;
  if (const std::uint32_t count = get(count_); count != 0) {
    page = pages_[count - 1];
    set(count_, count - 1);
    if (count - 1 < get(least_)) set(least_, count - 1);
    set(allocations_, get(allocations_) + 1);
  }
  lock_.unlock();
  return page;
}

bool CpuList::push(Page* page, Buddy& buddy) noexcept {
  if (!lock_.try_lock()) return false;
  if (get(count_) == high) [[unlikely]]
    flush(buddy, batch);
  const std::uint32_t count = get(count_);
  pages_[count] = page;
  set(count_, count + 1);
  set(frees_, get(frees_) + 1);
  lock_.unlock();
  return true;
}

KMEM_SLOW void CpuList::refill(Buddy& buddy) noexcept {
  note_peak(0);
  const std::size_t charged = charge_units(batch, page_bytes);
  const std::size_t got = buddy.take_pages(pages_, charged);
  if (got != charged) uncharge((charged - got) * page_bytes);
  std::reverse(pages_, pages_ + got);  // the first that the buddy gave is popped first: it ascends
  set(count_, static_cast<std::uint32_t>(got));
  set(least_, static_cast<std::uint32_t>(got));
}

// The n oldest go back to the buddy allocator.
KMEM_SLOW void CpuList::flush(Buddy& buddy, std::uint32_t n) noexcept {
  const std::uint32_t count = get(count_);
  KMEM_ASSERT(n <= count);
  note_peak(get(least_) * page_bytes);
  buddy.give_pages(pages_, n);
  uncharge(n * page_bytes);
  std::memmove(pages_, pages_ + n, (count - n) * sizeof(pages_[0]));
  set(count_, count - n);
  set(least_, count - n);
}

void CpuList::drain(Buddy& buddy) noexcept {
  if (!used()) return;  // leaves the memory of lists untouched that no CPU uses
  Guard guard(lock_);
  if (get(count_) != 0) flush(buddy, get(count_));
}

void CpuList::drain_if_idle(Buddy& buddy) noexcept {
  if (!used()) return;
  Guard guard(lock_);
  const std::uint64_t seen = operations();
  if (seen == operations_seen_ && get(count_) != 0) flush(buddy, get(count_));
  operations_seen_ = seen;
}

void CpuList::reset_least() noexcept {
  if (!used()) return;
  Guard guard(lock_);
  set(least_, get(count_));
}

CpuList::Counts CpuList::counts() const noexcept {
  return {get(allocations_), get(frees_), get(count_), get(least_)};
}

}  // namespace kmem::pages
