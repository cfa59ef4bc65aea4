// malloc in the shape that the loops want. A cache's alignment to lines is a wish for speed, which
// malloc is not asked to fulfil; alignment beyond malloc's own 16 bytes that the caller names is
// kept.
#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "bench/rivals/stand_ins.h"
#include "bench/world.h"

namespace kmem::bench {

struct MallocRivalWorld : LoopForBulk<MallocRivalWorld> {
  struct Cache {
    std::size_t bytes, align;
  };

  static Cache* create(const CacheSpec& spec) { return new Cache{spec.object_bytes, spec.align}; }
  static void destroy(Cache* cache) { delete cache; }

  static void* alloc(Cache* cache, gfp_t gfp) {
    if (cache->align <= alignof(std::max_align_t)) return kmalloc(cache->bytes, gfp, no_node);
    void* object = nullptr;
    if (::posix_memalign(&object, cache->align, cache->bytes) != 0) return nullptr;
    return cleared(object, cache->bytes, gfp);
  }
  static void free(Cache*, void* object) { std::free(object); }

  static void* kmalloc(std::size_t bytes, gfp_t gfp, int) {
    return (gfp & gfp::zero) == 0 ? std::malloc(bytes) : std::calloc(1, bytes);
  }
  static void kfree(void* object) { std::free(object); }

  // Each malloc's own way to give back what is free; of those that are not there nothing is called.
  static void shrink_all() {
    using Control = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
    if (const auto control = named<Control>("mallctl")) {
      control("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
      control("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // 4096: of all arenas
    }
    if (const auto collect = named<void (*)(bool)>("mi_collect")) collect(true);
    if (const auto release = named<void (*)()>("MallocExtension_ReleaseFreeMemory")) release();
    if (const auto trim = named<int (*)(std::size_t)>("malloc_trim")) trim(0);
  }

 private:
  template <class Function>
  static Function named(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace kmem::bench
