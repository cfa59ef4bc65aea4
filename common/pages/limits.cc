#include "common/pages/limits.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/pages/pages.h"

namespace kmem::pages {
namespace {

// The allocation that brings the count to 0 fails, and with all_after every one below.
constinit std::atomic<std::int64_t> countdown{0};
constinit std::atomic<bool> fail_all_after{false};

}  // namespace

constinit Account account;
constinit std::atomic<std::uint64_t> epoch{2};  // so that "two epochs ago" is never below 0
constinit std::atomic<bool> failing_armed{false};

std::size_t charge_units(std::size_t n, std::size_t unit_bytes) noexcept {
  const std::size_t limit = account.limit_bytes.load(std::memory_order_relaxed);
  if (limit == 0) {
    account.charged_bytes.fetch_add(n * unit_bytes, std::memory_order_relaxed);
    return n;
  }
  std::size_t charged = account.charged_bytes.load(std::memory_order_relaxed);
  for (;;) {
    const std::size_t room = limit > charged ? (limit - charged) / unit_bytes : 0;
    const std::size_t fits = std::min(n, room);
    if (fits == 0) return 0;
    if (account.charged_bytes.compare_exchange_weak(charged, charged + fits * unit_bytes,
                                                    std::memory_order_relaxed))
      return fits;
  }
}

bool charge(std::size_t bytes) noexcept { return charge_units(1, bytes) == 1; }

void uncharge(std::size_t bytes) noexcept {
  [[maybe_unused]] const std::size_t before =
      account.charged_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  KMEM_ASSERT(before >= bytes);
}

void note_peak(std::size_t listed_bytes) noexcept {
  const std::size_t charged = account.charged_bytes.load(std::memory_order_relaxed);
  const std::size_t used = charged > listed_bytes ? charged - listed_bytes : 0;
  std::size_t peak = account.peak_bytes.load(std::memory_order_relaxed);
  while (used > peak &&
         !account.peak_bytes.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

void fail_allocation(std::uint64_t k, bool all_after) noexcept {
  failing_armed.store(false, std::memory_order_relaxed);
  countdown.store(static_cast<std::int64_t>(k), std::memory_order_relaxed);
  fail_all_after.store(all_after, std::memory_order_relaxed);
  failing_armed.store(k != 0, std::memory_order_relaxed);
}

bool count_down_to_failure() noexcept {
  const std::int64_t left = countdown.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (left > 0) return false;
  if (fail_all_after.load(std::memory_order_relaxed)) return true;
  failing_armed.store(false, std::memory_order_relaxed);
  return left == 0;
}

}  // namespace kmem::pages
