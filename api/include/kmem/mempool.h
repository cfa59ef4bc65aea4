/* <kmem/mempool.h>: memory pools with the Linux kernel's names and semantics: a reserve of elements
 * over any allocator, so that work that must go on can go on when memory has run out. For C11 and
 * C++; in every libkmem.
 *
 * A pool keeps min_nr elements back. mempool_alloc() asks the allocator below first, then the
 * reserve; with a mask that may wait (__GFP_DIRECT_RECLAIM: GFP_KERNEL, GFP_NOIO, ...) it then
 * sleeps until an element is freed, and so never fails. mempool_free() refills the reserve first.
 * The promise holds as long as whoever has an element frees it in the end without waiting for
 * another one of the same pool.
 *
 * Who sleeps is served in the order of coming, by whoever frees: an element goes straight to the
 * oldest waiter, and a waiting call that comes later does not get one before it, from the reserve
 * or from the allocator. Every five seconds a waiter asks the allocator again, in case that memory
 * was freed elsewhere.
 *
 * Threads: all calls on any thread, at any time; but mempool_destroy() and mempool_exit() must not
 * race with other uses of the same pool. Signals: a handler may use mempool_alloc() with GFP_NOWAIT
 * or GFP_ATOMIC, if alloc_fn may be called there (those below may), and
 * mempool_alloc_preallocated(): where the handler interrupted a holder of the pool's lock, the
 * reserve counts as empty. fork: a child may use every pool; nobody waits in it, and elements that
 * other threads had in hand are lost to it. No lock is held while alloc_fn or free_fn runs; they
 * may use other pools, and must not throw.
 *
 * Failure: no memory: NULL or -ENOMEM, errno ENOMEM. A bad request: NULL or -EINVAL, errno EINVAL,
 * and one line on standard error.
 */
#ifndef KMEM_MEMPOOL_H
#define KMEM_MEMPOOL_H

#include <kmem/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pool, to be placed anywhere for mempool_init(); all zeros is one that is not initialized. Its
 * contents are the library's; it must not be moved or copied. */
typedef struct mempool {
  uint64_t opaque[16];
} mempool_t;

/* An element, or NULL. Called with masks that may not wait, and with the caller's own; __GFP_NOWARN
 * is always among them, except when a pool is created or resized. */
typedef void* mempool_alloc_t(gfp_t gfp_mask, void* pool_data);
typedef void mempool_free_t(void* element, void* pool_data);

/* Elements that a pool may keep. */
#define MEMPOOL_MAX_NR (1 << 19)

/* ---- Creating. min_nr: 0..MEMPOOL_MAX_NR; a pool of 0 keeps one element. All of the reserve is
 * allocated, with GFP_KERNEL or gfp_mask; when that fails nothing stays. node must exist, or be
 * NUMA_NO_NODE; alloc_fn decides where elements are. ---- */
mempool_t* mempool_create(int min_nr, mempool_alloc_t* alloc_fn, mempool_free_t* free_fn,
                          void* pool_data);
mempool_t* mempool_create_node(int min_nr, mempool_alloc_t* alloc_fn, mempool_free_t* free_fn,
                               void* pool_data, gfp_t gfp_mask, int node);
/* The same for a pool in the caller's memory. 0, or -EINVAL or -ENOMEM; then the pool is zeros. */
int mempool_init(mempool_t* pool, int min_nr, mempool_alloc_t* alloc_fn, mempool_free_t* free_fn,
                 void* pool_data);
int mempool_init_node(mempool_t* pool, int min_nr, mempool_alloc_t* alloc_fn,
                      mempool_free_t* free_fn, void* pool_data, gfp_t gfp_mask, int node);

/* Frees the reserve and the pool; elements in use stay what they are, and go back by their own
 * allocator. NULL, and a pool that is zeros: nothing. While threads wait on it: refused, with a
 * line, and the pool stays. mempool_exit() leaves zeros. */
void mempool_destroy(mempool_t* pool);
void mempool_exit(mempool_t* pool);
bool mempool_initialized(mempool_t* pool);

/* Keeps new_min_nr elements (1..MEMPOOL_MAX_NR) from now on: frees what is too much, or allocates
 * more with GFP_KERNEL. Where that fails the reserve is filled by later frees, and the result is 0
 * all the same. -ENOMEM: no memory for the list of elements, nothing has changed. */
int mempool_resize(mempool_t* pool, int new_min_nr);

/* ---- Elements ---- */
/* Never NULL if gfp_mask has __GFP_DIRECT_RECLAIM; else NULL (ENOMEM) when allocator and reserve
 * have none. __GFP_ZERO is refused (EINVAL): an element of the reserve keeps what was in it. */
void* mempool_alloc(mempool_t* pool, gfp_t gfp_mask);
/* From the reserve alone, without waiting; or NULL (ENOMEM). */
void* mempool_alloc_preallocated(mempool_t* pool);
/* To the oldest waiter, to the reserve, or to free_fn. NULL: nothing. element may be any that
 * free_fn takes. */
void mempool_free(void* element, mempool_t* pool);

/* Fills the NULL slots of elems[0..count), waiting as GFP_KERNEL does: 0. allocated: how many slots
 * are not NULL at first. -EINVAL: that is not so, or count is above min_nr (and above 1). */
int mempool_alloc_bulk(mempool_t* pool, void** elems, unsigned int count, unsigned int allocated);
/* Gives elems from the front to waiters and to the reserve while those want any; returns how many.
 * The rest remain the caller's, to be freed in a way that is good for many. NULL entries count as
 * taken. */
unsigned int mempool_free_bulk(mempool_t* pool, void** elems, unsigned int count);

/* ---- Ready-made pairs of functions, and pools of them ---- */
/* pool_data: the cache, which must have no constructor: an element of the reserve does not keep its
 * state. It must outlive the pool. */
void* mempool_alloc_slab(gfp_t gfp_mask, void* pool_data);
void mempool_free_slab(void* element, void* pool_data);
mempool_t* mempool_create_slab_pool(int min_nr, struct kmem_cache* cache);
int mempool_init_slab_pool(mempool_t* pool, int min_nr, struct kmem_cache* cache);

/* pool_data: the size in bytes, 1..KMALLOC_MAX_SIZE. */
void* mempool_kmalloc(gfp_t gfp_mask, void* pool_data);
void mempool_kfree(void* element, void* pool_data);
mempool_t* mempool_create_kmalloc_pool(int min_nr, size_t size);
int mempool_init_kmalloc_pool(mempool_t* pool, int min_nr, size_t size);

/* pool_data: the order, 0..10: blocks of 4 KiB << order, aligned to their size. An element is the
 * block's address; kfree() takes it too. */
void* mempool_alloc_pages(gfp_t gfp_mask, void* pool_data);
void mempool_free_pages(void* element, void* pool_data);
mempool_t* mempool_create_page_pool(int min_nr, int order);
int mempool_init_page_pool(mempool_t* pool, int min_nr, int order);

/* ---- Insight: true at some moment of the call; 0 for NULL and for a pool that is zeros ---- */
int mempool_min_nr(mempool_t* pool);     /* as asked for */
int mempool_curr_nr(mempool_t* pool);    /* elements in the reserve */
int mempool_waiting_nr(mempool_t* pool); /* threads that sleep for an element */

#ifdef __cplusplus
}
#endif

#endif /* KMEM_MEMPOOL_H */
