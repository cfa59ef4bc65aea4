// The heap that all SLOB caches and kmalloc share: its pages, the three lists of those with free
// space, and who owns what. One lock; every public function takes and releases it, and none holds
// it while pages:: looks for or takes back a page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/slob/blocks.h"
#include "backends/slob/geometry.h"
#include "backends/slob/owner_map.h"
#include "common/base/attributes.h"
#include "common/pages/pages.h"
#include "common/slab/spec.h"
#include "common/sync/ranked_lock.h"

namespace kmem::slob {

class Cache;

inline constexpr std::uint8_t backend_tag = 0x30;  // Page::owner_tag; SLOB has no policies

// What one cache (or kmalloc) has in the heap. The first part is constant once it has joined; the
// rest is guarded by Heap::lock.
struct Share {
  Cache* cache = nullptr;          // null: kmalloc
  Request request;                 // units == 0: objects of whole pages
  OwnerCode code{owner_id::none};  // of request.id
  unsigned order = 0;              // of those
  bool parks = false;              // freed objects wait on `parked` until the cache goes
  std::size_t link_offset = 0;     // of the link in a parked object

  std::size_t live = 0;  // objects in use
  void* parked = nullptr;
  std::size_t parked_count = 0;
  PathCounts counts{};
  Share* next_shared = nullptr;  // of the caches that share owner_id::shared
};

// Heap::lock, and whether this thread is inside it: a signal handler asks before it would wait for
// the thread that it interrupted.
class HeapLock {
 public:
  void lock() noexcept {
    inside_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with may_enter() in a handler
    lock_.lock();
  }
  void unlock() noexcept {
    lock_.unlock();
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with may_enter() in a handler
    inside_ = false;
  }
  static bool may_enter(gfp_t gfp) noexcept { return (gfp & gfp::direct_reclaim) != 0 || !inside_; }

 private:
  // Read and written by this thread alone, a handler on it included.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local volatile bool inside_ =
      false;
  SpinLock lock_{LockRank::heap};
};

class Heap {
 public:
  constexpr Heap() noexcept = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // ---- Caches ----
  void join(Share& share) noexcept;  // gives it an id
  // Takes parked objects back, marks those in use as nobody's, recycles the id. Returns how many
  // are in use.
  std::size_t leave(Share& share) noexcept;

  // ---- Objects of caches ----
  // All or nothing. The first `constructed` objects come from share's own list and are still in the
  // state in which they were freed.
  bool alloc(Share& share, gfp_t gfp, int node, std::size_t n, void** objects,
             std::size_t& constructed) noexcept;
  // Returns how many of them are not objects in use of share; those are moved to the array's front.
  std::size_t free(Share& share, std::size_t n, void** objects) noexcept;

  // Without the lock, but where only an object's length tells whose it is.
  KMEM_FAST bool owns(const Share& share, const pages::Page* page,
                      const void* object) const noexcept {
    if (share.request.id == owner_id::shared) [[unlikely]]
      return owns_shared(share, page, object);
    return is_live(share, page, object);
  }
  Cache* cache_of(const void* object) noexcept;  // null: not an object in use of a cache

  // ---- kmalloc ----
  // 0 < bytes < kmalloc_end_bytes. nullptr: no memory.
  void* kmalloc(std::size_t bytes, gfp_t gfp, int node) noexcept;
  bool kfree(void* object) noexcept;               // false: not a kmalloc block in use
  std::size_t ksize(const void* object) noexcept;  // 0: not a kmalloc block in use

  // ---- Looking at it ----
  void for_each_live(const Share& share, LiveVisitor visit, void* context) noexcept;
  const char* validate(const Share& share) noexcept;  // all pages, and share's count

  struct Usage {
    std::size_t block_pages;  // shared by all small objects
    std::size_t map_pages;    // for the owner maps
    std::size_t whole_pages;  // in objects of whole pages
    std::size_t free_bytes;   // in block_pages
    std::size_t listed_pages[static_cast<std::size_t>(Fit::count)];
  };
  Usage usage() noexcept;
  PathCounts counts_of(const Share& share) noexcept;
  PathCounts kmalloc_counts() noexcept { return counts_of(kmalloc_); }
  std::size_t kmalloc_live() noexcept;
  struct Counts {
    std::size_t live, parked;
  };
  Counts objects_of(const Share& share) noexcept;

  // Nobody is inside while the process is copied. May be called once for each cache: the caller
  // serializes forks.
  void prepare_fork() noexcept {
    if (fork_holds_++ == 0) lock_.lock();
  }
  void after_fork() noexcept {
    if (--fork_holds_ == 0) lock_.unlock();
  }

