/* <kmem/slab.h>: object caches with the Linux kernel's names and semantics, in userspace.
 *
 * One of four designs serves these calls, SLAB, SLUB, SLOB or SLQB: chosen when the library is
 * built (libkmem) or linked (libkmem-slab, -slub, -slob, -slqb: the same symbols). For C11 and C++.
 *
 * Threads: every function may be called on any thread, at any time, with no registration; but
 * kmem_cache_destroy() must not race with other uses of the same cache.
 * Signals: a handler may allocate with GFP_NOWAIT or GFP_ATOMIC: where it interrupted a holder of a
 * lock that it needs, it gets NULL. Other functions are not for handlers: a free may wait for such
 * a lock. fork: a child of a threaded process may use everything; what other threads had in hand is
 * lost to it.
 *
 * Failure comes in three kinds. No memory: NULL or false, errno ENOMEM, nothing is leaked. A bad
 * request: NULL or false, errno EINVAL, and one line on standard error. Misuse (double free,
 * foreign pointer, another cache's object, live objects at destroy): a report on standard error in
 * the kernel's frame, then nothing more happens (KMEM_ON_ERROR=abort: the process aborts).
 *
 * Environment, read once: KMEM_LIMIT_BYTES, KMEM_ARENA_BYTES, KMEM_DECAY_MS, KMEM_FAKE_NODES,
 * KMEM_HUGE_PAGES (0|1), KMEM_PERCPU (rseq|locked), KMEM_ON_ERROR (report|abort), KMEM_NOMERGE (1:
 * no aliases).
 */
#ifndef KMEM_SLAB_H
#define KMEM_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kmem_cache;
typedef uint32_t slab_flags_t;
typedef uint32_t gfp_t;

/* ---- Limits, in bytes ---- */
#define KMALLOC_MAX_SIZE ((size_t)4 << 20)  /* of kmalloc, and of an object of a cache */
#define KMEM_CACHE_MAX_ALIGN ((size_t)4096) /* of kmem_cache_create */
#define KVMALLOC_MAX_SIZE ((size_t)INT32_MAX)
#define NUMA_NO_NODE (-1)

/* kmalloc(0): not NULL, not to be dereferenced, may be given to kfree and krealloc. */
#define ZERO_SIZE_PTR ((void*)16)
#define ZERO_OR_NULL_PTR(x) ((uintptr_t)(x) <= (uintptr_t)ZERO_SIZE_PTR)

/* ---- Flags of a cache: Linux 6.1 names; the values are not part of the interface ----
 * The debugging flags (CONSISTENCY_CHECKS, RED_ZONE, POISON, STORE_USER, TRACE)
 * are accepted and have no effect, as in a kernel built without SLUB_DEBUG. Unknown bits are
 * refused. */
#define SLAB_CONSISTENCY_CHECKS ((slab_flags_t)0x100)
#define SLAB_RED_ZONE ((slab_flags_t)0x400)
#define SLAB_POISON ((slab_flags_t)0x800)
#define SLAB_HWCACHE_ALIGN \
  ((slab_flags_t)0x2000)                        /* to a 64-byte line, or the half that still fits */
#define SLAB_CACHE_DMA ((slab_flags_t)0x4000)   /* no zones here: merged only with its like */
#define SLAB_CACHE_DMA32 ((slab_flags_t)0x8000) /* no zones here: merged only with its like */
#define SLAB_STORE_USER ((slab_flags_t)0x10000)
#define SLAB_RECLAIM_ACCOUNT ((slab_flags_t)0x20000) /* merged only with its like */
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT
#define SLAB_PANIC ((slab_flags_t)0x40000) /* abort() if the cache cannot be created */
/* Memory of a freed object stays an object of this cache until the cache is destroyed: a reader may
 * look at it, and must then check which object it is. Objects are reused at once. */
