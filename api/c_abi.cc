// The exported symbols: the chosen backend's world under the kernel's names. Each function is a
// line or two; what they do is in kmem.h and cache_front.h, what they promise in <kmem/slab.h>.
#include <cstring>

#include "api/chosen_backend.h"
#include "kmem/slab.h"

// The C header repeats the values as macros: both must agree.
static_assert(SLAB_HWCACHE_ALIGN == kmem::slab_flag::hwcache_align);
static_assert(SLAB_RECLAIM_ACCOUNT == kmem::slab_flag::reclaim_account);
static_assert(SLAB_TYPESAFE_BY_RCU == kmem::slab_flag::typesafe_by_rcu);
static_assert((SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER |
               SLAB_TRACE) == kmem::slab_flag::debug);
static_assert((SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_HWCACHE_ALIGN |
               SLAB_CACHE_DMA | SLAB_CACHE_DMA32 | SLAB_STORE_USER | SLAB_RECLAIM_ACCOUNT |
               SLAB_PANIC | SLAB_TYPESAFE_BY_RCU | SLAB_MEM_SPREAD | SLAB_TRACE |
               SLAB_DEBUG_OBJECTS | SLAB_NOLEAKTRACE | SLAB_NO_MERGE | SLAB_FAILSLAB |
               SLAB_ACCOUNT | SLAB_KASAN | SLAB_NO_USER_FLAGS | SLAB_SKIP_KFENCE) ==
              kmem::slab_flag::permitted);
static_assert(__GFP_ZERO == kmem::gfp::zero && __GFP_THISNODE == kmem::gfp::thisnode);
static_assert(__GFP_RECLAIMABLE == kmem::gfp::reclaimable && __GFP_ACCOUNT == kmem::gfp::account);
static_assert(__GFP_DMA == kmem::gfp::dma && __GFP_NOWARN == kmem::gfp::nowarn);
static_assert(GFP_KERNEL == kmem::gfp::kernel && GFP_ATOMIC == kmem::gfp::atomic);
static_assert(KMALLOC_MAX_SIZE == kmem::kmalloc_max_bytes);
static_assert(KMEM_CACHE_MAX_ALIGN == kmem::cache_align_max);

namespace {

using Kmem = kmem::Kmem<kmem::Chosen>;
using Front = Kmem::Cache;

Front* front(kmem_cache* cache) noexcept { return reinterpret_cast<Front*>(cache); }
kmem_cache* handle(Front* cache) noexcept { return reinterpret_cast<kmem_cache*>(cache); }

bool product(std::size_t n, std::size_t bytes, std::size_t* total) noexcept {
  if (!__builtin_mul_overflow(n, bytes, total)) return true;
  errno = ENOMEM;
  return false;
}

// A NULL cache is a mistake of the caller's that must not crash in here.
bool refuse_null(const kmem_cache* cache, const char* call) noexcept {
  if (cache != nullptr) [[likely]]
    return false;
  kmem::warn("%s: the cache is NULL", call);
  errno = EINVAL;
  return true;
}

using kmem::refuse_node;

}  // namespace

