#include <algorithm>

#include "common/base/bits.h"
#include "common/slab/spec.h"

namespace kmem {

std::size_t object_align(const CacheSpec& spec) noexcept {
  std::size_t align = std::max(spec.align, sizeof(void*));
  if ((spec.flags & slab_flag::hwcache_align) != 0) {
    std::size_t line = cache_line_bytes;
    while (spec.object_bytes <= line / 2) line /= 2;
    align = std::max(align, line);
  }
  return align_up(align, sizeof(void*));
}

}  // namespace kmem
