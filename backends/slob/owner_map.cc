#include "backends/slob/owner_map.h"

#include <bit>
#include <cstring>

namespace kmem::slob {

OwnerId OwnerMap::id_at(std::size_t offset) const noexcept {
  if (offset % min_align_bytes != 0) return owner_id::none;
  if (coarse()) {
    const std::uint32_t value = entry(offset).load(std::memory_order_relaxed);
    return value % 32 == step(offset) ? static_cast<OwnerId>(value / 32) : owner_id::none;
  }
  const unsigned id = load(offset) ^ half(offset);
  if (id > 0x3f) return owner_id::none;
  if (id < owner_id::first_wide) return static_cast<OwnerId>(id);
  const unsigned more = load(offset + fine_granule_bytes);
  const unsigned low = (more & 0x3f) | (more & 0x80) >> 1;
  return static_cast<OwnerId>(owner_id::first_wide + (id - owner_id::first_wide) * 128 + low);
}

std::size_t OwnerMap::start_in(std::size_t granule) const noexcept {
  if (coarse()) {
    const std::size_t base = granule * coarse_granule_bytes;
    const std::uint32_t value = entry(base).load(std::memory_order_relaxed);
    return value == 0 ? pages::page_bytes : base + value % 32 * min_align_bytes;
  }
  const std::size_t base = granule * fine_granule_bytes;
  const unsigned value = load(base);
  if (value == 0 || (value & 0x40) != 0) return pages::page_bytes;
  return base + ((value & 0x80) != 0 ? min_align_bytes : 0);
}

std::size_t OwnerMap::next_start(std::size_t offset) const noexcept {
  const std::size_t granule_bytes = coarse() ? coarse_granule_bytes : fine_granule_bytes;
  for (std::size_t granule = offset / granule_bytes; granule < pages::page_bytes / granule_bytes;
       ++granule) {
    const std::size_t start = start_in(granule);
    if (start != pages::page_bytes && start >= offset) return start;
  }
  return pages::page_bytes;
}

std::uint8_t* MapPages::take() noexcept {
  ListNode* link = open_.front();
  if (link == nullptr) return nullptr;
  pages::Page* page = pages::from_link(link);
  KMEM_ASSERT(page->counters != all_in_use());
  const auto index = static_cast<unsigned>(std::countr_one(page->counters));
  page->counters |= std::uint64_t{1} << index;
  if (page->counters == all_in_use()) List::remove(link);
  ++map_count_;
  void* map = pages::address_of(page) + index * map_bytes_;
  return static_cast<std::uint8_t*>(std::memset(map, 0, map_bytes_));
}

std::uint8_t* MapPages::add(pages::Page* page) noexcept {
  page->counters = 0;
  page->link = {};
  open_.push_front(&page->link);
  ++page_count_;
  return take();
}

pages::Page* MapPages::put(std::uint8_t* map) noexcept {
  pages::Page* page = pages::page_of(map);
  const auto offset = reinterpret_cast<std::uintptr_t>(map) % pages::page_bytes;
  const std::uint64_t bit = std::uint64_t{1} << offset / map_bytes_;
  KMEM_ASSERT((page->counters & bit) != 0);
  if (page->counters == all_in_use()) open_.push_front(&page->link);
  page->counters &= ~bit;
  --map_count_;
  if (page->counters != 0) return nullptr;
  List::remove(&page->link);
  --page_count_;
  return page;
}

}  // namespace kmem::slob
