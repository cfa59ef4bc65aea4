#include "common/pages/cpu_lists.h"

#include <algorithm>

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

KMEM_FAST void CpuList::add_pages(std::uint32_t n) noexcept { set(pages_, get(pages_) + n); }

KMEM_FAST void CpuList::remove_pages(std::uint32_t n) noexcept {
  const std::uint32_t left = get(pages_) - n;
  set(pages_, left);
  set(least_, std::min(get(least_), left));
}

Page* CpuList::pop(unsigned order, Buddy& buddy) noexcept {
  if (!lock_.try_lock()) return nullptr;
  if (count_[order] == 0) [[unlikely]]
    refill(order, buddy);
  Page* head = nullptr;
  if (count_[order] != 0) [[likely]] {
    head = stack(order)[--count_[order]];
    remove_pages(1u << order);
    set(allocations_, get(allocations_) + 1);
  }
  lock_.unlock();
  return head;
}

bool CpuList::push(Page* head, unsigned order, Buddy& buddy) noexcept {
  if (!lock_.try_lock()) return false;
  if (count_[order] == high(order)) [[unlikely]]
    flush(order, batch(order), buddy);
  stack(order)[count_[order]++] = head;
  add_pages(1u << order);
  set(frees_, get(frees_) + 1);
  lock_.unlock();
  return true;
}

KMEM_SLOW void CpuList::refill(unsigned order, Buddy& buddy) noexcept {
  note_peak(get(least_) * page_bytes);
  const std::size_t block_bytes = page_bytes << order;
  Page** blocks = stack(order);
  const std::size_t charged = charge_units(batch(order), block_bytes);
  const std::size_t got = buddy.take_blocks(blocks, charged, order);
  if (got != charged) uncharge((charged - got) * block_bytes);
  std::reverse(blocks, blocks + got);  // the first that the buddy gave is popped first: it ascends
  count_[order] = static_cast<std::uint32_t>(got);
  add_pages(static_cast<std::uint32_t>(got << order));
  set(least_, get(pages_));
}

// The n oldest go back to the buddy allocator.
KMEM_SLOW void CpuList::flush(unsigned order, std::uint32_t n, Buddy& buddy) noexcept {
  KMEM_ASSERT(n <= count_[order]);
  note_peak(get(least_) * page_bytes);
  Page** blocks = stack(order);
  buddy.give_blocks(blocks, n, order);
  uncharge(n * (page_bytes << order));
  count_[order] -= n;
  std::copy(blocks + n, blocks + n + count_[order], blocks);
  remove_pages(n << order);
  set(least_, get(pages_));
}

void CpuList::flush_all(Buddy& buddy) noexcept {
  for (unsigned order = 0; order < order_count; ++order)
    if (count_[order] != 0) flush(order, count_[order], buddy);
  KMEM_ASSERT(get(pages_) == 0);
}

void CpuList::drain(Buddy& buddy) noexcept {
  if (!used()) return;  // leaves the memory of lists untouched that no CPU uses
  Guard guard(lock_);
  flush_all(buddy);
}

void CpuList::drain_if_idle(Buddy& buddy) noexcept {
  if (!used()) return;
  Guard guard(lock_);
  const std::uint64_t seen = operations();
  if (seen == operations_seen_) flush_all(buddy);
  operations_seen_ = seen;
}

bool CpuList::used() const noexcept { return get(pages_) != 0 || operations() != 0; }

std::uint64_t CpuList::operations() const noexcept { return get(allocations_) + get(frees_); }

void CpuList::reset_least() noexcept {
  if (!used()) return;
  Guard guard(lock_);
  set(least_, get(pages_));
}

CpuList::Counts CpuList::counts() const noexcept {
  return {get(allocations_), get(frees_), get(pages_), get(least_)};
}

}  // namespace kmem::pages