#define SLAB_TYPESAFE_BY_RCU ((slab_flags_t)0x80000)
#define SLAB_MEM_SPREAD ((slab_flags_t)0x100000) /* no effect */
#define SLAB_TRACE ((slab_flags_t)0x200000)
#define SLAB_DEBUG_OBJECTS ((slab_flags_t)0x400000) /* no effect */
#define SLAB_NOLEAKTRACE ((slab_flags_t)0x800000)   /* never merged */
#define SLAB_NO_MERGE ((slab_flags_t)0x1000000)     /* never merged */
#define SLAB_FAILSLAB ((slab_flags_t)0x2000000)     /* never merged */
#define SLAB_ACCOUNT ((slab_flags_t)0x4000000)      /* merged only with its like */
#define SLAB_KASAN ((slab_flags_t)0x8000000)        /* no effect */
#define SLAB_NO_USER_FLAGS ((slab_flags_t)0x10000000)
#define SLAB_SKIP_KFENCE ((slab_flags_t)0x20000000)

/* ---- Allocation masks. ZERO, THISNODE, NOWARN and kmalloc's family bits (RECLAIMABLE, ACCOUNT,
 * DMA) change something; the rest is accepted so that kernel code compiles. */
#define __GFP_DMA ((gfp_t)0x01)
#define __GFP_HIGHMEM ((gfp_t)0x02)
#define __GFP_DMA32 ((gfp_t)0x04)
#define __GFP_MOVABLE ((gfp_t)0x08)
#define __GFP_RECLAIMABLE ((gfp_t)0x10) /* kmalloc: from the kmalloc-rcl-* caches */
#define __GFP_HIGH ((gfp_t)0x20)
#define __GFP_IO ((gfp_t)0x40)
#define __GFP_FS ((gfp_t)0x80)
/* The whole object reads as zeros. On a cache with a constructor this wipes its state, also for
 * later allocations of the object: a mistake, warned of once. */
#define __GFP_ZERO ((gfp_t)0x100)
#define __GFP_DIRECT_RECLAIM ((gfp_t)0x400)
#define __GFP_KSWAPD_RECLAIM ((gfp_t)0x800)
#define __GFP_WRITE ((gfp_t)0x1000)
#define __GFP_NOWARN ((gfp_t)0x2000)
#define __GFP_RETRY_MAYFAIL ((gfp_t)0x4000)
#define __GFP_NOFAIL ((gfp_t)0x8000)
#define __GFP_NORETRY ((gfp_t)0x10000)
#define __GFP_MEMALLOC ((gfp_t)0x20000)
#define __GFP_COMP ((gfp_t)0x40000)
#define __GFP_NOMEMALLOC ((gfp_t)0x80000)
#define __GFP_HARDWALL ((gfp_t)0x100000)
#define __GFP_THISNODE ((gfp_t)0x200000) /* the node asked for, or NULL */
#define __GFP_ACCOUNT ((gfp_t)0x400000)  /* kmalloc: from the kmalloc-cg-* caches */
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_NOIO (__GFP_RECLAIM)
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)
#define GFP_USER (GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER (GFP_USER | __GFP_HIGHMEM)
#define GFP_DMA __GFP_DMA
#define GFP_DMA32 __GFP_DMA32

/* ---- Caches ---- */
struct kmem_cache_args {
  unsigned int align;      /* bytes; 0, or a power of two up to KMEM_CACHE_MAX_ALIGN */
  unsigned int useroffset; /* recorded only */
  unsigned int usersize;   /* recorded only; a cache that has one is never merged */
  unsigned int
      freeptr_offset;      /* bytes into the object, pointer aligned; counts if the next is true */
  bool use_freeptr_offset; /* legal with SLAB_TYPESAFE_BY_RCU or a constructor */
  void (*ctor)(void* object);  /* its state holds at every allocation. SLAB, SLUB and SLQB run it
                                  once  for each object of a new slab, SLOB at every allocation */
  unsigned int sheaf_capacity; /* not zero: never merged */
};

