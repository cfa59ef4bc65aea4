// The exported symbols of <kmem/mempool.h>: what is refused, and the pairs of functions over the
// chosen backend. What pools do is in mempool.h.
#include "api/chosen_backend.h"
#include "api/mempool.h"

namespace {

using Kmem = kmem::Kmem<kmem::Chosen>;
using Front = Kmem::Cache;
using kmem::Mempool;

Mempool* inside(mempool_t* pool) noexcept { return reinterpret_cast<Mempool*>(pool); }

int refuse(const char* call, const char* why) noexcept {
  kmem::warn("%s: %s", call, why);
  errno = EINVAL;
  return -EINVAL;
}

// A pool that is NULL or not initialized is a mistake of the caller's that must not crash in here.
bool usable(mempool_t* pool, const char* call) noexcept {
  if (pool != nullptr && inside(pool)->initialized()) [[likely]]
    return true;
  refuse(call, pool == nullptr ? "the pool is NULL" : "the pool is not initialized");
  return false;
}

std::size_t bytes_of_order(const void* pool_data) noexcept {
  return kmem::pages::page_bytes << reinterpret_cast<std::uintptr_t>(pool_data);
}

// What the ready-made functions could not live with; null if nothing.
const char* refuse_data(mempool_alloc_t* alloc_fn, const void* data) noexcept {
  if (alloc_fn == mempool_alloc_slab) {
    if (data == nullptr) return "the cache is NULL";
    if (static_cast<const Front*>(data)->spec().ctor != nullptr) {
      return "the cache has a constructor";
    }
  } else if (alloc_fn == mempool_kmalloc) {
    const auto bytes = reinterpret_cast<std::uintptr_t>(data);
    if (bytes == 0 || bytes > KMALLOC_MAX_SIZE) return "the size is not 1 .. KMALLOC_MAX_SIZE";
  } else if (alloc_fn == mempool_alloc_pages) {
    if (reinterpret_cast<std::uintptr_t>(data) > kmem::pages::max_order) {
      return "the order is not 0 .. 10";
    }
  }
  return nullptr;
}

// Why these cannot make a pool; null if they can.
const char* refuse_source(int min_nr, const Mempool::Source& source) noexcept {
  if (min_nr < 0) return "min_nr is below 0";
  if (min_nr > MEMPOOL_MAX_NR) return "min_nr is above MEMPOOL_MAX_NR";
  if (source.alloc == nullptr) return "alloc_fn is NULL";
  if (source.free == nullptr) return "free_fn is NULL";
  return refuse_data(source.alloc, source.data);
}

// In memory of the caller's, after the checks.
int init(void* memory, int min_nr, const Mempool::Source& source, gfp_t gfp) noexcept {
  auto* pool = new (memory) Mempool(source);
  const int result = pool->fill_first(static_cast<unsigned>(min_nr), gfp);
  if (result == 0) return 0;
  std::memset(memory, 0, sizeof(mempool_t));
  errno = -result;
  return result;
}

int init_checked(mempool_t* pool, int min_nr, const Mempool::Source& source, gfp_t gfp,
                 const char* call) noexcept {
  if (pool == nullptr) return refuse(call, "the pool is NULL");
  std::memset(pool, 0, sizeof(*pool));
  const char* why = refuse_source(min_nr, source);
  return why != nullptr ? refuse(call, why) : init(pool, min_nr, source, gfp);
}

mempool_t* create(int min_nr, const Mempool::Source& source, gfp_t gfp, const char* call) noexcept {
  if (const char* why = refuse_source(min_nr, source)) return refuse(call, why), nullptr;
  void* memory = kmem::pages::start() ? kmem::pages::metadata_alloc(sizeof(mempool_t)) : nullptr;
  if (memory == nullptr) return errno = ENOMEM, nullptr;
  if (init(memory, min_nr, source, gfp) == 0) return static_cast<mempool_t*>(memory);
  kmem::pages::metadata_free(memory, sizeof(mempool_t));
  return nullptr;
}

// True: the pool was one, and is zeros now.
bool close(mempool_t* pool, const char* call) noexcept {
  if (pool == nullptr || !inside(pool)->initialized()) return false;
  if (!inside(pool)->close()) return refuse(call, "threads wait on the pool: it stays"), false;
  inside(pool)->~Mempool();
  std::memset(pool, 0, sizeof(*pool));
  return true;
}

Mempool::Source slab_source(kmem_cache* cache) noexcept {
  return {mempool_alloc_slab, mempool_free_slab, cache};
}
Mempool::Source kmalloc_source(std::size_t bytes) noexcept {
  return {mempool_kmalloc, mempool_kfree, reinterpret_cast<void*>(bytes)};
}
// A negative order becomes one that is too large.
Mempool::Source page_source(int order) noexcept {
  return {mempool_alloc_pages, mempool_free_pages,
          reinterpret_cast<void*>(static_cast<std::intptr_t>(order))};
}

}  // namespace

