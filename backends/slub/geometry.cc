#include "backends/slub/geometry.h"

#include <algorithm>
#include <bit>

#include "common/base/bits.h"

namespace kmem::slub {
namespace {

unsigned order_of(std::size_t bytes) noexcept {
  const std::size_t pages = divide_up(bytes, pages::page_bytes);
  return pages <= 1 ? 0 : log2_floor(pages - 1) + 1;
}

unsigned objects_in(unsigned order, std::size_t slot_bytes) noexcept {
  return static_cast<unsigned>((pages::page_bytes << order) / slot_bytes);
}

// More CPUs take the node lock more often, so each visit should bring more objects.
unsigned wanted_objects(unsigned cpus) noexcept {
  return 4 * (static_cast<unsigned>(std::bit_width(cpus)) + 1);
}

// The smallest order that holds enough objects and wastes little; when none does, more waste is
// allowed, down to half a slab; then whatever holds one object.
unsigned choose_order(std::size_t slot_bytes, unsigned cpus) noexcept {
  const unsigned wanted =
      std::min(wanted_objects(cpus), objects_in(max_preferred_order, slot_bytes));
  if (wanted == 0) return order_of(slot_bytes);
  const unsigned first = order_of(wanted * slot_bytes);
  for (unsigned fraction = 16; fraction > 1; fraction /= 2) {
    for (unsigned order = first; order <= max_preferred_order; ++order) {
      const std::size_t slab_bytes = pages::page_bytes << order;
      if (slab_bytes % slot_bytes <= slab_bytes / fraction) return order;
    }
  }
  return order_of(slot_bytes);
}

// Objects that a CPU may keep in its list of partial slabs, seen as objects.
unsigned cpu_partial_objects(std::size_t slot_bytes) noexcept {
  if (slot_bytes >= pages::page_bytes) return 6;
  if (slot_bytes >= 1024) return 24;
  if (slot_bytes >= 256) return 52;
  return 120;
}

// The free pointer lies in the middle of a free object, away from its neighbours' overruns; outside
// the object where its contents must survive being free.
void place_link(const CacheSpec& spec, Geometry& g) noexcept {
  const bool contents_survive =
      spec.ctor != nullptr || (spec.flags & (slab_flag::typesafe_by_rcu | slab_flag::poison)) != 0;
  if (spec.has_freeptr_offset) {
    g.link_offset = spec.freeptr_offset;
  } else if (contents_survive) {
    g.link_offset = g.slot_bytes;
    g.slot_bytes += sizeof(void*);
  } else {
    g.link_offset = align_down(spec.object_bytes / 2, sizeof(void*));
  }
}

}  // namespace

Geometry geometry(const CacheSpec& spec, unsigned cpus) noexcept {
  Geometry g{};
  g.management = "";
  g.colours = 1;
  g.align = object_align(spec);
  g.inuse_bytes = align_up(std::max<std::size_t>(spec.object_bytes, 1), sizeof(void*));
  g.slot_bytes = g.inuse_bytes;
  place_link(spec, g);
  g.slot_bytes = align_up(g.slot_bytes, g.align);
  if (g.slot_bytes > pages::max_block_bytes) return g;

  g.order = choose_order(g.slot_bytes, cpus);
  g.order_min = order_of(g.slot_bytes);
  g.objects = std::min(objects_in(g.order, g.slot_bytes), max_objects);
  g.waste_bytes = (pages::page_bytes << g.order) - g.objects * g.slot_bytes;
  g.min_partial = std::clamp(log2_floor(g.slot_bytes) / 2, 5u, 10u);
  g.cpu_partial = cpu_partial_objects(g.slot_bytes);
  g.cpu_partial_slabs = static_cast<unsigned>(divide_up(std::size_t{2} * g.cpu_partial, g.objects));
  return g;
}

}  // namespace kmem::slub
