// 16-byte compare-exchange of two words that change together: a slab's (free list, counters) in its
// Page, and the (head, transaction id) of a CPU list under policy Atomic. -mcx16 makes it one
// instruction, lock cmpxchg16b; the __sync builtin is the one that both compilers inline, and that
// ThreadSanitizer sees.
#pragma once

#include <cstdint>

#include "common/percpu/sequences.h"

namespace kmem::percpu {

// The words that make a Pair lie at first, 16-byte aligned, and right behind it.
//
// A sequentially consistent operation, success or not: what was written before it is seen by
// whoever reads the new words by a load_pair() or a compare_exchange_pair() (release), and what
// follows sees what was written before the words that it found (acquire).
inline bool compare_exchange_pair(void* first, Pair expected, Pair desired) noexcept {
  __extension__ using Word128 [[gnu::may_alias]] = unsigned __int128;
  const auto join = [](Pair pair) {
    return Word128{reinterpret_cast<std::uintptr_t>(pair.second)} << 64 |
           reinterpret_cast<std::uintptr_t>(pair.first);
  };
  return __sync_bool_compare_and_swap(static_cast<Word128*>(first), join(expected), join(desired));
}

// The two words, second first, each whole but not of one instant: a caller that acts on them does
// so by compare_exchange_pair(), which fails if they never were a pair or are one no longer.
// Acquire: pairs with the release in compare_exchange_pair().
inline Pair load_pair(const void* first) noexcept {
  auto* words = static_cast<void* const*>(first);
  void* const second = __atomic_load_n(words + 1, __ATOMIC_ACQUIRE);
  return {__atomic_load_n(words, __ATOMIC_ACQUIRE), second};
}

}  // namespace kmem::percpu
