// The lock order, once, as prose and as code. A thread may take a lock only if its rank is above
// every rank that it holds; Ranked locks check this whenever NDEBUG is unset, and name both locks
// when it fails. A try_lock that succeeds must respect the order too, but for the ranks' equals:
// two locks of one rank are never held together, except where a comment at the second says why.
//
//   rank        lock                              protects
//   pools       api: list of memory pools         create, destroy, fork
//   mempool     api: Mempool::lock_               one pool's reserve and queue. No lock is taken
//                                                 under it but by signal handlers, which may
//                                                 allocate over its holder: hence so low
//   kmalloc     api: KmallocCaches::making_       making a size class's cache
//   registry    api: Registry::mutex_             list of caches, reference counts; create, destroy
//   drain       percpu: one per process           who may point caches at the dummy area
//   cpu         percpu: Locked slot               one CPU's state of one cache (policies Locked,
//                                                 Virtual, and the fallback of Rseq)
//   alien       slab: AlienCache::lock            objects of one remote node
//   node        slab/slub/slqb: node's lists      partial, full and free slabs, shared array
//   page_list   slqb: CacheList::page_lock        one owner's partial slabs and their free lists
//   remote      slqb: RemoteFree::lock            objects freed to an owner by others
//   heap        slob: Heap::lock                  all SLOB pages
//   pages_cpu   pages: per-CPU page lists         a few pages of order 0
//   buddy       pages: one per node               free blocks
//   arena       pages: chunk map                  which 4 MiB chunk belongs to which node
//   metadata    pages: metadata allocator         a leaf
//
// No lock is ever held while a restartable sequence runs or a constructor is called.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kmem {

// clang-format off
enum class LockRank : std::uint8_t {
  pools, mempool, kmalloc, registry, drain, cpu, alien, node, page_list, remote, heap, pages_cpu,
  buddy, arena, metadata, count
};
inline constexpr const char* lock_rank_names[] = {
  "pools", "mempool", "kmalloc", "registry", "drain", "cpu", "alien", "node", "page_list",
  "remote", "heap", "pages_cpu", "buddy", "arena", "metadata"
};
// clang-format on
static_assert(sizeof(lock_rank_names) / sizeof(lock_rank_names[0]) ==
              static_cast<std::size_t>(LockRank::count));

}  // namespace kmem
