#include "common/percpu/area.h"

#include <cstring>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/pages/pages.h"
#include "common/sync/ranked_lock.h"

namespace kmem::percpu {
namespace {

inline constexpr std::size_t granule_bytes = cache_line_bytes;
inline constexpr std::size_t granules = unit_bytes / granule_bytes;

// One bit a granule, first fit: a cache is created rarely, and 2 KiB a chunk is all that it costs.
class OffsetMap {
 public:
  // The first of count free granules in a row, now taken; granules if there are none.
  std::size_t take(std::size_t count) noexcept {
    std::size_t run = 0;
    for (std::size_t i = 0; i < granules; ++i) {
      run = test(i) ? 0 : run + 1;
      if (run < count) continue;
      const std::size_t first = i + 1 - count;
      set(first, count, true);
      return first;
    }
    return granules;
  }
  void give(std::size_t first, std::size_t count) noexcept { set(first, count, false); }
  std::size_t used() const noexcept {
    std::size_t total = 0;
    for (const std::uint64_t word : words_) total += static_cast<std::size_t>(std::popcount(word));
    return total;
  }

 private:
  bool test(std::size_t i) const noexcept { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void set(std::size_t first, std::size_t count, bool taken) noexcept {
    for (std::size_t i = first; i < first + count; ++i) {
      KMEM_ASSERT(test(i) != taken);
      words_[i / 64] ^= std::uint64_t{1} << (i % 64);
    }
  }
  std::uint64_t words_[granules / 64];
};

struct Chunk {
  Chunk* next;
  char* base;
  unsigned cpus;
  OffsetMap map;
};

// The dummy is replaced by a larger one when a machine with more CPUs is asked for (Virtual);
// caches keep the one that they were created with.
struct Area {
  SpinLock lock{LockRank::metadata};
  Chunk* chunks = nullptr;
  char* dummy = nullptr;
  unsigned dummy_cpus = 0;
};
constinit Area area;

bool ensure_dummy(unsigned cpus) noexcept {
  {
    Guard guard(area.lock);
    if (area.dummy_cpus >= cpus) return true;
  }
  auto* dummy = static_cast<char*>(pages::reserve_zeroed(cpus * unit_bytes, true));
  if (dummy == nullptr) return false;
  Guard guard(area.lock);
  if (area.dummy_cpus >= cpus) return true;  // another thread's; ours costs address space only
  area.dummy = dummy;
  area.dummy_cpus = cpus;
  return true;
}

char* take_from_chunks(std::size_t count, unsigned cpus) noexcept {
  Guard guard(area.lock);
  for (Chunk* chunk = area.chunks; chunk != nullptr; chunk = chunk->next) {
    if (chunk->cpus < cpus) continue;
    const std::size_t first = chunk->map.take(count);
    if (first != granules) return chunk->base + first * granule_bytes;
  }
  return nullptr;
}

bool add_chunk(unsigned cpus) noexcept {
  auto* chunk = static_cast<Chunk*>(pages::metadata_alloc(sizeof(Chunk)));
  if (chunk == nullptr) return false;
  chunk->base = static_cast<char*>(pages::reserve_zeroed(cpus * unit_bytes, false));
  chunk->cpus = cpus;
  if (chunk->base == nullptr) {
    pages::metadata_free(chunk, sizeof(Chunk));
    return false;
  }
  Guard guard(area.lock);
  // At the end, so that old chunks fill up first.
  Chunk** end = &area.chunks;
  while (*end != nullptr) end = &(*end)->next;
  *end = chunk;
  return true;
}

// Whole pages go back to the system, what is left at the ends is cleared.
void make_zero(char* begin, std::size_t bytes) noexcept {
  char* const end = begin + bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  char* const first_page = begin + (align_up(address, pages::page_bytes) - address);
  char* const last_page = end - (address + bytes) % pages::page_bytes;
  if (first_page >= last_page) {
    std::memset(begin, 0, bytes);
    return;
  }
  std::memset(begin, 0, static_cast<std::size_t>(first_page - begin));
  std::memset(last_page, 0, static_cast<std::size_t>(end - last_page));
  pages::discard(first_page, static_cast<std::size_t>(last_page - first_page));
}

}  // namespace

char* area_dummy(unsigned cpus) noexcept {
  if (!ensure_dummy(cpus)) return nullptr;
  Guard guard(area.lock);
  return area.dummy;
}

Place area_alloc(std::size_t bytes, unsigned cpus) noexcept {
  KMEM_ASSERT(bytes > 0 && bytes <= unit_bytes && cpus > 0);
  const std::size_t count = divide_up(bytes, granule_bytes);
  char* const dummy = area_dummy(cpus);
  if (dummy == nullptr) return {};
  char* base = take_from_chunks(count, cpus);
  while (base == nullptr) {  // ends: only a racing creator can empty a fresh chunk, once each
    if (!add_chunk(cpus)) return {};
    base = take_from_chunks(count, cpus);
  }
  return {base, dummy};
}

void area_free(Place place, std::size_t bytes, unsigned cpus) noexcept {
  for (unsigned cpu = 0; cpu < cpus; ++cpu) make_zero(unit_of(place.base, cpu), bytes);
  Guard guard(area.lock);
  for (Chunk* chunk = area.chunks; chunk != nullptr; chunk = chunk->next) {
    if (place.base < chunk->base || place.base >= chunk->base + unit_bytes) continue;
    const auto offset = static_cast<std::size_t>(place.base - chunk->base);
    chunk->map.give(offset / granule_bytes, divide_up(bytes, granule_bytes));
    return;
  }
  KMEM_ASSERT(!"a place of no chunk");
}

AreaUsage area_usage() noexcept {
  Guard guard(area.lock);
  AreaUsage usage{};
  for (const Chunk* chunk = area.chunks; chunk != nullptr; chunk = chunk->next) {
    ++usage.chunks;
    usage.used_bytes += chunk->map.used() * granule_bytes;
  }
  return usage;
}

}  // namespace kmem::percpu
