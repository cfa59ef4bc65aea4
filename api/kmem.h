// One world: a backend under a policy, its caches and its kmalloc. The C interface (c_abi.cc) is
// the chosen backend's world under the kernel's names; kmem-bench and the tests hold several at
// once.
#pragma once

#include "api/fork.h"
#include "api/kmalloc.h"
#include "api/slabinfo.h"

namespace kmem {

inline void* const zero_size_ptr = reinterpret_cast<void*>(16);
inline bool zero_or_null(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) <= 16;
}
inline constexpr std::size_t kvmalloc_max_bytes = INT32_MAX;

// Cold ends that do not depend on the backend (kmem.cc).
void* refuse_kmalloc(std::size_t bytes, gfp_t gfp) noexcept;  // nullptr, EINVAL, one line
void* alloc_large(std::size_t bytes, gfp_t gfp, int node) noexcept;
bool refuse_node(int node, const char* call) noexcept;  // as above, if there is no such node
void report_kfree(const void* object) noexcept;
// Frees a large block or run; false if object is not the start of one.
bool free_large(void* object, const pages::Page* page) noexcept;
// Bytes of the large block or run that starts at object; 0 if none does.
std::size_t large_bytes(const void* object, const pages::Page* page) noexcept;
std::size_t large_roundup(std::size_t bytes) noexcept;

template <SlabBackend B>
class Kmem {
 public:
  using Backend = B;
  using Cache = CacheFront<B>;
  static constexpr KmallocClasses classes = B::kmalloc_classes;

  static Registry<B>& registry() noexcept { return registry_; }

  // ---- Caches ----
  static Cache* create(const CacheSpec& spec, const CreateOptions& options = {}) noexcept {
    return registry().create(spec, options);
  }
  static void destroy(Cache* cache) noexcept { registry().destroy(cache); }

  // ---- kmalloc ----
  KMEM_FAST static void* kmalloc(std::size_t bytes, gfp_t gfp) noexcept {
    if (bytes - 1 >= classes.largest || classes.by_header) [[unlikely]] {
      return kmalloc_slow(bytes, gfp, no_node);
    }
    Cache* cache = sizes_.find(bytes, gfp);
    return cache != nullptr ? cache->alloc(gfp) : nullptr;
  }
  static void* kmalloc_node(std::size_t bytes, gfp_t gfp, int node) noexcept {
    if (bytes - 1 >= classes.largest || classes.by_header) return kmalloc_slow(bytes, gfp, node);
    Cache* cache = sizes_.find(bytes, gfp);
    return cache != nullptr ? cache->alloc_node(gfp, node) : nullptr;
  }

  KMEM_FAST static void kfree(void* object) noexcept {
    const pages::Page* page = pages::page_of(object);
    Cache* cache = Cache::of(page, object);
    if (cache == nullptr) [[unlikely]]
      return kfree_slow(object, page);
    cache->free(object);
  }

  static std::size_t ksize(const void* object) noexcept {
    const pages::Page* page = pages::page_of(object);
    if (Cache* cache = Cache::of(page, object)) {
      return cache->owns(object) ? cache->slot_bytes() : 0;
    }
    if constexpr (classes.by_header) {
      if (page->owner_tag == B::tag) return B::kmalloc_ksize(object);
    }
    return large_bytes(object, page);
  }

  static std::size_t size_roundup(std::size_t bytes) noexcept {
    if (bytes == 0 || bytes > kmalloc_max_bytes) return bytes;
    if constexpr (classes.by_header) {
      return bytes < classes.largest ? B::kmalloc_roundup(bytes) : large_roundup(bytes);
    } else {
      return bytes <= classes.largest ? KmallocCaches<B>::class_bytes(bytes) : large_roundup(bytes);
    }
  }

