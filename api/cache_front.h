// What kmem_cache is above its backend: a name, flags, zeroing, the check of a caller's pointer and
// the bulk entry points. Everything that places objects is the backend's.
#pragma once

#include <cerrno>
#include <cstring>

#include "api/slab_backend.h"
#include "common/base/log.h"
#include "common/debug/report.h"
#include "common/pages/pages.h"
#include "common/slab/bulk_generic.h"

namespace kmem {

template <SlabBackend B>
class CacheFront {
 public:
  using Backend = B;

  // ---- Single objects ----
  KMEM_FAST void* alloc(gfp_t gfp) noexcept {
    void* object = backend_.alloc_fast();
    if ((gfp & gfp::zero) != 0 || object == nullptr) [[unlikely]]
      return alloc_rest(object, gfp);
    return object;
  }

  void* alloc_node(gfp_t gfp, int node) noexcept {
    return finish(backend_.alloc_node(gfp, node), gfp);
  }

  // A pointer that is not an object of this cache never reaches the backend, in release builds too.
  KMEM_FAST void free(void* object) noexcept {
    pages::Page* page = pages::page_of(object);
    if (!backend_.owns(page, object)) [[unlikely]]
      return report_free(object, page);
    backend_.free(object, page);
  }

  // ---- Bulk ----
  // A bulk of one costs what a single call does.
  KMEM_FAST bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept {
    if (n != 1) return alloc_many(gfp, n, objects);
    objects[0] = alloc(gfp);
    return objects[0] != nullptr;
  }
  KMEM_FAST void free_bulk(std::size_t n, void** objects) noexcept {
    if (n != 1 || objects[0] == nullptr) return free_many(n, objects);
    free(objects[0]);
  }

  bool alloc_many(gfp_t gfp, std::size_t n, void** objects) noexcept {
    if (!count_fits(n)) [[unlikely]]
      return false;
    if (!backend_.alloc_bulk(gfp, n, objects)) [[unlikely]]
      return errno = ENOMEM, false;
    if ((gfp & gfp::zero) != 0) {
      for (std::size_t i = 0; i < n; ++i) finish(objects[i], gfp);
    }
    return true;
  }

  void free_many(std::size_t n, void** objects) noexcept {
    if (!count_fits(n)) [[unlikely]]
      return;
    if constexpr (requires { backend_.free_bulk_checked(n, objects); }) {
      const std::size_t done = backend_.free_bulk_checked(n, objects);
      if (done == n) [[likely]]
        return;
      n -= done;
      objects += done;
    }
    std::size_t owned = count_owned(n, objects);
    if (owned != n) [[unlikely]]
      owned = drop_strangers(owned, n, objects);
    backend_.free_bulk(owned, objects);
  }

  // How many from the front are objects of this cache; some designs have a faster way than one by
  // one.
  KMEM_FAST std::size_t count_owned(std::size_t n, void* const* objects) const noexcept {
    if constexpr (requires { backend_.count_owned(n, objects); }) {
      return backend_.count_owned(n, objects);
    } else {
      std::size_t owned = 0;
      while (owned < n && owns(objects[owned]) && !repeats(objects, owned)) ++owned;
      return owned;
    }
  }

  bool alloc_bulk_generic(gfp_t gfp, std::size_t n, void** objects) noexcept {
    if (!count_fits(n)) [[unlikely]]
      return false;
    return kmem::alloc_bulk_generic(*this, gfp, n, objects);
  }
  void free_bulk_generic(std::size_t n, void** objects) noexcept {
    if (count_fits(n)) kmem::free_bulk_generic(*this, n, objects);
  }
  KMEM_SLOW void* alloc_single(gfp_t gfp) noexcept { return alloc(gfp); }
  KMEM_SLOW void free_single(void* object) noexcept { free(object); }

  // ---- The rest ----
  KMEM_FAST bool owns(const void* object) const noexcept {
    return backend_.owns(pages::page_of(object), object);
  }
  // Gives empty slabs, and with them all free pages, back to the system.
  bool shrink() noexcept {
    const bool remain = backend_.shrink();
    pages::release_free();
    return remain;
  }
  B& backend() noexcept { return backend_; }
  const B& backend() const noexcept { return backend_; }
  const char* name() const noexcept { return spec_.name; }
  const CacheSpec& spec() const noexcept { return spec_; }
  std::size_t object_bytes() const noexcept { return spec_.object_bytes; }
  std::size_t slot_bytes() noexcept { return backend_.geometry().slot_bytes; }