extern "C" {

// ---- Caches ----

KMEM_EXPORT kmem_cache* __kmem_cache_create(const char* name, size_t object_size, size_t align,
                                            slab_flags_t flags, void (*ctor)(void*)) {
  kmem_cache_args args{};
  if (align > UINT32_MAX) align = UINT32_MAX;  // over the limit all the same
  args.align = static_cast<unsigned>(align);
  args.ctor = ctor;
  return __kmem_cache_create_args(name, object_size, &args, flags);
}

KMEM_EXPORT kmem_cache* __kmem_cache_create_args(const char* name, size_t object_size,
                                                 const kmem_cache_args* args, slab_flags_t flags) {
  static constexpr kmem_cache_args defaults{};
  if (args == nullptr) args = &defaults;
  kmem::CacheSpec spec;
  spec.name = name;
  spec.object_bytes = object_size;
  spec.align = args->align;
  spec.flags = flags;
  spec.ctor = args->ctor;
  spec.has_freeptr_offset = args->use_freeptr_offset;
  spec.freeptr_offset = args->use_freeptr_offset ? args->freeptr_offset : 0;
  kmem::CreateOptions options;
  options.has_user_region = args->usersize != 0;
  options.no_merge = args->sheaf_capacity != 0;
  // The library's own mark, unknown from a caller: left in, it would be obeyed.
  if ((flags & kmem::slab_flag::kmalloc) != 0) spec.flags = (flags & ~kmem::slab_flag::kmalloc) | 1;
  const bool inside =
      args->useroffset <= object_size && args->usersize <= object_size - args->useroffset;
  if ((args->usersize == 0 && args->useroffset != 0) || !inside) {
    kmem::warn("kmem_cache_create(%s): the user region is not inside the object, ignored",
               name != nullptr ? name : "(null)");
    options.has_user_region = false;
  }
  return handle(Kmem::create(spec, options));
}

KMEM_EXPORT kmem_cache* kmem_cache_create_usercopy(const char* name, size_t object_size,
                                                   size_t align, slab_flags_t flags,
                                                   size_t useroffset, size_t usersize,
                                                   void (*ctor)(void*)) {
  kmem_cache_args args{};
  args.align = static_cast<unsigned>(align > UINT32_MAX ? UINT32_MAX : align);
  args.useroffset = static_cast<unsigned>(useroffset > UINT32_MAX ? UINT32_MAX : useroffset);
  args.usersize = static_cast<unsigned>(usersize > UINT32_MAX ? UINT32_MAX : usersize);
  args.ctor = ctor;
  return __kmem_cache_create_args(name, object_size, &args, flags);
}

// The five-argument form as a function, for callers that take its address or do not use the macro.
#undef kmem_cache_create
KMEM_EXPORT kmem_cache* kmem_cache_create_five(const char* name, size_t object_size, size_t align,
                                               slab_flags_t flags,
                                               void (*ctor)(void*)) __asm__("kmem_cache_create");
KMEM_EXPORT kmem_cache* kmem_cache_create_five(const char* name, size_t object_size, size_t align,
                                               slab_flags_t flags, void (*ctor)(void*)) {
  return __kmem_cache_create(name, object_size, align, flags, ctor);
}

KMEM_EXPORT void kmem_cache_destroy(kmem_cache* cache) { Kmem::destroy(front(cache)); }

KMEM_EXPORT int kmem_cache_shrink(kmem_cache* cache) {
  if (refuse_null(cache, __func__)) return 0;
  return front(cache)->shrink() ? 1 : 0;
}

KMEM_EXPORT int kmem_cache_tune(kmem_cache* cache, unsigned limit, unsigned batchcount,
                                int shared) {
  if (refuse_null(cache, __func__)) return -1;
  return Kmem::registry().retune(front(cache), {limit, batchcount, shared}) ? 0 : -1;
}

KMEM_EXPORT unsigned kmem_cache_size(kmem_cache* cache) {
  return cache == nullptr ? 0 : static_cast<unsigned>(front(cache)->object_bytes());
}

// ---- Objects ----

KMEM_EXPORT void* kmem_cache_alloc(kmem_cache* cache, gfp_t flags) {
  return front(cache)->alloc(flags);
}
KMEM_EXPORT void* kmem_cache_zalloc(kmem_cache* cache, gfp_t flags) {
  return front(cache)->alloc(flags | __GFP_ZERO);
}
KMEM_EXPORT void* kmem_cache_alloc_node(kmem_cache* cache, gfp_t flags, int node) {
  if (refuse_null(cache, __func__) || refuse_node(node, __func__)) return nullptr;
  return front(cache)->alloc_node(flags, node);
}
KMEM_EXPORT void kmem_cache_free(kmem_cache* cache, void* object) {
  if (cache == nullptr) [[unlikely]]
    return Kmem::kfree(object);
  front(cache)->free(object);
}

KMEM_EXPORT bool kmem_cache_alloc_bulk(kmem_cache* cache, gfp_t flags, size_t count,
                                       void** objects) {
  if (refuse_null(cache, __func__)) return false;
  return front(cache)->alloc_bulk(flags, count, objects);
}
KMEM_EXPORT void kmem_cache_free_bulk(kmem_cache* cache, size_t count, void** objects) {
  if (cache == nullptr) return kfree_bulk(count, objects);
  front(cache)->free_bulk(count, objects);
}
KMEM_EXPORT void kfree_bulk(size_t count, void** objects) {
  if (count > PTRDIFF_MAX / sizeof(void*)) {
    kmem::warn("kfree_bulk: a count of %zu overflows", count);
    errno = EINVAL;
    return;
  }
  Kmem::kfree_bulk(count, objects);
}
KMEM_EXPORT bool __kmem_cache_alloc_bulk(kmem_cache* cache, gfp_t flags, size_t count,
                                         void** objects) {
  if (refuse_null(cache, __func__)) return false;
  return front(cache)->alloc_bulk_generic(flags, count, objects);
}
KMEM_EXPORT void __kmem_cache_free_bulk(kmem_cache* cache, size_t count, void** objects) {
  if (cache == nullptr) return kfree_bulk(count, objects);
  front(cache)->free_bulk_generic(count, objects);
}

// ---- kmalloc ----

KMEM_EXPORT void* kmalloc(size_t size, gfp_t flags) { return Kmem::kmalloc(size, flags); }
KMEM_EXPORT void* kzalloc(size_t size, gfp_t flags) {
  return Kmem::kmalloc(size, flags | __GFP_ZERO);
}
KMEM_EXPORT void* kmalloc_node(size_t size, gfp_t flags, int node) {
  if (refuse_node(node, __func__)) return nullptr;
  return Kmem::kmalloc_node(size, flags, node);
}
KMEM_EXPORT void* kzalloc_node(size_t size, gfp_t flags, int node) {
  return kmalloc_node(size, flags | __GFP_ZERO, node);
}
KMEM_EXPORT void* kmalloc_array(size_t n, size_t size, gfp_t flags) {
  size_t total = 0;
  return product(n, size, &total) ? Kmem::kmalloc(total, flags) : nullptr;
}
KMEM_EXPORT void* kcalloc(size_t n, size_t size, gfp_t flags) {
  return kmalloc_array(n, size, flags | __GFP_ZERO);
}
KMEM_EXPORT void* krealloc(const void* object, size_t new_size, gfp_t flags) {
  return Kmem::krealloc(const_cast<void*>(object), new_size, flags);
}
KMEM_EXPORT void* krealloc_array(void* object, size_t n, size_t size, gfp_t flags) {
  size_t total = 0;
  return product(n, size, &total) ? Kmem::krealloc(object, total, flags) : nullptr;
}
KMEM_EXPORT void kfree(const void* object) { Kmem::kfree(const_cast<void*>(object)); }
KMEM_EXPORT void kfree_sensitive(const void* object) {
  void* memory = const_cast<void*>(object);
  if (const size_t bytes = Kmem::ksize(object)) explicit_bzero(memory, bytes);
  Kmem::kfree(memory);
}
KMEM_EXPORT size_t ksize(const void* object) { return Kmem::ksize(object); }
KMEM_EXPORT size_t kmalloc_size_roundup(size_t size) { return Kmem::size_roundup(size); }

KMEM_EXPORT void* kvmalloc(size_t size, gfp_t flags) { return Kmem::kvmalloc(size, flags); }
KMEM_EXPORT void* kvzalloc(size_t size, gfp_t flags) {
  return Kmem::kvmalloc(size, flags | __GFP_ZERO);
}
KMEM_EXPORT void* kvmalloc_array(size_t n, size_t size, gfp_t flags) {
  size_t total = 0;
  return product(n, size, &total) ? Kmem::kvmalloc(total, flags) : nullptr;
}
KMEM_EXPORT void* kvcalloc(size_t n, size_t size, gfp_t flags) {
  return kvmalloc_array(n, size, flags | __GFP_ZERO);
}
KMEM_EXPORT void kvfree(const void* object) { Kmem::kfree(const_cast<void*>(object)); }

KMEM_EXPORT char* kstrdup(const char* string, gfp_t flags) {
  return string == nullptr ? nullptr
                           : static_cast<char*>(kmemdup(string, std::strlen(string) + 1, flags));
}
KMEM_EXPORT void* kmemdup(const void* source, size_t size, gfp_t flags) {
  if (source == nullptr) return nullptr;
  void* copy = Kmem::kmalloc(size, flags);
  if (copy != nullptr && size != 0) std::memcpy(copy, source, size);
  return copy;
}

// ---- Insight ----

KMEM_EXPORT int kmem_slabinfo(int fd) { return Kmem::slabinfo(fd); }
KMEM_EXPORT const char* kmem_backend_name(void) { return kmem::Chosen::name; }
KMEM_EXPORT const char* kmem_percpu_policy(const char** reason) {
  const kmem::percpu::Running running = kmem::chosen_policy_running();
  if (reason != nullptr) *reason = running.reason;
  return running.running;
}
KMEM_EXPORT uint64_t kmem_slab_errors(void) { return kmem::debug::report_count(); }

}  // extern "C"
