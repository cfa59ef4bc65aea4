#include "backends/slob/geometry.h"

#include <algorithm>
#include <bit>

namespace kmem::slob {
namespace {

bool waits_on_own_list(const CacheSpec& spec) noexcept {
  return (spec.flags & slab_flag::typesafe_by_rcu) != 0;
}

std::uint16_t units_for(std::size_t bytes) noexcept {
  return static_cast<std::uint16_t>(divide_up(std::max(bytes, min_block_bytes), unit_bytes));
}

// The object, and the link behind it where the object has no room for one.
std::size_t bytes_with_link(const CacheSpec& spec) noexcept {
  if (!waits_on_own_list(spec) || spec.has_freeptr_offset) return spec.object_bytes;
  return link_offset(spec) + sizeof(void*);
}

// Objects that one wholly free page yields, by the arithmetic of carve().
unsigned objects_in_page(const Request& request) noexcept {
  unsigned objects = 0;
  std::size_t at = 0;
  while (at + request.units <= page_units) {
    ++objects;
    at = align_up(at + request.units, request.align_units);
  }
  return objects;
}

}  // namespace

Request kmalloc_request(std::size_t bytes) noexcept {
  KMEM_ASSERT(bytes > 0);
  KMEM_ASSERT(bytes < kmalloc_end_bytes);
  const std::size_t align =
      std::has_single_bit(bytes) ? std::max(bytes, min_align_bytes) : min_align_bytes;
  Request request;
  request.units = units_for(bytes + kmalloc_header_bytes);
  request.align_units = static_cast<std::uint16_t>(align / unit_bytes);
  request.lead_units = kmalloc_header_bytes / unit_bytes;
  request.fit = fit_for(bytes + kmalloc_header_bytes);
  return request;
}

Request cache_request(const CacheSpec& spec) noexcept {
  const std::size_t bytes = bytes_with_link(spec);
  const std::size_t align = object_align(spec);
  Request request;
  if (bytes >= pages::page_bytes || align > pages::page_bytes) return request;
  request.units = units_for(bytes);
  request.align_units = static_cast<std::uint16_t>(align / unit_bytes);
  request.fit = fit_for(bytes);
  return request;
}

unsigned whole_order(const CacheSpec& spec) noexcept {
  const std::size_t bytes = std::max(bytes_with_link(spec), object_align(spec));
  return log2_floor(std::bit_ceil(divide_up(bytes, pages::page_bytes)));
}

std::size_t link_offset(const CacheSpec& spec) noexcept {
  if (spec.has_freeptr_offset) return spec.freeptr_offset;
  return align_up(spec.object_bytes, sizeof(void*));
}

Geometry geometry(const CacheSpec& spec) noexcept {
  Geometry result{};
  const Request request = cache_request(spec);
  result.align = object_align(spec);
  result.inuse_bytes = align_up(spec.object_bytes, sizeof(void*));
  result.link_offset = waits_on_own_list(spec) ? link_offset(spec) : 0;
  result.colours = 1;
  result.management = "";
  if (request.units != 0) {
    result.slot_bytes = request.units * unit_bytes;
    result.objects = objects_in_page(request);
    result.waste_bytes = pages::page_bytes - result.objects * result.slot_bytes;
    return result;
  }
  const unsigned order = whole_order(spec);
  if (order > pages::max_order) return result;
  result.slot_bytes = pages::page_bytes << order;
  result.order = result.order_min = order;
  result.objects = 1;
  result.waste_bytes = result.slot_bytes - bytes_with_link(spec);
  return result;
}

}  // namespace kmem::slob
