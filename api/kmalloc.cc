#include "api/kmalloc.h"

namespace kmem {

void kmalloc_cache_name(KmallocFamily family, std::size_t bytes, char* out) noexcept {
  static constexpr const char* prefixes[] = {"kmalloc-", "kmalloc-rcl-", "kmalloc-cg-",
                                             "dma-kmalloc-"};
  const char* prefix = prefixes[static_cast<unsigned>(family)];
  if (bytes < 1024) {
    format_line(out, 24, "%s%zu", prefix, bytes);
  } else if (bytes < (std::size_t{1} << 20)) {
    format_line(out, 24, "%s%zuk", prefix, bytes >> 10);
  } else {
    format_line(out, 24, "%s%zuM", prefix, bytes >> 20);
  }
}

CacheSpec kmalloc_spec(KmallocFamily family, std::size_t bytes, const char* name) noexcept {
  CacheSpec spec;
  spec.name = name;
  spec.object_bytes = bytes;
  spec.align = bytes & (~bytes + 1);  // the largest power of two that divides it
  spec.flags = slab_flag::kmalloc;
  if (family == KmallocFamily::reclaimable) spec.flags |= slab_flag::reclaim_account;
  if (family == KmallocFamily::accounted) spec.flags |= slab_flag::account;
  if (family == KmallocFamily::dma) spec.flags |= slab_flag::cache_dma;
  return spec;
}

}  // namespace kmem
