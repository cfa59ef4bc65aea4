// How much may be allocated, how much is, and when an allocation is told to fail. Bytes are charged
// before memory is taken and given back after it was returned; pages on per-CPU lists stay charged,
// so that their traffic needs no shared counter: usage() subtracts them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/base/attributes.h"

namespace kmem::pages {

// Shared counters, for slow paths. A line of its own: page traffic of other CPUs reads what lies
// beside it.
struct alignas(64) Account {
  std::atomic<std::size_t> charged_bytes{0};
  std::atomic<std::size_t> peak_bytes{0};
  std::atomic<std::size_t> limit_bytes{0};  // 0: none
  std::atomic<std::uint64_t> allocations{0}, frees{0}, releases{0}, failures{0};
  std::atomic<std::uint64_t> metadata_allocations{0};
};
extern Account account;

// Free blocks are marked with the epoch that they became free in; decay passes count it up.
extern std::atomic<std::uint64_t> epoch;
inline std::uint64_t current_epoch() noexcept { return epoch.load(std::memory_order_relaxed); }

// False: over the limit, nothing is charged.
bool charge(std::size_t bytes) noexcept;
void uncharge(std::size_t bytes) noexcept;
// Charges as many units as the limit leaves room for, n at most; returns how many.
std::size_t charge_units(std::size_t n, std::size_t unit_bytes) noexcept;
// listed_bytes of what is charged now are on per-CPU lists, and were all the time.
void note_peak(std::size_t listed_bytes) noexcept;

extern std::atomic<bool> failing_armed;
bool count_down_to_failure() noexcept;

// Once for each allocation that a caller of pages:: makes: whether a test wants it to fail.
KMEM_FAST bool told_to_fail() noexcept {
  return failing_armed.load(std::memory_order_relaxed) && count_down_to_failure();
}

}  // namespace kmem::pages
