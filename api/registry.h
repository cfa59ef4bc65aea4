// The caches of one world (one backend under one policy): creating them, aliases, destroying them.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

#include "api/cache_front.h"
#include "api/fork.h"
#include "common/base/bits.h"
#include "common/nodes/topology.h"
#include "common/sync/ranked_lock.h"

namespace kmem {

// What a caller may ask beyond CacheSpec.
struct CreateOptions {
  bool has_user_region = false;  // never merged
  bool no_merge = false;         // as SLAB_NO_MERGE
};

inline constexpr std::size_t cache_align_max = pages::page_bytes;

// Why a spec is refused, in words; nullptr if it is not.
const char* refuse_spec(const CacheSpec& spec) noexcept;
// KMEM_NOMERGE, read once.
bool merging_off() noexcept;
// Says so, and aborts if flags ask for that; sets errno.
void creation_failed(const char* name, slab_flags_t flags, int error, const char* why) noexcept;

template <SlabBackend B>
class Registry {
 public:
  using Cache = CacheFront<B>;

  constexpr explicit Registry(ForkPart& fork_part) noexcept : fork_part_(fork_part) {}

  // A new cache, or an alias of one that fits; nullptr and errno.
  Cache* create(const CacheSpec& spec, const CreateOptions& options) noexcept {
    if (const char* why = refuse_spec(spec)) {
      return creation_failed(spec.name, spec.flags, EINVAL, why), nullptr;
    }
    join_fork_once();
    if (B::geometry(spec, nodes::present_cpus()).objects == 0) {
      return creation_failed(spec.name, spec.flags, EINVAL,
                             "no slab can hold such an object with what the flags or the "
                             "constructor add to it"),
             nullptr;
    }
    if (!pages::start()) return creation_failed(spec.name, spec.flags, ENOMEM, nullptr), nullptr;
    Guard guard(mutex_);
    warn_if_named(spec.name);
    if (Cache* cache = find_alias(spec, options)) return cache;
    Cache* cache = build(spec, options);
    if (cache == nullptr) return creation_failed(spec.name, spec.flags, ENOMEM, nullptr), nullptr;
    caches_.push_back(&cache->link_);
    return cache;
  }

  void destroy(Cache* cache) noexcept {
    if (cache == nullptr) return;
    {
      Guard guard(mutex_);
      if (--cache->references_ != 0) return;
      List::remove(&cache->link_);
    }
    cache->shrink();
    Survivors survivors{cache->name(), 0};
    cache->backend_.for_each_live(&Survivors::visit, &survivors);
    survivors.close();
    cache->backend_.destroy();
    release(cache);
    pages::release_free();
  }

  // The queues' lengths, one caller at a time. False and EINVAL: not legal, or the design has none.
  bool retune(Cache* cache, const Tunables& wanted) noexcept {
    Guard guard(mutex_);
    if (cache->backend_.retune(wanted)) return true;
    warn("kmem_cache_tune(%s): limit %u, batchcount %u, shared %d: not for this design",
         cache->name(), wanted.limit, wanted.batchcount, wanted.shared);
    errno = EINVAL;
    return false;
  }

  void join_fork_once() noexcept {
    if (!joined_fork_.load(std::memory_order_relaxed) &&
        !joined_fork_.exchange(true, std::memory_order_relaxed)) {
      join_fork(fork_part_);
    }
  }

  // For fork handlers (fork.h).
  void lock_for_fork() noexcept { mutex_.unranked().lock(); }
  void unlock_after_fork() noexcept { mutex_.unranked().unlock(); }
  void lock_backends() noexcept {
    if constexpr (requires { B::prepare_fork(); }) {
      B::prepare_fork();  // one heap for all caches
    } else {
      each([](Cache& cache) { cache.backend_.prepare_fork(); });
    }
  }
  void unlock_backends() noexcept {
    if constexpr (requires { B::after_fork(); }) {
      B::after_fork();
    } else {
      each([](Cache& cache) { cache.backend_.after_fork(); });
    }
  }

  // visit(Cache&) for each cache, under the registry's lock: it must not create or destroy.
  template <class F>
  void for_each(F&& visit) noexcept {
    Guard guard(mutex_);
    each(visit);
  }

 private:
  template <class F>
  void each(F&& visit) noexcept {
    for (ListNode* node = caches_.front(); node != nullptr; node = caches_.after(node)) {
      visit(*of(node));
    }
  }

  // The report of destroy(): the frame once, then a line an object.
  struct Survivors {
    const char* name;
    std::size_t count;
    static constexpr std::size_t listed_max = 10000;

