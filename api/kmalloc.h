// Size classes over caches: which class serves a size, and the caches of each family, made when the
// first of them is used. Families as in the kernel: kmalloc-N, kmalloc-rcl-N (reclaimable),
// kmalloc-cg-N (accounted), dma-kmalloc-N.
#pragma once

#include <atomic>
#include <bit>

#include "api/registry.h"

namespace kmem {

inline constexpr std::size_t kmalloc_max_bytes = pages::max_block_bytes;
inline constexpr unsigned kmalloc_class_count =
    23;  // index i: 2^i bytes up to 4 MiB; 1: 96; 2: 192
enum class KmallocFamily : std::uint8_t { normal, reclaimable, accounted, dma, count };

// The kernel's index numbers: 1 is 96 bytes, 2 is 192, otherwise the binary logarithm.
constexpr unsigned kmalloc_class(std::size_t bytes, const KmallocClasses& classes) noexcept {
  if (bytes <= classes.smallest) return log2_floor(classes.smallest);
  if (classes.has_96 && bytes > 64 && bytes <= 96) return 1;
  if (classes.has_192 && bytes > 128 && bytes <= 192) return 2;
  return static_cast<unsigned>(std::bit_width(bytes - 1));
}
constexpr std::size_t kmalloc_class_bytes(unsigned index) noexcept {
  return index == 1 ? 96 : index == 2 ? 192 : std::size_t{1} << index;
}

// Up to 192 bytes by a table of words, as there the classes are not powers of two alone.
struct KmallocIndexTable {
  std::uint8_t index[25];
  constexpr explicit KmallocIndexTable(const KmallocClasses& classes) noexcept : index() {
    for (unsigned i = 0; i < 25; ++i) {
      index[i] = static_cast<std::uint8_t>(kmalloc_class(i == 0 ? 1 : i * 8, classes));
    }
  }
};

constexpr KmallocFamily kmalloc_family(gfp_t gfp) noexcept {
  if ((gfp & gfp::dma) != 0) return KmallocFamily::dma;
  if ((gfp & gfp::reclaimable) != 0) return KmallocFamily::reclaimable;
  return (gfp & gfp::account) != 0 ? KmallocFamily::accounted : KmallocFamily::normal;
}

// "kmalloc-96", "kmalloc-rcl-1k", ... ; at most 24 bytes with the zero.
void kmalloc_cache_name(KmallocFamily family, std::size_t bytes, char* out) noexcept;
// What a cache of that family is created with.
CacheSpec kmalloc_spec(KmallocFamily family, std::size_t bytes, const char* name) noexcept;

template <SlabBackend B>
class KmallocCaches {
 public:
  using Cache = CacheFront<B>;
  static constexpr KmallocClasses classes = B::kmalloc_classes;

  constexpr explicit KmallocCaches(Registry<B>& registry) noexcept : registry_(registry) {}

  // For 1 <= bytes <= classes.largest; nullptr: the cache could not be made.
  KMEM_FAST Cache* find(std::size_t bytes, gfp_t gfp) noexcept {
    const unsigned index = bytes <= 192 ? table.index[(bytes + 7) / 8]
                                        : static_cast<unsigned>(std::bit_width(bytes - 1));
    auto& slot = caches_[static_cast<unsigned>(kmalloc_family(gfp))][index];
    // Acquire: pairs with the release in make(), so that the cache is seen complete.
    Cache* cache = slot.load(std::memory_order_acquire);
    if (cache == nullptr) [[unlikely]]
      return make(kmalloc_family(gfp), index);
    return cache;
  }
  // For fork handlers (fork.h).
  void lock_for_fork() noexcept { making_.unranked().lock(); }
  void unlock_after_fork() noexcept { making_.unranked().unlock(); }

  static std::size_t class_bytes(std::size_t bytes) noexcept {
    return kmalloc_class_bytes(kmalloc_class(bytes, classes));
  }

 private:
  static constexpr KmallocIndexTable table{classes};

  // Once a class: who comes second finds the first one's.
  KMEM_SLOW Cache* make(KmallocFamily family, unsigned index) noexcept {
    char name[24];
    kmalloc_cache_name(family, kmalloc_class_bytes(index), name);
    auto& slot = caches_[static_cast<unsigned>(family)][index];
    Guard guard(making_);
    if (Cache* made = slot.load(std::memory_order_relaxed)) return made;
    Cache* cache = registry_.create(kmalloc_spec(family, kmalloc_class_bytes(index), name), {});
    if (cache != nullptr) slot.store(cache, std::memory_order_release);  // pairs with find()
    return cache;
  }

  Registry<B>& registry_;
  SpinLock making_{LockRank::kmalloc};
  std::atomic<Cache*> caches_[static_cast<unsigned>(KmallocFamily::count)][kmalloc_class_count]{};
};

}  // namespace kmem
