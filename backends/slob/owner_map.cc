#include "backends/slob/owner_map.h"

#include <bit>

namespace kmem::slob {
namespace {

constexpr std::uint64_t all_in_use = (std::uint64_t{1} << maps_in_page) - 1;

}  // namespace

unsigned next_start(std::uint8_t* map, unsigned from) noexcept {
  constexpr unsigned granule_units = map_granule_bytes / unit_bytes;
  for (unsigned granule = from / granule_units; granule < map_bytes; ++granule) {
    const unsigned value = load_byte(map, granule);
    if (value == 0 || (value & continued_bit) != 0) continue;
    const unsigned half = (value & half_bit) != 0;
    const unsigned start = granule * granule_units + half * (granule_units / 2);
    if (start >= from) return start;
  }
  return page_units;
}

std::uint8_t* MapPages::take() noexcept {
  ListNode* link = open_.front();
  if (link == nullptr) return nullptr;
  pages::Page* page = pages::from_link(link);
  KMEM_ASSERT(page->counters != all_in_use);
  const unsigned index = static_cast<unsigned>(std::countr_one(page->counters));
  page->counters |= std::uint64_t{1} << index;
  if (page->counters == all_in_use) List::remove(link);
  ++map_count_;
  return reinterpret_cast<std::uint8_t*>(pages::address_of(page)) + index * map_bytes;
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
  const std::size_t index = (map - reinterpret_cast<std::uint8_t*>(pages::address_of(page))) /
                            static_cast<std::ptrdiff_t>(map_bytes);
  KMEM_ASSERT((page->counters >> index & 1) != 0);
  if (page->counters == all_in_use) open_.push_front(&page->link);
  page->counters &= ~(std::uint64_t{1} << index);
  --map_count_;
  if (page->counters != 0) return nullptr;
  List::remove(&page->link);
  --page_count_;
  return page;
}

}  // namespace kmem::slob