  // The cache that holds object, which is in a slab of this world; null for none.
  static CacheFront* of(const pages::Page* page, const void* object) noexcept {
    if (page->owner_tag != B::tag) return nullptr;
    if constexpr (B::kmalloc_classes.by_header) {
      return reinterpret_cast<CacheFront*>(B::cache_of(object));
    } else {
      return static_cast<CacheFront*>(page->owner);
    }
  }

 private:
  template <SlabBackend>
  friend class Registry;

  // Cold ends of the entry points
  // -------------------------------------------------------------------

  // The one call that a fast path may end in, so that it has nothing to save around it.
  KMEM_SLOW void* alloc_rest(void* object, gfp_t gfp) noexcept {
    return finish(object != nullptr ? object : backend_.alloc(gfp), gfp);
  }

  // Zeroes, or says that there is no memory.
  KMEM_SLOW void* finish(void* object, gfp_t gfp) noexcept {
    if (object == nullptr) return errno = ENOMEM, nullptr;
    if ((gfp & gfp::zero) == 0) return object;
    if (spec_.ctor != nullptr) warn_zeroed_constructor();
    return std::memset(object, 0, spec_.object_bytes);
  }

  void warn_zeroed_constructor() noexcept {
    if (warned_zero_) return;
    warned_zero_ = true;
    warn("kmem_cache_alloc(%s): __GFP_ZERO on a cache with a constructor wipes its state", name());
  }

  bool count_fits(std::size_t n) noexcept {
    if (n <= PTRDIFF_MAX / sizeof(void*)) return true;
    warn("bulk call on %s: a count of %zu overflows", name(), n);
    errno = EINVAL;
    return false;
  }

  // Why object is not ours; it is left alone.
  KMEM_SLOW void report_free(void* object, const pages::Page* page) noexcept {
    using debug::Fault;
    char fix[64];
    char detail[160];
    format_line(fix, sizeof(fix), "Object at %p not freed", object);
    CacheFront* other = of(page, object);
    if (page->kind != pages::PageKind::slab) {
      format_line(detail, sizeof(detail), "kmem_cache_free(%s, %p): object is not in a slab page",
                  name(), object);
      debug::report(Fault::foreign_pointer, name(), object, detail, fix);
    } else if (page->owner_tag != B::tag) {
      debug::report(Fault::foreign_pointer, name(), object, "its cache was destroyed", fix);
    } else if (other == this) {
      debug::report(Fault::not_an_object, name(), object, nullptr, fix);
    } else if (other == nullptr && kmalloc_bytes(object) != 0) {
      debug::report(Fault::wrong_cache, name(), object, "it came from kmalloc: use kfree", fix);
    } else if (other == nullptr) {
      debug::report(Fault::double_free, name(), object, "no object in use starts there", fix);
    } else {
      format_line(detail, sizeof(detail),
                  "kmem_cache_free(%s, %p): object belongs to different cache %s", name(), object,
                  other->name());
      debug::report(Fault::wrong_cache, name(), object, detail, fix);
    }
  }

  // Of a block of a design whose kmalloc has no caches; else 0.
  static std::size_t kmalloc_bytes(const void* object) noexcept {
    if constexpr (B::kmalloc_classes.by_header) {
      return B::kmalloc_ksize(object);
    } else {
      return 0;
    }
  }

  static bool repeats(void* const* objects, std::size_t i) noexcept {
    return i != 0 && objects[i] == objects[i - 1];
  }

  // Reports and drops what is not ours from objects[first..n), keeps the rest; returns how many
  // stay.
  KMEM_SLOW std::size_t drop_strangers(std::size_t first, std::size_t n, void** objects) noexcept {
    std::size_t kept = first;
    for (std::size_t i = first; i < n; ++i) {
      if (objects[i] == nullptr) continue;
      if (kept != 0 && objects[i] == objects[kept - 1]) {
        debug::report(debug::Fault::double_free, name(), objects[i], "twice in one bulk call",
                      "The second free was ignored");
      } else if (owns(objects[i])) {
        objects[kept++] = objects[i];
      } else {
        report_free(objects[i], pages::page_of(objects[i]));
      }
    }
    return kept;
  }

  B backend_;  // first: the owner of a page is the backend, and so the front
  CacheSpec spec_;
  ListNode link_;            // Registry::caches_
  unsigned references_ = 1;  // itself and its aliases
  std::size_t name_bytes_ = 0;
  bool has_user_region_ = false;
  bool warned_zero_ = false;
};

}  // namespace kmem