    static void visit(void* context, void* object, std::size_t offset) noexcept {
      auto& self = *static_cast<Survivors*>(context);
      if (self.count++ == 0) {
        debug::report(debug::Fault::live_objects, self.name, nullptr, nullptr,
                      "slabs kept, objects stay valid");
      }
      if (self.count <= listed_max) log_line("Object %p @offset=%zu", object, offset);
    }
    void close() const noexcept {
      if (count > listed_max) log_line("... and %zu more", count - listed_max);
      if (count != 0) {
        warn("kmem_cache_destroy %s: Slab cache still has objects: %zu", name, count);
      }
    }
  };

  static Cache* of(ListNode* node) noexcept {
    return reinterpret_cast<Cache*>(reinterpret_cast<char*>(node) - offsetof_link());
  }
  static std::size_t offsetof_link() noexcept {
    alignas(Cache) static char storage[sizeof(Cache)];
    auto* probe = reinterpret_cast<Cache*>(storage);
    return static_cast<std::size_t>(reinterpret_cast<char*>(&probe->link_) - storage);
  }

  void warn_if_named(const char* name) noexcept {
    if (std::strchr(name, ' ') != nullptr) warn("kmem_cache_create(%s): space in the name", name);
    for (ListNode* node = caches_.front(); node != nullptr; node = caches_.after(node)) {
      if (std::strcmp(of(node)->name(), name) == 0) {
        warn("kmem_cache_create(%s): a cache of that name already exists", name);
        return;
      }
    }
  }

  static bool mergeable(const CacheSpec& spec, bool has_user_region) noexcept {
    constexpr slab_flags_t never = slab_flag::debug | slab_flag::typesafe_by_rcu |
                                   slab_flag::noleaktrace | slab_flag::failslab |
                                   slab_flag::no_merge | slab_flag::kmalloc;
    return spec.ctor == nullptr && !has_user_region && (spec.flags & never) == 0;
  }

  // SLAB alone wants the alignment of the new cache to divide the old one's.
  static bool alignment_allows_alias(std::size_t wanted, std::size_t there) noexcept {
    if constexpr (requires { B::alias_needs_alignment; }) {
      return wanted <= there && there % wanted == 0;
    } else {
      return true;
    }
  }

  // Kernel rules of merging: size, waste below a word, alignment, like flags.
  Cache* find_alias(const CacheSpec& spec, const CreateOptions& options) noexcept {
    if (!B::merges_caches || options.no_merge || merging_off()) return nullptr;
    if (!mergeable(spec, options.has_user_region)) return nullptr;
    constexpr slab_flags_t same = slab_flag::reclaim_account | slab_flag::cache_dma |
                                  slab_flag::cache_dma32 | slab_flag::account;
    const std::size_t align = object_align(spec);
    const std::size_t bytes = align_up(align_up(spec.object_bytes, sizeof(void*)), align);
    for (ListNode* node = caches_.front(); node != nullptr; node = caches_.after(node)) {
      Cache* cache = of(node);
      const std::size_t slot = cache->slot_bytes();
      if (!mergeable(cache->spec_, cache->has_user_region_)) continue;
      if (bytes > slot || slot - bytes >= sizeof(void*) || slot % align != 0) continue;
      if (((spec.flags ^ cache->spec_.flags) & same) != 0) continue;
      if (!alignment_allows_alias(align, cache->backend_.geometry().align)) continue;
      ++cache->references_;
      if (spec.object_bytes > cache->spec_.object_bytes) {
        cache->spec_.object_bytes = spec.object_bytes;
      }
      return cache;
    }
    return nullptr;
  }

  // In reverse on failure, so that nothing of it stays.
  static Cache* build(const CacheSpec& spec, const CreateOptions& options) noexcept {
    const std::size_t name_bytes = std::strlen(spec.name) + 1;
    auto* name = static_cast<char*>(pages::metadata_alloc(name_bytes));
    if (name == nullptr) return nullptr;
    std::memcpy(name, spec.name, name_bytes);
    void* memory = pages::metadata_alloc(sizeof(Cache));
    if (memory == nullptr) return pages::metadata_free(name, name_bytes), nullptr;
    auto* cache = new (memory) Cache;
    cache->spec_ = spec;
    cache->spec_.name = name;
    cache->name_bytes_ = name_bytes;
    cache->has_user_region_ = options.has_user_region;
    if (options.no_merge) cache->spec_.flags |= slab_flag::no_merge;
    if (cache->backend_.create(cache->spec_)) return cache;
    release(cache);
    return nullptr;
  }

  static void release(Cache* cache) noexcept {
    char* name = const_cast<char*>(cache->spec_.name);
    const std::size_t name_bytes = cache->name_bytes_;
    cache->~Cache();
    pages::metadata_free(cache, sizeof(Cache));
    pages::metadata_free(name, name_bytes);
  }

  SpinLock mutex_{LockRank::registry};
  List caches_;
  ForkPart& fork_part_;
  std::atomic<bool> joined_fork_{false};
};

}  // namespace kmem