/* A cache of objects of object_size bytes (1..KMALLOC_MAX_SIZE). name need not outlive the call;
 * one that is in use is allowed, with a warning. The result may be an alias of a cache that fits,
 * as in Linux (SLAB_NO_MERGE refuses that). NULL: errno is EINVAL or ENOMEM. kmem_cache_create(),
 * below, takes these arguments or a struct of arguments. */
struct kmem_cache* __kmem_cache_create(const char* name, size_t object_size, size_t align,
                                       slab_flags_t flags, void (*ctor)(void*));
/* args may be NULL: all defaults. */
struct kmem_cache* __kmem_cache_create_args(const char* name, size_t object_size,
                                            const struct kmem_cache_args* args, slab_flags_t flags);
struct kmem_cache* kmem_cache_create_usercopy(const char* name, size_t object_size, size_t align,
                                              slab_flags_t flags, size_t useroffset,
                                              size_t usersize, void (*ctor)(void*));

/* Frees the cache, or one alias of it. NULL: nothing. Objects still in use are reported, each with
 * its address; their memory stays, and a later free of one is a report. */
void kmem_cache_destroy(struct kmem_cache* cache);

/* Empties the queues, gives empty slabs back, and free pages to the system. 0: no slab remains,
 * else 1; SLOB and SLQB always 0. */
int kmem_cache_shrink(struct kmem_cache* cache);

/* Sets how many objects a CPU keeps (limit), moves at a time (batchcount, up to limit) and shares
 * with its node (shared, in batches): what writing to the kernel's slabinfo did. 0, and -1 for
 * shared, keep what is. SLAB has all three; SLQB the first two, as hiwater and freebatch; SLUB and
 * SLOB none. 0, or -1 and EINVAL. */
int kmem_cache_tune(struct kmem_cache* cache, unsigned int limit, unsigned int batchcount,
                    int shared);

/* The object size in bytes (of aliases: the largest). 0 for NULL. */
unsigned int kmem_cache_size(struct kmem_cache* cache);

/* ---- Objects. NULL: no memory (ENOMEM). ---- */
void* kmem_cache_alloc(struct kmem_cache* cache, gfp_t flags);
void* kmem_cache_zalloc(struct kmem_cache* cache, gfp_t flags);
/* node is a preference (NUMA_NO_NODE: none) unless __GFP_THISNODE. EINVAL: no such node. */
void* kmem_cache_alloc_node(struct kmem_cache* cache, gfp_t flags, int node);

/* object must be of this cache, or of an alias; NULL is a report. With a NULL cache: kfree(object),
 * for which NULL is nothing. */
void kmem_cache_free(struct kmem_cache* cache, void* object);

/* All count objects, or none and false. count 0: true. Objects of bulk and of single calls are
 * alike: mix freely. EINVAL: count * sizeof(void *) overflows. After a failure objects[] is
 * undefined. */
bool kmem_cache_alloc_bulk(struct kmem_cache* cache, gfp_t flags, size_t count, void** objects);
/* objects[] may be reordered, and is not needed afterwards. NULL entries are skipped. With a NULL
 * cache the objects may be of any caches and sizes. */
void kmem_cache_free_bulk(struct kmem_cache* cache, size_t count, void** objects);
void kfree_bulk(size_t count, void** objects);

/* The same by a plain loop over the single calls: what the optimized forms are compared with. */
bool __kmem_cache_alloc_bulk(struct kmem_cache* cache, gfp_t flags, size_t count, void** objects);
void __kmem_cache_free_bulk(struct kmem_cache* cache, size_t count, void** objects);

/* ---- kmalloc ----
 * Aligned to at least 8 bytes; a power of two to itself (beyond a page: to a page); any other size
 * to its largest power-of-two divisor (SLOB: to 8). 0 bytes: ZERO_SIZE_PTR. Over KMALLOC_MAX_SIZE:
 * NULL, EINVAL. */
void* kmalloc(size_t size, gfp_t flags);
void* kzalloc(size_t size, gfp_t flags);
void* kmalloc_node(size_t size, gfp_t flags, int node);
void* kzalloc_node(size_t size, gfp_t flags, int node);
/* NULL (ENOMEM) when n * size overflows. */
void* kmalloc_array(size_t n, size_t size, gfp_t flags);
void* kcalloc(size_t n, size_t size, gfp_t flags);