extern "C" {

// ---- Pairs of functions ----

KMEM_EXPORT void* mempool_alloc_slab(gfp_t gfp_mask, void* pool_data) {
  return static_cast<Front*>(pool_data)->alloc(gfp_mask);
}
KMEM_EXPORT void mempool_free_slab(void* element, void* pool_data) {
  static_cast<Front*>(pool_data)->free(element);
}
KMEM_EXPORT void* mempool_kmalloc(gfp_t gfp_mask, void* pool_data) {
  return Kmem::kmalloc(reinterpret_cast<std::uintptr_t>(pool_data), gfp_mask);
}
KMEM_EXPORT void mempool_kfree(void* element, void* /*pool_data*/) { Kmem::kfree(element); }
KMEM_EXPORT void* mempool_alloc_pages(gfp_t gfp_mask, void* pool_data) {
  return kmem::alloc_large(bytes_of_order(pool_data), gfp_mask, kmem::no_node);
}
KMEM_EXPORT void mempool_free_pages(void* element, void* /*pool_data*/) { Kmem::kfree(element); }

// ---- Creating ----

KMEM_EXPORT mempool_t* mempool_create(int min_nr, mempool_alloc_t* alloc_fn,
                                      mempool_free_t* free_fn, void* pool_data) {
  return create(min_nr, {alloc_fn, free_fn, pool_data}, GFP_KERNEL, __func__);
}
KMEM_EXPORT mempool_t* mempool_create_node(int min_nr, mempool_alloc_t* alloc_fn,
                                           mempool_free_t* free_fn, void* pool_data, gfp_t gfp_mask,
                                           int node) {
  if (kmem::refuse_node(node, __func__)) return nullptr;
  return create(min_nr, {alloc_fn, free_fn, pool_data}, gfp_mask, __func__);
}
KMEM_EXPORT int mempool_init(mempool_t* pool, int min_nr, mempool_alloc_t* alloc_fn,
                             mempool_free_t* free_fn, void* pool_data) {
  return init_checked(pool, min_nr, {alloc_fn, free_fn, pool_data}, GFP_KERNEL, __func__);
}
KMEM_EXPORT int mempool_init_node(mempool_t* pool, int min_nr, mempool_alloc_t* alloc_fn,
                                  mempool_free_t* free_fn, void* pool_data, gfp_t gfp_mask,
                                  int node) {
  if (kmem::refuse_node(node, __func__)) {
    if (pool != nullptr) std::memset(pool, 0, sizeof(*pool));
    return -EINVAL;
  }
  return init_checked(pool, min_nr, {alloc_fn, free_fn, pool_data}, gfp_mask, __func__);
}

KMEM_EXPORT mempool_t* mempool_create_slab_pool(int min_nr, kmem_cache* cache) {
  return create(min_nr, slab_source(cache), GFP_KERNEL, __func__);
}
KMEM_EXPORT mempool_t* mempool_create_kmalloc_pool(int min_nr, size_t size) {
  return create(min_nr, kmalloc_source(size), GFP_KERNEL, __func__);
}
KMEM_EXPORT mempool_t* mempool_create_page_pool(int min_nr, int order) {
  return create(min_nr, page_source(order), GFP_KERNEL, __func__);
}
KMEM_EXPORT int mempool_init_slab_pool(mempool_t* pool, int min_nr, kmem_cache* cache) {
  return init_checked(pool, min_nr, slab_source(cache), GFP_KERNEL, __func__);
}
KMEM_EXPORT int mempool_init_kmalloc_pool(mempool_t* pool, int min_nr, size_t size) {
  return init_checked(pool, min_nr, kmalloc_source(size), GFP_KERNEL, __func__);
}
KMEM_EXPORT int mempool_init_page_pool(mempool_t* pool, int min_nr, int order) {
  return init_checked(pool, min_nr, page_source(order), GFP_KERNEL, __func__);
}

KMEM_EXPORT void mempool_destroy(mempool_t* pool) {
  if (close(pool, __func__)) kmem::pages::metadata_free(pool, sizeof(mempool_t));
}
KMEM_EXPORT void mempool_exit(mempool_t* pool) { close(pool, __func__); }
KMEM_EXPORT bool mempool_initialized(mempool_t* pool) {
  return pool != nullptr && inside(pool)->initialized();
}

KMEM_EXPORT int mempool_resize(mempool_t* pool, int new_min_nr) {
  if (!usable(pool, __func__)) return -EINVAL;
  if (new_min_nr <= 0 || new_min_nr > MEMPOOL_MAX_NR) {
    return refuse(__func__, "new_min_nr is not 1 .. MEMPOOL_MAX_NR");
  }
  const int result = inside(pool)->resize(static_cast<unsigned>(new_min_nr));
  if (result != 0) errno = -result;
  return result;
}

// ---- Elements ----

KMEM_EXPORT void* mempool_alloc(mempool_t* pool, gfp_t gfp_mask) {
  if (!usable(pool, __func__)) return nullptr;
  if ((gfp_mask & __GFP_ZERO) != 0) [[unlikely]] {
    return refuse(__func__, "__GFP_ZERO: an element of the reserve keeps what was in it"), nullptr;
  }
  return inside(pool)->alloc(gfp_mask);
}
KMEM_EXPORT void* mempool_alloc_preallocated(mempool_t* pool) {
  return usable(pool, __func__) ? inside(pool)->alloc_preallocated() : nullptr;
}
KMEM_EXPORT void mempool_free(void* element, mempool_t* pool) {
  if (element == nullptr || !usable(pool, __func__)) [[unlikely]]
    return;
  inside(pool)->free(element);
}

KMEM_EXPORT int mempool_alloc_bulk(mempool_t* pool, void** elems, unsigned count,
                                   unsigned allocated) {
  if (!usable(pool, __func__)) return -EINVAL;
  if (elems == nullptr && count != 0) return refuse(__func__, "elems is NULL");
  if (count > inside(pool)->bulk_max()) return refuse(__func__, "count is above min_nr");
  unsigned missing = 0;
  for (unsigned i = 0; i < count; ++i) missing += elems[i] == nullptr ? 1 : 0;
  if (count - missing != allocated) {
    return refuse(__func__, "allocated is not the number of slots that are filled");
  }
  inside(pool)->alloc_bulk(elems, count, missing);
  return 0;
}
KMEM_EXPORT unsigned mempool_free_bulk(mempool_t* pool, void** elems, unsigned count) {
  if (!usable(pool, __func__)) return 0;
  if (elems == nullptr && count != 0) return refuse(__func__, "elems is NULL"), 0;
  return inside(pool)->absorb(elems, count);
}

// ---- Insight ----

KMEM_EXPORT int mempool_min_nr(mempool_t* pool) {
  return mempool_initialized(pool) ? static_cast<int>(inside(pool)->min_nr()) : 0;
}
KMEM_EXPORT int mempool_curr_nr(mempool_t* pool) {
  return mempool_initialized(pool) ? static_cast<int>(inside(pool)->curr_nr()) : 0;
}
KMEM_EXPORT int mempool_waiting_nr(mempool_t* pool) {
  return mempool_initialized(pool) ? static_cast<int>(inside(pool)->waiting()) : 0;
}

}  // extern "C"