 private:
  // Pages that have left the heap, to be freed once the lock is released.
  class Leaving {
   public:
    void add(pages::Page* page) noexcept;
    void release() noexcept;

   private:
    List pages_;
  };
  // An iteration over all pages that lets go of the lock between two pages.
  struct Walker {
    pages::Page* at;
    Walker* next;
  };
  // Where the block before was freed: the next one in address order is inserted from there on.
  struct Finger {
    pages::Page* page = nullptr;
    unsigned at = page_units;
  };

  // heap.cc: the lock is held at each, and get_page() and get_whole() let go of it for a while.
  MapPages& maps_for(Fit fit) noexcept { return fit == Fit::small ? fine_maps_ : coarse_maps_; }
  MapPages& maps_of(const pages::Page* page) noexcept {
    return map_of(page).coarse() ? coarse_maps_ : fine_maps_;
  }
  List& list(Fit fit) noexcept { return lists_[static_cast<std::size_t>(fit)]; }
  std::size_t take(Share& share, const Request& request, gfp_t gfp, int node, std::size_t n,
                   void** objects) noexcept;
  std::size_t search(const Request& request, int node, std::size_t n, void** objects) noexcept;
  pages::Page* get_page(Share& share, Fit fit, gfp_t gfp, int node) noexcept;
  std::uint8_t* get_map(Fit fit, gfp_t gfp, int node) noexcept;
  std::size_t take_whole(Share& share, gfp_t gfp, int node, std::size_t n, void** objects) noexcept;
  std::size_t take_parked(Share& share, int node, std::size_t n, void** objects) noexcept;
  void undo(Share& share, std::size_t parked, std::size_t n, void** objects) noexcept;

  std::size_t free_some(Share& share, std::size_t n, void** objects, Finger& finger,
                        Leaving& leaving) noexcept;
  std::size_t free_run(Share& share, std::size_t n, void** objects, Finger& finger,
                       Leaving& leaving) noexcept;
  void give_back(Share& share, Fit fit, pages::Page* page, unsigned at, unsigned units,
                 Finger& finger, Leaving& leaving) noexcept;
  void free_whole(Share& share, pages::Page* page, Leaving& leaving) noexcept;
  void park(Share& share, void* object) noexcept;
  void* unpark(Share& share) noexcept;
  void link_page(pages::Page* page) noexcept;
  void unlink_page(pages::Page* page) noexcept;

  // Whose an object is. word is 0 in every page that has no map.
  static std::size_t offset_in_page(const void* object) noexcept {
    return reinterpret_cast<std::uintptr_t>(object) & (pages::page_bytes - 1);
  }
  bool is_blocks(const pages::Page* page) const noexcept {
    return page->owner == this && page->word != 0;
  }
  KMEM_FAST bool is_live(const Share& share, const pages::Page* page,
                         const void* object) const noexcept {
    if (share.request.units == 0) [[unlikely]]
      return is_live_whole(share, page, object);
    if (!is_blocks(page) || !map_of(page).starts_at(offset_in_page(object), share.code))
      return false;
    return share.request.id != owner_id::shared || has_length_of(share, page, object);
  }

  // heap_look.cc
  bool is_live_whole(const Share& share, const pages::Page* page,
                     const void* object) const noexcept;
  bool has_length_of(const Share& share, const pages::Page* page,
                     const void* object) const noexcept;
  bool owns_shared(const Share& share, const pages::Page* page, const void* object) const noexcept;
  OwnerId free_id(const Request& request) const noexcept;
  void forget_id(Share& share) noexcept;
  bool is_kmalloc(const pages::Page* page, const void* object) const noexcept;
  bool other_of_same_size(const Share& share) const noexcept;
  template <class Visitor>
  void for_each_live_on(const Share& share, pages::Page* page, Visitor visit) const noexcept;
  void orphan(const Share& share) noexcept;
  const char* validate_pages() noexcept;

  mutable HeapLock lock_;
  unsigned fork_holds_ = 0;
  List lists_[static_cast<std::size_t>(Fit::count)];
  MapPages fine_maps_{fine_map_bytes};
  MapPages coarse_maps_{coarse_map_bytes};
  pages::Page* first_page_ = nullptr;  // all pages; each knows the next and the one before
  Walker* walkers_ = nullptr;
  std::size_t block_pages_ = 0;
  std::size_t whole_pages_ = 0;
  std::atomic<Cache*> cache_of_id_[owner_id::end]{};  // written under lock_
  std::uint16_t units_of_id_[owner_id::end]{};
  Share* shared_ = nullptr;
  Share kmalloc_{};
};

// One for all caches. Constant-initialized: ready before any constructor runs.
extern constinit Heap the_heap;
KMEM_FAST Heap& heap() noexcept { return the_heap; }

}  // namespace kmem::slob
