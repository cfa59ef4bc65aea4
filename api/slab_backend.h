// What a slab design offers to sit behind kmem_cache. It places objects and nothing else: names,
// flags, zeroing, merging, large blocks and the checks of a caller's pointer are done once, above.
// A concept fixes only the shape; the meaning is tests/conformance/, which all four must pass.
//
// Thread safety: all but create() and destroy() may be called on any thread at any time; shrink(),
// retune(), usage() and validate() may run beside traffic (validate() is exact only without).
#pragma once

#include <concepts>
#include <cstddef>

#include "common/slab/spec.h"

namespace kmem {

// Formatted by hand: clang-format 14 breaks compound requirements.
// clang-format off
template <class B>
concept SlabBackend = requires(B b, const B c, const CacheSpec& spec, gfp_t gfp, int node,
                               void* object, pages::Page* page, void** objects,
                               std::size_t n, unsigned cpus,
                               const Tunables& tunables, LiveVisitor visit, void* context) {
  { B::name } -> std::convertible_to<const char*>;  // "slab" ...
  { B::tag } -> std::convertible_to<std::uint8_t>;  // of this backend and policy
  { B::kmalloc_classes } -> std::convertible_to<KmallocClasses>;
  { B::merges_caches } -> std::convertible_to<bool>;
  { B::geometry(spec, cpus) } noexcept -> std::same_as<Geometry>;  // objects == 0: impossible

  { b.create(spec) } noexcept -> std::same_as<bool>;  // false: no memory, no trace
  // Live objects left (their slabs are kept for ever, their owner is null: a later free of one is
  // reported as foreign); 0: everything was given back.
  { b.destroy() } noexcept -> std::same_as<std::size_t>;
  { b.geometry() } noexcept -> std::same_as<const Geometry&>;

  { b.alloc(gfp) } noexcept -> std::same_as<void*>;  // nullptr: no memory
  { b.alloc_fast() } noexcept -> std::same_as<void*>;  // nullptr: nothing at hand, see alloc()
  { b.alloc_node(gfp, node) } noexcept -> std::same_as<void*>;
  { b.alloc_bulk(gfp, n, objects) } noexcept -> std::same_as<bool>;  // all or nothing; true for 0
  // page is page_of(object): it belongs to this cache and object is at an object's start. Cheap,
  // and right for any pointer.
  { c.owns(page, object) } noexcept -> std::same_as<bool>;
  { b.free(object, page) } noexcept -> std::same_as<void>;  // owns() was true
  { b.free_bulk(n, objects) } noexcept -> std::same_as<void>;  // owns() was true for each
  // Where a design can do better than one check an object, it also has
  //   count_owned(n, objects)        how many from the front are its objects
  //   free_bulk_checked(n, objects)  checks and frees in one pass, from the front, as many as it
  //                                  likes; returns how many

  { b.shrink() } noexcept -> std::same_as<bool>;  // true: slabs remain
  { b.retune(tunables) } noexcept -> std::same_as<bool>;  // false: not tunable, or no memory
  { b.tunables() } noexcept -> std::same_as<Tunables>;
  { b.usage() } noexcept -> std::same_as<CacheUsage>;
  { b.path_counts() } noexcept -> std::same_as<PathCounts>;
  { b.validate() } noexcept -> std::same_as<const char*>;  // the broken invariant, or null
  { b.for_each_live(visit, context) } noexcept -> std::same_as<void>;
};
// clang-format on

}  // namespace kmem