/* Takes objects of kmalloc, kvmalloc and of any cache. new_size 0 frees and gives ZERO_SIZE_PTR.
 * When it fails the old block stays valid. With __GFP_ZERO the bytes past the old size are zero,
 * provided that the block was allocated with it too. */
void* krealloc(const void* object, size_t new_size, gfp_t flags);
void* krealloc_array(void* object, size_t n, size_t size, gfp_t flags);

/* Takes objects of kmalloc, kvmalloc and of any cache; NULL and ZERO_SIZE_PTR: nothing. */
void kfree(const void* object);
void kfree_sensitive(const void* object); /* all ksize() bytes are zeroed first */

/* Bytes that may be used at object; 0 for NULL, ZERO_SIZE_PTR and pointers that are not ours. */
size_t ksize(const void* object);
/* The size to ask for so that nothing is wasted: at least size, all of it usable when asked for;
 * size itself for 0 and over KMALLOC_MAX_SIZE. */
size_t kmalloc_size_roundup(size_t size);

/* Up to KVMALLOC_MAX_SIZE bytes; page aligned from a page up. */
void* kvmalloc(size_t size, gfp_t flags);
void* kvzalloc(size_t size, gfp_t flags);
void* kvmalloc_array(size_t n, size_t size, gfp_t flags);
void* kvcalloc(size_t n, size_t size, gfp_t flags);
void kvfree(const void* object);

/* NULL for a NULL source. */
char* kstrdup(const char* string, gfp_t flags);
void* kmemdup(const void* source, size_t size, gfp_t flags);

/* ---- Insight ---- */
/* Writes slabinfo text, version 2.1, of all caches to fd: 0, or -1 and the errno of write(). */
int kmem_slabinfo(int fd);
/* The design that serves: "slab", "slub", "slob" or "slqb". */
const char* kmem_backend_name(void);
/* Which per-CPU policy runs ("rseq", "locked", "none"); *reason, unless NULL, gets a static text.
 */
const char* kmem_percpu_policy(const char** reason);
/* Reports of misuse since start. Signal safe. */
uint64_t kmem_slab_errors(void);

#ifdef __cplusplus
}

/* C++: both forms of kmem_cache_create by overloads. */
inline struct kmem_cache* kmem_cache_create(const char* name, size_t object_size, size_t align,
                                            slab_flags_t flags, void (*ctor)(void*)) {
  return __kmem_cache_create(name, object_size, align, flags, ctor);
}
inline struct kmem_cache* kmem_cache_create(const char* name, size_t object_size,
                                            const struct kmem_cache_args* args,
                                            slab_flags_t flags) {
  return __kmem_cache_create_args(name, object_size, args, flags);
}
#define KMEM_ALIGNOF(type) alignof(type)
#else
/* C: the type of the third argument tells the form, as in Linux 6.12. */
static inline struct kmem_cache* __kmem_cache_default_args(const char* name, size_t object_size,
                                                           const void* args, slab_flags_t flags) {
  return __kmem_cache_create_args(name, object_size, (const struct kmem_cache_args*)args, flags);
}
#define kmem_cache_create(name, object_size, third, ...) \
  _Generic((third),                                                                   \
      struct kmem_cache_args *: __kmem_cache_create_args,                             \
      const struct kmem_cache_args *: __kmem_cache_create_args,                       \
      void *: __kmem_cache_default_args,                                              \
      default: __kmem_cache_create)(name, object_size, third, __VA_ARGS__)
#define KMEM_ALIGNOF(type) _Alignof(type)
#endif

/* A cache for struct `type`: its name, size and alignment, without a constructor. */
#define KMEM_CACHE(type, flags) \
  __kmem_cache_create(#type, sizeof(struct type), KMEM_ALIGNOF(struct type), (flags), NULL)

#endif /* KMEM_SLAB_H */
