// SLOB: one heap for all caches and kmalloc; free blocks of any size, found by first fit.
//
// 1. Picture
//      three lists of pages with room, each turned so that the next search begins where the last
//      one found something:
//        small  (requests below  256 bytes)  -> page <-> page <-> page
//        medium (requests below 1024 bytes)  -> page <-> page
//        large  (the rest below a page)      -> page
//      one page, and the map beside it that says where blocks in use start and whose they are:
//        [ dentry |free: size,next| kmalloc: n,object | 1 |  inode      |free: size,end   ]
//        map  7                     1                        9
//    Free blocks alone have a header, in units of 2 bytes (blocks.h); they are in address order and
//    touch no other free block. Objects of caches have none; kmalloc keeps the size in the word
//    before its object. Objects of a page and more are blocks of pages:: of their own.
//
// 2. States of a page of blocks: always exactly one
//      with room   0 < free units < all; on the list of the request that it was got for
//      full        no free unit; on no list, so it is found again by the first free, and comes back
//                  on the list of that block's size: the same list, as only it ever gave blocks of
//                  it
//      gone        wholly free; goes back to pages:: at once
//    States of a block: free; in use (its id in the map); parked (free, but on its cache's list,
//    section 6); orphan (in use when its cache was destroyed; stays for ever).
//
// 3. Who may touch what (lock order: common/sync/lock_rank.h)
//      lists, pages, free blocks, maps, Share   the holder of Heap::lock, the only lock
//      an object in use                         its user; its byte in the map does not change
//      owns(), cache_of()                       read one byte of the map, with no lock
//    The lock is let go while pages:: looks for a page, and while a constructor runs. Allocations
//    that must not wait (gfp without direct_reclaim) fail in a handler that interrupted a holder.
//
// 4. Invariants, checked by validate()
//      I1 every page of the heap names it as its owner, and is on its list of all pages
//      I2 a page of blocks is on exactly one of the three lists while it has room, else on none; no
//         page stays wholly free
//      I3 free blocks are in address order, within the page, and no two touch
//      I4 a page's count of free units is the sum of its free blocks
//      I5 free blocks and blocks in use fill the page without gap or overlap
//      I6 a block in use is as long as its cache's objects are
//      I7 fit_units is at least the longest free block
//      I8 there is one map for each page of blocks
//      I9 a cache's count of objects in use is the number of blocks with its id
//      I10 a cache's count of parked objects is the length of its list
//
// 5. Fit policy and its bound: next fit over pages, first fit in address order within one. A search
//    looks at every page of a list in the worst case, but walks the blocks of those alone that may
//    hold the request (fit_units). Placement is the kernel's, also in bulk calls: n objects carved
//    in one pass lie where n searches would put them.
//
// 6. Unlike Linux: whose a block is is known (owner_map.h), so that kfree() takes objects of
// caches,
//    and every free of what is not an object in use is caught; objects are counted; destroy()
//    reports what is left. Blocks are at least 16 bytes. TYPESAFE_BY_RCU objects do not wait for a
//    grace period: once freed they are parked for reuse by the same cache until it is destroyed, so
//    that their memory never becomes anything else; a reused one is not constructed again. More in
//    README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/slob/geometry.h"
#include "backends/slob/heap.h"
#include "common/base/attributes.h"
#include "common/pages/pages.h"
#include "common/slab/spec.h"

namespace kmem::slob {

using pages::Page;

// ---- The cache ---------------------------------------------------------------------------------

class Cache {
 public:
  static constexpr const char* name = "slob";
  static constexpr std::uint8_t tag = backend_tag;
  // kmalloc is the heap's own, for sizes below largest.
  static constexpr KmallocClasses kmalloc_classes{min_align_bytes, kmalloc_end_bytes, false, false,
                                                  true};
  static constexpr bool merges_caches = false;
  static Geometry geometry(const CacheSpec& spec, unsigned) noexcept {
    return slob::geometry(spec);
  }

  Cache() noexcept = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  bool create(const CacheSpec& spec) noexcept;
  std::size_t destroy() noexcept;
  const Geometry& geometry() const noexcept { return geometry_; }

  // There is no path without the lock: fast here means short.
  KMEM_FAST void* alloc(gfp_t gfp) noexcept { return alloc_node(gfp, no_node); }
  KMEM_FAST void* alloc_fast() noexcept { return nullptr; }  // nothing is at hand without the lock
  void* alloc_node(gfp_t gfp, int node) noexcept;
  void free(void* object, Page* page) noexcept;
  bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept;
  void free_bulk(std::size_t n, void** objects) noexcept;
  KMEM_FAST bool owns(const Page* page, const void* object) const noexcept {
    return heap().owns(share_, page, object);
  }

  bool shrink() noexcept;
  bool retune(const Tunables&) noexcept { return false; }
  Tunables tunables() const noexcept { return {}; }
  CacheUsage usage() const noexcept;
  PathCounts path_counts() const noexcept { return heap().counts_of(share_); }
  const char* validate() noexcept { return heap().validate(share_); }
  void for_each_live(LiveVisitor visit, void* context) noexcept {
    heap().for_each_live(share_, visit, context);
  }

  // ---- What kmalloc() and kfree() of this design are, for api/ ----
  // The cache of an object in use; null for kmalloc blocks and all else. Right for any pointer.
  static Cache* cache_of(const void* object) noexcept { return heap().cache_of(object); }
  // 0 < bytes < kmalloc_classes.largest; pages::start() was called.
  static void* kmalloc(std::size_t bytes, gfp_t gfp, int node) noexcept {
    return heap().kmalloc(bytes, gfp, node);
  }
  // false, 0: not a kmalloc block in use. Right for any pointer.
  static bool kmalloc_free(void* object) noexcept { return heap().kfree(object); }
  static std::size_t kmalloc_ksize(const void* object) noexcept { return heap().ksize(object); }
  static std::size_t kmalloc_roundup(std::size_t bytes) noexcept {
    return align_up(bytes, min_align_bytes);
  }

  // Around fork(), between those of api/ and those of pages:: (the locks' order); for kmalloc alone
  // or for each cache, as often before as after.
  static void prepare_fork() noexcept { heap().prepare_fork(); }
  static void after_fork() noexcept { heap().after_fork(); }

 private:
  void report_double_free(const void* object) noexcept;
  void construct(std::size_t n, void** objects) noexcept;

  Share share_;
  Geometry geometry_{};
  Constructor ctor_ = nullptr;
  const char* name_ = "";
};

}  // namespace kmem::slob

#include "backends/slob/alloc.h"
#include "backends/slob/bulk.h"
#include "backends/slob/drain.h"
#include "backends/slob/free.h"
