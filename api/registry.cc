#include "api/registry.h"

namespace kmem {

const char* refuse_spec(const CacheSpec& spec) noexcept {
  if (spec.name == nullptr) return "the name is NULL";
  if (spec.object_bytes == 0) return "an object size of 0";
  if (spec.object_bytes > pages::max_block_bytes) return "the object size is over 4 MiB";
  if ((spec.align & (spec.align - 1)) != 0) return "the alignment is not a power of two";
  const bool kmalloc = (spec.flags & slab_flag::kmalloc) != 0;
  if (spec.align > (kmalloc ? pages::max_block_bytes : cache_align_max)) {
    return "the alignment is over 4096";
  }
  if ((spec.flags & ~(slab_flag::permitted | slab_flag::kmalloc)) != 0) return "unknown flags";
  if (!spec.has_freeptr_offset) return nullptr;
  if (spec.ctor == nullptr && (spec.flags & slab_flag::typesafe_by_rcu) == 0) {
    return "a free pointer offset needs SLAB_TYPESAFE_BY_RCU or a constructor";
  }
  if (spec.freeptr_offset % sizeof(void*) != 0) return "the free pointer offset is not aligned";
  if (spec.object_bytes < sizeof(void*) ||
      spec.freeptr_offset > spec.object_bytes - sizeof(void*)) {
    return "the free pointer offset is outside the object";
  }
  return nullptr;
}

bool merging_off() noexcept {
  static const bool off = [] {
    const char* value = std::getenv("KMEM_NOMERGE");
    return value != nullptr && std::strcmp(value, "0") != 0;
  }();
  return off;
}

void creation_failed(const char* name, slab_flags_t flags, int error, const char* why) noexcept {
  if (name == nullptr) name = "(null)";
  if ((flags & slab_flag::panic) != 0) {
    log_line("kmem_cache_create: Failed to create slab '%s'. Error %d", name, -error);
    std::abort();
  }
  warn("kmem_cache_create(%s) failed with error %d: %s", name, -error,
       why != nullptr ? why : "no memory");
  errno = error;
}

}  // namespace kmem
