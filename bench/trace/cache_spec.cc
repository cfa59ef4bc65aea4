#include "bench/trace/cache_spec.h"

#include "common/base/bits.h"
#include "common/pages/page.h"

namespace kmem::bench::trace {

namespace {

// Stands for a constructor that the trace cannot show: it makes the designs keep what they write
// into free objects out of the object proper, as the real one did.
void keep_state(void*) {}

std::size_t slub_slot(const CacheSpec& spec) noexcept {
  std::size_t bytes = align_up(spec.object_bytes, sizeof(void*));
  if (spec.ctor != nullptr) bytes += sizeof(void*);
  return align_up(bytes, object_align(spec));
}

}  // namespace

CacheSpec spec_for(const TracedCache& cache) noexcept {
  CacheSpec spec;
  spec.name = cache.name.c_str();
  spec.object_bytes = cache.bytes_req;
  spec.flags = slab_flag::no_merge;
  struct Guess {
    slab_flags_t flags;
    Constructor ctor;
  };
  static constexpr Guess guesses[] = {{0, nullptr},
                                      {slab_flag::hwcache_align, nullptr},
                                      {0, keep_state},
                                      {slab_flag::hwcache_align, keep_state}};
  for (const Guess& guess : guesses) {
    spec.flags = slab_flag::no_merge | guess.flags;
    spec.ctor = guess.ctor;
    if (slub_slot(spec) == cache.bytes_alloc) return spec;
  }
  spec.flags = slab_flag::no_merge;
  spec.ctor = nullptr;
  for (spec.align = 16; spec.align <= pages::page_bytes; spec.align *= 2)
    if (slub_slot(spec) == cache.bytes_alloc) return spec;
  spec.align = 0;
  if (cache.bytes_alloc > cache.bytes_req) spec.object_bytes = cache.bytes_alloc;
  return spec;
}

}  // namespace kmem::bench::trace
