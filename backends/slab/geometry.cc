#include "backends/slab/geometry.h"

#include <algorithm>

#include "common/base/bits.h"

namespace kmem::slab {
namespace {

struct Fit {
  unsigned objects = 0;  // 0: nothing fits under the rules
  unsigned order = 0;
  std::size_t left_bytes = 0;
};

Fit fit(std::size_t slot_bytes, unsigned order, Management management) noexcept {
  const std::size_t slab_bytes = pages::page_bytes << order;
  const std::size_t each_bytes = slot_bytes + (management == Management::on_slab ? 1 : 0);
  return {static_cast<unsigned>(slab_bytes / each_bytes), order, slab_bytes % each_bytes};
}

// The cache of kmalloc() that would hold an index array of so many bytes; none of these caches
// keeps its own index arrays off-slab, so the recursion ends here.
std::size_t index_block_bytes(unsigned objects) noexcept {
  if (objects > 64 && objects <= 96) return 96;
  if (objects > 128 && objects <= 192) return 192;
  return std::max<std::size_t>(32, std::bit_ceil(std::size_t{objects}));
}

// The smallest order that wastes at most an eighth, but no more than preferred_max_order unless
// nothing smaller holds an object.
Fit choose_order(const CacheSpec& spec, std::size_t slot_bytes, Management management) noexcept {
  Fit best;
  for (unsigned order = 0; order <= pages::max_order; ++order) {
    const Fit candidate = fit(slot_bytes, order, management);
    if (candidate.objects == 0) continue;
    if (candidate.objects > max_objects) break;
    if (management == Management::off_slab &&
        index_block_bytes(candidate.objects) > slot_bytes / 2) {
      continue;
    }
    best = candidate;
    if ((spec.flags & slab_flag::reclaim_account) != 0) break;
    if (order >= preferred_max_order) break;
    if (candidate.left_bytes * 8 <= pages::page_bytes << order) break;
  }
  return best;
}

// A free object may hold the index array only if nobody relies on what is in a free object.
Fit fit_in_object(const CacheSpec& spec, std::size_t slot_bytes) noexcept {
  if (spec.ctor != nullptr) return {};
  if ((spec.flags & (slab_flag::typesafe_by_rcu | slab_flag::debug)) != 0) return {};
  const Fit found = choose_order(spec, slot_bytes, Management::in_object);
  return found.objects > spec.object_bytes ? Fit{} : found;
}

Fit fit_off_slab(const CacheSpec& spec, std::size_t slot_bytes) noexcept {
  // One object of the largest block: only an array elsewhere leaves room for it.
  const bool fills_largest = slot_bytes == pages::max_block_bytes;
  if ((spec.flags & slab_flag::noleaktrace) != 0 && !fills_largest) return {};
  const Fit found = choose_order(spec, slot_bytes, Management::off_slab);
  return found.left_bytes >= found.objects ? Fit{}
                                           : found;  // the leftover holds the array for free
}

}  // namespace

unsigned default_limit(std::size_t slot_bytes) noexcept {
  if (slot_bytes > 131072) return 1;
  if (slot_bytes > 4096) return 8;
  if (slot_bytes > 1024) return 24;
  if (slot_bytes > 256) return 54;
  return 120;
}

unsigned default_shared_factor(std::size_t slot_bytes, unsigned cpus) noexcept {
  return slot_bytes <= pages::page_bytes && cpus > 1 ? 8 : 0;
}

Layout plan_layout(const CacheSpec& spec, unsigned cpus) noexcept {
  const std::size_t align = object_align(spec);
  std::size_t slot_bytes = align_up(align_up(spec.object_bytes, sizeof(void*)), align);
  if (slot_bytes < min_slot_bytes) slot_bytes = align_up(min_slot_bytes, align);

  Management management = Management::in_object;
  Fit found = fit_in_object(spec, slot_bytes);
  if (found.objects == 0) {
    management = Management::off_slab;
    found = fit_off_slab(spec, slot_bytes);
  }
  if (found.objects == 0) {
    management = Management::on_slab;
    found = choose_order(spec, slot_bytes, management);
  }

  Layout layout{};
  layout.management = management;
  Geometry& geometry = layout.geometry;
  geometry.slot_bytes = slot_bytes;
  geometry.align = align;
  geometry.inuse_bytes = align_up(spec.object_bytes, sizeof(void*));
  geometry.order = geometry.order_min = found.order;
  geometry.objects = found.objects;
  geometry.waste_bytes = found.left_bytes;
  geometry.colour_bytes = std::max(cache_line_bytes, align);
  geometry.colours = std::max<std::size_t>(1, found.left_bytes / geometry.colour_bytes);
  geometry.management = management == Management::in_object  ? "in-object"
                        : management == Management::off_slab ? "off-slab"
                                                             : "on-slab";
  geometry.limit = default_limit(slot_bytes);
  if ((spec.flags & slab_flag::debug) != 0) geometry.limit = std::min(geometry.limit, debug_limit);
  geometry.batchcount = (geometry.limit + 1) / 2;
  geometry.shared = default_shared_factor(slot_bytes, cpus) * geometry.batchcount;
  if (management == Management::off_slab) {
    layout.index_block_bytes = index_block_bytes(found.objects);
  }
  return layout;
}

}  // namespace kmem::slab