  // In place while the new size fits the slot, also when it shrinks.
  static void* krealloc(void* object, std::size_t bytes, gfp_t gfp) noexcept {
    if (bytes == 0) return kfree(object), zero_size_ptr;
    if (zero_or_null(object)) return kvmalloc_bytes(bytes, gfp);
    const std::size_t there = ksize(object);
    if (there == 0) return report_kfree(object), nullptr;
    if (bytes <= there) {
      if ((gfp & gfp::zero) != 0) std::memset(static_cast<char*>(object) + bytes, 0, there - bytes);
      return object;
    }
    void* moved = kvmalloc_bytes(bytes, gfp);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, object, there);
    kfree(object);
    return moved;
  }

  // kmalloc, or a run of pages beyond it.
  static void* kvmalloc(std::size_t bytes, gfp_t gfp, int node = no_node) noexcept {
    if (bytes <= kmalloc_max_bytes) return kmalloc_node(bytes, gfp, node);
    if (bytes > kvmalloc_max_bytes) return refuse_kmalloc(bytes, gfp);
    return alloc_large(bytes, gfp, node);
  }

  // ---- Objects of any cache ----
  // Objects of one cache go together, looked for among the next few, so that mixed arrays still get
  // most of the bulk path.
  static void kfree_bulk(std::size_t n, void** objects) noexcept {
    while (n != 0) {
      if (zero_or_null(objects[n - 1])) {
        --n;
        continue;
      }
      Cache* cache = Cache::of(pages::page_of(objects[n - 1]), objects[n - 1]);
      if (cache == nullptr) {
        kfree(objects[--n]);
        continue;
      }
      const std::size_t first = gather(cache, n, objects);
      cache->free_bulk(n - first, objects + first);
      n = first;
    }
  }

  static int slabinfo(int fd) noexcept {
    SlabinfoWriter writer(fd);
    registry_.for_each([&](Cache& cache) {
      writer.row(cache.name(), cache.backend().geometry(), cache.backend().usage(),
                 cache.backend().tunables());
    });
    return writer.finish();
  }

 private:
  // krealloc of a block that kvmalloc made may grow beyond kmalloc's limit only if it already is.
  static void* kvmalloc_bytes(std::size_t bytes, gfp_t gfp) noexcept {
    return bytes <= kmalloc_max_bytes ? kmalloc(bytes, gfp) : refuse_kmalloc(bytes, gfp);
  }

  // Moves objects of cache among the last window_max of objects[0..n) to the end, unordered;
  // returns where they begin. The last one is of cache, so that at least one is gathered.
  static std::size_t gather(Cache* cache, std::size_t n, void** objects) noexcept {
    constexpr std::size_t window_max = 64;
    std::size_t first = n - 1;
    const std::size_t stop = n > window_max ? n - window_max : 0;
    for (std::size_t i = n - 1; i-- > stop;) {
      if (Cache::of(pages::page_of(objects[i]), objects[i]) != cache) continue;
      --first;
      void* object = objects[i];
      objects[i] = objects[first];
      objects[first] = object;
    }
    return first;
  }

  KMEM_SLOW static void* kmalloc_slow(std::size_t bytes, gfp_t gfp, int node) noexcept {
    if (bytes == 0) return zero_size_ptr;
    if (bytes > kmalloc_max_bytes) return refuse_kmalloc(bytes, gfp);
    if constexpr (classes.by_header) {
      if (bytes < classes.largest) {
        registry_.join_fork_once();
        void* object = pages::start() ? B::kmalloc(bytes, gfp, node) : nullptr;
        if (object == nullptr) return errno = ENOMEM, nullptr;
        return (gfp & gfp::zero) == 0 ? object : std::memset(object, 0, B::kmalloc_ksize(object));
      }
    }
    return alloc_large(bytes, gfp, node);
  }

  KMEM_SLOW static void kfree_slow(void* object, const pages::Page* page) noexcept {
    if (zero_or_null(object)) return;
    if constexpr (classes.by_header) {
      if (page->owner_tag == B::tag && B::kmalloc_free(object)) return;
    }
    if (!free_large(object, page)) report_kfree(object);
  }

  static void lock_caches() noexcept {
    sizes_.lock_for_fork();
    registry_.lock_for_fork();
  }
  static void unlock_caches() noexcept {
    registry_.unlock_after_fork();
    sizes_.unlock_after_fork();
  }
  static void lock_backends() noexcept { registry_.lock_backends(); }
  static void unlock_backends() noexcept { registry_.unlock_backends(); }

  // Constant-initialized: ready before any constructor runs, and no guard on the way to them.
  static constinit inline ForkPart fork_part_{lock_caches, lock_backends, unlock_backends,
                                              unlock_caches};
  static constinit inline Registry<B> registry_{fork_part_};
  static constinit inline KmallocCaches<B> sizes_{registry_};
};

}  // namespace kmem
