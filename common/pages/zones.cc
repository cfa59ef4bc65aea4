#include "common/pages/zones.h"

#include <new>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/nodes/topology.h"
#include "common/pages/arena.h"
#include "common/pages/limits.h"
#include "common/pages/os.h"

namespace kmem::pages {
namespace {

constexpr std::uint64_t any_epoch = ~std::uint64_t{0};
constexpr std::size_t decay_step_pages = 4096;  // 16 MiB: some milliseconds of a caller's time

struct Decay {
  std::atomic<std::uint64_t> interval_ms{1000};
  std::atomic<std::uint64_t> next_pass_ms{0};
  std::atomic<bool> unfinished{false};
};
constinit Decay decay;

Buddy& buddy_of_list(std::size_t list) noexcept { return zones.buddies[list % zones.node_count]; }

// Chunks that are wholly free go to the arena, for other nodes and runs.
std::size_t reclaim_chunks() noexcept {
  std::size_t pages = 0;
  for (int node = 0; node < nodes::count(); ++node)
    pages += zones.buddies[node].release(any_epoch, zones.buddies[node].dirty_pages(), max_order);
  account.releases.fetch_add(pages, std::memory_order_relaxed);
  return pages;
}

Buddy::Block take_from_nodes(unsigned order, int node, bool strict) noexcept {
  const int candidates = strict ? 1 : nodes::count();
  for (int rank = 0; rank < candidates; ++rank) {
    const Buddy::Block block = zones.buddies[nodes::nearest(node, rank)].take(order);
    if (block.head != nullptr) return block;
  }
  return {};
}

// What the peak of charged bytes overstates: pages on the list of the CPU that allocates. Lists of
// other CPUs are not asked; they hold at most 1 MiB each.
void note_block_peak(int node) noexcept {
  const CpuList& list = list_of(os::current_cpu(), node);
  note_peak(list.counts().pages * page_bytes);
}

}  // namespace

constinit Zones zones = {};

bool create_zones() noexcept {
  const auto node_count = static_cast<std::size_t>(nodes::count());
  const std::size_t list_count = node_count * nodes::cpu_ids();
  const std::size_t buddies_bytes = align_up(node_count * sizeof(Buddy), page_bytes);
  const std::size_t lists_bytes = align_up(list_count * sizeof(CpuList), page_bytes);
  using os::Access, os::HugePages;
  void* memory =
      os::reserve(buddies_bytes + lists_bytes, page_bytes, Access::read_write, HugePages::never);
  if (memory == nullptr) return false;
  auto* buddies = static_cast<Buddy*>(memory);
  for (int node = 0; node < nodes::count(); ++node) new (buddies + node) Buddy(node);
  auto* lists = reinterpret_cast<CpuList*>(static_cast<char*>(memory) + buddies_bytes);
  zones = {buddies, lists, node_count, list_count};
  return true;
}

bool charge_or_drain(std::size_t bytes) noexcept {
  if (charge(bytes)) return true;
  drain_cpu_lists();  // their pages are free, but charged
  return charge(bytes);
}

Buddy::Block take_uncharged(unsigned order, int node, bool strict) noexcept {
  const Buddy::Block block = take_from_nodes(order, node, strict);
  if (block.head != nullptr) return block;
  drain_cpu_lists();
  reclaim_chunks();
  return take_from_nodes(order, node, strict);
}

Buddy::Block take_block(unsigned order, int node, bool strict) noexcept {
  const std::size_t bytes = page_bytes << order;
  if (!charge_or_drain(bytes)) return {};
  const Buddy::Block block = take_uncharged(order, node, strict);
  if (block.head == nullptr) {
    uncharge(bytes);
  } else {
    note_block_peak(node);
  }
  return block;
}

void give_uncharged(Page* head, unsigned order) noexcept {
  zones.buddies[head->node].give(head, order);
}

void give_block(Page* head, unsigned order) noexcept {
  give_uncharged(head, order);
  uncharge(page_bytes << order);
}

Page* take_run(std::size_t bytes, int node) noexcept {
  const std::size_t chunks = divide_up(bytes, chunk_bytes);
  if (!charge_or_drain(bytes)) return nullptr;
  Page* first = take_chunks(chunks, node);
  if (first == nullptr) {
    drain_cpu_lists();
    reclaim_chunks();
    first = take_chunks(chunks, node);
  }
  if (first == nullptr) {
    uncharge(bytes);
  } else {
    note_block_peak(node);
  }
  return first;
}

void drain_cpu_lists() noexcept {
  for (std::size_t list = 0; list < zones.list_count; ++list)
    zones.cpu_lists[list].drain(buddy_of_list(list));
}

std::size_t release_all() noexcept {
  drain_cpu_lists();
  std::size_t pages = 0;
  for (int node = 0; node < nodes::count(); ++node)
    pages += zones.buddies[node].release(any_epoch, zones.buddies[node].dirty_pages());
  account.releases.fetch_add(pages, std::memory_order_relaxed);
  return pages * page_bytes;
}

void lock_zones_for_fork() noexcept {
  for (std::size_t list = 0; list < zones.list_count; ++list) zones.cpu_lists[list].lock_for_fork();
  for (int node = 0; node < nodes::count(); ++node) zones.buddies[node].lock_for_fork();
}

void unlock_zones_after_fork() noexcept {
  for (int node = 0; node < nodes::count(); ++node) zones.buddies[node].unlock_after_fork();
  for (std::size_t list = 0; list < zones.list_count; ++list)
    zones.cpu_lists[list].unlock_after_fork();
}

CpuList::Counts sum_cpu_lists() noexcept {
  CpuList::Counts sum = {};
  for (std::size_t list = 0; list < zones.list_count; ++list) {
    const CpuList::Counts counts = zones.cpu_lists[list].counts();
    sum.allocations += counts.allocations;
    sum.frees += counts.frees;
    sum.pages += counts.pages;
    sum.pages_least += counts.pages_least;
  }
  return sum;
}

void reset_list_peaks() noexcept {
  for (std::size_t list = 0; list < zones.list_count; ++list) zones.cpu_lists[list].reset_least();
}

std::size_t dirty_bytes() noexcept {
  std::size_t pages = 0;
  for (int node = 0; node < nodes::count(); ++node) pages += zones.buddies[node].dirty_pages();
  return pages * page_bytes;
}

void set_decay_interval_ms(std::uint64_t interval_ms) noexcept {
  decay.interval_ms.store(interval_ms, std::memory_order_relaxed);
}

// An epoch lasts one interval or longer, so a block that became free two epochs ago has been free
// for more than one interval.
void decay_at(std::uint64_t now_ms) noexcept {
  std::uint64_t due_ms = decay.next_pass_ms.load(std::memory_order_relaxed);
  const std::uint64_t interval_ms = decay.interval_ms.load(std::memory_order_relaxed);
  if (now_ms >= due_ms) {
    if (!decay.next_pass_ms.compare_exchange_strong(due_ms, now_ms + interval_ms,
                                                    std::memory_order_relaxed))
      return;  // another thread makes this pass
    for (std::size_t list = 0; list < zones.list_count; ++list)
      zones.cpu_lists[list].drain_if_idle(buddy_of_list(list));
    epoch.fetch_add(1, std::memory_order_relaxed);
  } else if (!decay.unfinished.exchange(false, std::memory_order_relaxed)) {
    return;
  }
  std::size_t pages = 0;
  for (int node = 0; node < nodes::count() && pages < decay_step_pages; ++node)
    pages += zones.buddies[node].release(current_epoch() - 2, decay_step_pages - pages);
  account.releases.fetch_add(pages, std::memory_order_relaxed);
  decay.unfinished.store(pages >= decay_step_pages, std::memory_order_relaxed);
}

KMEM_SLOW void decay_if_due() noexcept {
  const std::uint64_t now_ms = os::coarse_clock_ms();
  if (now_ms >= decay.next_pass_ms.load(std::memory_order_relaxed) ||
      decay.unfinished.load(std::memory_order_relaxed))
    decay_at(now_ms);
}

const char* validate_zones() noexcept {
  for (int node = 0; node < nodes::count(); ++node)
    if (const char* broken = zones.buddies[node].validate()) return broken;
  return nullptr;
}

}  // namespace kmem::pages
