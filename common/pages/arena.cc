#include "common/pages/arena.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/base/environment.h"
#include "common/base/log.h"
#include "common/nodes/topology.h"
#include "common/pages/os.h"
#include "common/sync/ranked_lock.h"

namespace kmem::pages {
namespace {

constexpr std::uint64_t arena_bytes_default = std::uint64_t{64} << 30;
constexpr std::uint64_t arena_bytes_least = 4 * chunk_bytes;
constexpr std::uint64_t arena_bytes_most = std::uint64_t{16} << 40;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

struct Chunk {
  std::atomic<std::uint32_t> run_pages;  // written under the lock; read by run_pages() without
  bool taken;
};

// What page_of() gives before start(): a page without an owner.
constinit Page page_before_start = {};

constinit SpinLock arena_lock{LockRank::arena};
constinit Chunk* chunks = nullptr;
constinit std::size_t chunk_count = 0;
constinit std::size_t free_count = 0;
constinit std::size_t first_free = 0;  // no chunk below it is free

struct Tables {
  std::size_t arena, map, states, chunks;  // bytes
  explicit Tables(std::size_t bytes) noexcept
      : arena(bytes),
        map(bytes / page_bytes * sizeof(Page)),
        states(align_up(bytes / page_bytes, page_bytes)),
        chunks(align_up(bytes / chunk_bytes * sizeof(Chunk), page_bytes)) {}
};

// KMEM_HUGE_PAGES of the memory that objects are in and of their page array: a large live set needs
// fewer TLB entries, a sparse one more memory.
os::HugePages huge_pages_for_objects() noexcept {
  constexpr std::uint64_t unset = 2;
  switch (environment_number("KMEM_HUGE_PAGES", unset, {0, 1})) {
    case 0:
      return os::HugePages::never;
    case 1:
      return os::HugePages::wherever_possible;
    default:
      return os::HugePages::as_system;
  }
}

bool reserve_tables(const Tables& size, os::HugePages huge) noexcept {
  using os::Access, os::HugePages;
  void* base = os::reserve(size.arena, chunk_bytes, Access::read_write, huge);
  if (base == nullptr) return false;
  const bool large_map = huge == HugePages::wherever_possible;
  void* map = os::reserve(size.map, large_map ? huge_page_bytes : page_bytes, Access::read_write,
                          large_map ? huge : HugePages::never);
  void* states = os::reserve(size.states, page_bytes, Access::read_write, HugePages::never);
  void* table = os::reserve(size.chunks, page_bytes, Access::read_write, HugePages::never);
  if (map == nullptr || states == nullptr || table == nullptr) {
    os::unreserve(base, size.arena);
    if (map != nullptr) os::unreserve(map, size.map);
    if (states != nullptr) os::unreserve(states, size.states);
    if (table != nullptr) os::unreserve(table, size.chunks);
    return false;
  }
  block_states = static_cast<std::uint8_t*>(states);
  chunks = static_cast<Chunk*>(table);
  arena = {reinterpret_cast<std::uintptr_t>(base), size.arena / page_bytes,
           static_cast<Page*>(map)};
  return true;
}

// The lowest place where n chunks are free, or 0.
std::size_t find_chunks(std::size_t n) noexcept {
  std::size_t length = 0;
  for (std::size_t i = first_free; i < chunk_count; ++i) {
    length = chunks[i].taken ? 0 : length + 1;
    if (length == n) return i + 1 - n;
  }
  return 0;
}

std::size_t chunk_of(const Page* page) noexcept { return index_of(page) / chunk_pages; }

}  // namespace

// The base is one from which no pointer of this system is near: whatever mixture of old and new
// words a thread reads while another one starts, it comes to a null page.
constinit Arena arena = {std::uintptr_t{1} << 63, 0, &page_before_start};
constinit std::uint8_t* block_states = nullptr;

bool reserve_arena() noexcept {
  const std::size_t asked = align_down(environment_number("KMEM_ARENA_BYTES", arena_bytes_default,
                                                          {arena_bytes_least, arena_bytes_most}),
                                       chunk_bytes);
  std::size_t bytes = asked;
  const os::HugePages huge = huge_pages_for_objects();
  while (!reserve_tables(Tables(bytes), huge)) {
    bytes = align_down(bytes / 2, chunk_bytes);
    if (bytes < arena_bytes_least) return false;
  }
  if (bytes != asked)
    warn("arena: %zu MiB instead of %zu MiB could be reserved", bytes >> 20, asked >> 20);
  chunk_count = bytes / chunk_bytes;
  chunks[0].taken = true;
  first_free = 1;
  free_count = chunk_count - 1;
  return true;
}

Page* take_chunks(std::size_t n, int node) noexcept {
  std::size_t first = 0;
  {
    Guard guard(arena_lock);
    if (n > free_count) return nullptr;
    first = find_chunks(n);
    if (first == 0) return nullptr;
    for (std::size_t i = first; i < first + n; ++i) chunks[i].taken = true;
    free_count -= n;
    while (first_free < chunk_count && chunks[first_free].taken) ++first_free;
  }
  Page* page = arena.map + first * chunk_pages;
  nodes::bind_memory(address_of(page), n * chunk_bytes, node);
  return page;
}

void give_chunks(Page* first, std::size_t n) noexcept {
  const std::size_t start = chunk_of(first);
  KMEM_ASSERT(index_of(first) % chunk_pages == 0 && start > 0 && start + n <= chunk_count);
  os::discard(first, n * chunk_pages * sizeof(Page));
  Guard guard(arena_lock);
  for (std::size_t i = start; i < start + n; ++i) {
    KMEM_ASSERT(chunks[i].taken);
    chunks[i].taken = false;
  }
  free_count += n;
  first_free = std::min(first_free, start);
}

void lock_arena_for_fork() noexcept { arena_lock.unranked().lock(); }
void unlock_arena_after_fork() noexcept { arena_lock.unranked().unlock(); }

std::size_t free_chunks() noexcept {
  Guard guard(arena_lock);
  return free_count;
}

Page* next_taken_chunk(std::size_t chunk) noexcept {
  Guard guard(arena_lock);
  for (std::size_t i = std::max<std::size_t>(chunk, 1); i < chunk_count; ++i) {
    if (chunks[i].taken) return arena.map + i * chunk_pages;
  }
  return nullptr;
}

void set_run_pages(const Page* first, std::size_t pages) noexcept {
  KMEM_ASSERT(index_of(first) % chunk_pages == 0);
  chunks[chunk_of(first)].run_pages.store(static_cast<std::uint32_t>(pages),
                                          std::memory_order_relaxed);
}

std::size_t run_pages(const Page* first) noexcept {
  if (index_of(first) % chunk_pages != 0) return 0;
  return chunks[chunk_of(first)].run_pages.load(std::memory_order_relaxed);
}

}  // namespace kmem::pages
