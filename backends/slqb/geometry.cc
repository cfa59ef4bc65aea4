#include "backends/slqb/geometry.h"

#include <algorithm>

#include "common/base/bits.h"
#include "common/pages/page.h"

namespace kmem::slqb {
namespace {

using pages::page_bytes;

// Order 1 is tried to save memory, never for speed: order 0 is what every system always has.
constexpr unsigned order_tried_max = 1;

unsigned order_to_hold(std::size_t bytes) noexcept {
  const std::size_t pages = divide_up(bytes, page_bytes);
  return pages == 1 ? 0 : log2_floor(pages - 1) + 1;
}

std::size_t waste_of(std::size_t slot_bytes, unsigned order) noexcept {
  return (page_bytes << order) % slot_bytes;
}

// The first order that wastes at most a quarter; if none does, the smallest that holds an object.
unsigned choose_order(std::size_t slot_bytes) noexcept {
  const unsigned smallest = order_to_hold(slot_bytes);
  for (unsigned order = smallest; order <= order_tried_max; ++order) {
    if (waste_of(slot_bytes, order) * 4 <= (page_bytes << order)) return order;
  }
  return smallest;
}

// A free object's link lies at its start, unless what is there must survive the object's being
// free: a constructed state, what a reader under RCU looks at, poison.
bool keeps_contents(const CacheSpec& spec) noexcept {
  return spec.ctor != nullptr ||
         (spec.flags & (slab_flag::typesafe_by_rcu | slab_flag::poison)) != 0;
}

}  // namespace

QueueLength queue_length(std::size_t slot_bytes) noexcept {
  const std::size_t at_least = 4 * page_bytes / slot_bytes;
  const std::size_t at_most = 64 * page_bytes / slot_bytes;
  const std::size_t batch = std::max(at_least, std::min<std::size_t>(256, at_most));
  const auto freebatch = static_cast<unsigned>(std::max<std::size_t>(batch, 1));
  return {freebatch, 4 * freebatch};
}

bool legal(const QueueLength& length) noexcept {
  return length.freebatch > 0 && length.hiwater <= 0xffff && length.freebatch <= 0xffff &&
         length.freebatch - 1 <= length.hiwater;
}

Geometry plan_geometry(const CacheSpec& spec) noexcept {
  Geometry g{};
  g.management = "";
  g.align = object_align(spec);
  g.inuse_bytes = align_up(spec.object_bytes, sizeof(void*));
  std::size_t bytes = g.inuse_bytes;
  if (spec.has_freeptr_offset) {
    g.link_offset = spec.freeptr_offset;
  } else if (keeps_contents(spec)) {
    g.link_offset = bytes;
    bytes += sizeof(void*);
  }
  g.slot_bytes = align_up(bytes, g.align);
  g.order = g.order_min = choose_order(g.slot_bytes);
  g.colours = 1;
  if (g.order > pages::max_order) return g;

  g.objects = static_cast<unsigned>((page_bytes << g.order) / g.slot_bytes);
  g.waste_bytes = waste_of(g.slot_bytes, g.order);
  g.colour_bytes = align_up(cache_line_bytes, g.align);
  if ((spec.flags & slab_flag::debug) == 0)
    g.colours = std::max<std::size_t>(1, g.waste_bytes / g.colour_bytes);
  const QueueLength length = queue_length(g.slot_bytes);
  g.limit = length.hiwater;
  g.batchcount = length.freebatch;
  return g;
}

}  // namespace kmem::slqb
