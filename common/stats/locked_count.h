// A count that only the holder of some lock changes: no atomic read-modify-write. Anyone may read
// it.
#pragma once

#include <atomic>
#include <cstdint>

namespace kmem::stats {

class LockedCount {
 public:
  void add(std::uint64_t n = 1) noexcept { set(get() + n); }
  void subtract(std::uint64_t n = 1) noexcept { set(get() - n); }
  void raise_to(std::uint64_t n) noexcept {
    if (n > get()) set(n);
  }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace kmem::stats
