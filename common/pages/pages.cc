#include "common/pages/pages.h"

#include <cstring>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/base/environment.h"
#include "common/nodes/topology.h"
#include "common/pages/arena.h"
#include "common/pages/limits.h"
#include "common/pages/metadata.h"
#include "common/pages/misuse.h"
#include "common/pages/os.h"
#include "common/pages/zones.h"
#include "common/sync/once.h"

namespace kmem::pages {
namespace {

constinit Once started;
constinit bool start_succeeded = false;
constinit bool locked_for_fork = false;  // written with all locks held

void start_now() noexcept {
  constexpr std::uint64_t day_ms = 86'400'000;
  constexpr std::uint64_t limit_most = std::uint64_t{1} << 48;
  set_decay_interval_ms(environment_number("KMEM_DECAY_MS", 1000, {0, day_ms}));
  account.limit_bytes.store(environment_number("KMEM_LIMIT_BYTES", 0, {0, limit_most}),
                            std::memory_order_relaxed);
  start_succeeded = reserve_arena() && create_zones();
}

// The node to ask first.
KMEM_FAST int preferred_node(int node, unsigned cpu) noexcept {
  return static_cast<unsigned>(node) < zones.node_count ? node : nodes::of_cpu(cpu);
}

void prepare(Page* head, unsigned order, int node, PageKind kind) noexcept {
  const std::size_t pages = std::size_t{1} << order;
  head->link = {};
  for (Page* page = head; page < head + pages; ++page) {
    page->head = head;
    page->owner = nullptr;
    page->kind = kind;
    page->order = 0;
    page->node = static_cast<std::uint8_t>(node);
    page->owner_tag = 0;
  }
  head->order = static_cast<std::uint8_t>(order);
}

void forget(Page* head, unsigned order) noexcept {
  const std::size_t pages = std::size_t{1} << order;
  for (Page* page = head; page < head + pages; ++page) {
    page->head = nullptr;
    page->owner = nullptr;
    page->kind = PageKind::free;
    page->owner_tag = 0;
  }
}

// What is wrong with head as an argument of free(); nullptr: nothing.
const char* fault_of(const Page* head) noexcept {
  if (!in_map(head) || reinterpret_cast<std::uintptr_t>(head) % sizeof(Page) != 0)
    return "the descriptor is not one of the page array";
  if (head->head != head) return "the page is not the first of an allocated block";
  if (run_pages(head) != 0) return "the page is the first of a run, not of a block";
  return nullptr;
}

// A caller that may not wait, on a thread that holds a lock of the library: a signal handler over
// its holder. The locks below might be that one.
bool over_a_holder(gfp_t gfp) noexcept {
  return (gfp & gfp::direct_reclaim) == 0 && locks_held != 0;
}

KMEM_SLOW Page* fail() noexcept {
  account.failures.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

KMEM_SLOW Page* alloc_block(unsigned order, int node, gfp_t gfp, PageKind kind) noexcept {
  const Buddy::Block block = take_block(order, node, (gfp & gfp::thisnode) != 0);
  if (block.head == nullptr) return fail();
  account.allocations.fetch_add(1, std::memory_order_relaxed);
  prepare(block.head, order, block.node, kind);
  if ((gfp & gfp::zero) != 0 && !block.clean)
    std::memset(address_of(block.head), 0, page_bytes << order);
  return block.head;
}

}  // namespace

bool start() noexcept {
  started(start_now);
  return start_succeeded;
}

Page* alloc(unsigned order, int node, gfp_t gfp, PageKind kind) noexcept {
  if (!start() || told_to_fail() || order > max_order || over_a_holder(gfp)) [[unlikely]]
    return fail();
  const unsigned cpu = os::current_cpu();
  node = preferred_node(node, cpu);
  CpuList& list = list_of(cpu, node);
  if (list.tick()) [[unlikely]]
    decay_if_due();
  if (order >= CpuList::order_count) return alloc_block(order, node, gfp, kind);
  Page* head = list.pop(order, buddy_of(node));
  if (head == nullptr) [[unlikely]]
    return alloc_block(order, node, gfp, kind);
  prepare(head, order, node, kind);
  if ((gfp & gfp::zero) != 0) std::memset(address_of(head), 0, page_bytes << order);
  return head;
}

void free(Page* head) noexcept {
  if (const char* fault = fault_of(head)) [[unlikely]]
    return on_bad_free(head, fault);
  const unsigned order = head->order;
  const int node = head->node;
  forget(head, order);
  CpuList& list = list_of(os::current_cpu(), node);
  if (order >= CpuList::order_count || !list.push(head, order, buddy_of(node))) {
    give_block(head, order);
    account.frees.fetch_add(1, std::memory_order_relaxed);
  }
  if (list.tick()) [[unlikely]]
    decay_if_due();
}

void set_owner(Page* head, void* owner, std::uint8_t tag) noexcept {
  KMEM_ASSERT(head->head == head);
  const std::size_t pages = std::size_t{1} << head->order;
  for (Page* page = head; page < head + pages; ++page) {
    page->owner = owner;
    page->owner_tag = tag;
  }
}

Page* alloc_run(std::size_t bytes, int node, gfp_t gfp) noexcept {
  if (!start() || told_to_fail() || bytes == 0) return fail();
  if (bytes > arena.page_count * page_bytes) return fail();
  const std::size_t run_bytes = align_up(bytes, page_bytes);
  node = preferred_node(node, os::current_cpu());
  Page* head = take_run(run_bytes, node);  // chunks of the arena read as zeros: gfp needs no look
  static_cast<void>(gfp);
  if (head == nullptr) return fail();
  account.allocations.fetch_add(1, std::memory_order_relaxed);
  prepare(head, 0, node, PageKind::large);
  set_run_pages(head, run_bytes / page_bytes);
  return head;
}

void free_run(Page* head) noexcept {
  if (!in_map(head) || head->head != head || run_pages(head) == 0)
    return on_bad_free(head, "the page is not the first of a run");
  const std::size_t bytes = run_bytes(head);
  set_run_pages(head, 0);
  os::discard(address_of(head), bytes);
  give_chunks(head, divide_up(bytes, chunk_bytes));
  uncharge(bytes);
  account.frees.fetch_add(1, std::memory_order_relaxed);
}

std::size_t run_bytes(const Page* head) noexcept {
  return in_map(head) ? run_pages(head) * page_bytes : 0;
}

std::size_t release_free() noexcept { return start() ? release_all() : 0; }

Usage usage() noexcept {
  Usage usage = {};
  if (!start()) return usage;
  const CpuList::Counts lists = sum_cpu_lists();
  note_peak(lists.pages_least * page_bytes);
  const std::size_t charged = account.charged_bytes.load(std::memory_order_relaxed);
  const std::size_t listed = lists.pages * page_bytes;
  usage.allocated_bytes = charged > listed ? charged - listed : 0;
  usage.allocated_bytes_peak = account.peak_bytes.load(std::memory_order_relaxed);
  usage.free_resident_bytes = dirty_bytes() + listed;
  usage.allocations = account.allocations.load(std::memory_order_relaxed) + lists.allocations;
  usage.frees = account.frees.load(std::memory_order_relaxed) + lists.frees;
  usage.releases = account.releases.load(std::memory_order_relaxed);
  usage.failures = account.failures.load(std::memory_order_relaxed);
  return usage;
}

void reset_peak() noexcept {
  reset_list_peaks();
  account.peak_bytes.store(usage().allocated_bytes, std::memory_order_relaxed);
}

std::uint64_t allocation_attempts() noexcept {
  const Usage now = usage();
  return now.allocations + now.failures +
         account.metadata_allocations.load(std::memory_order_relaxed);
}

void set_limit_bytes(std::size_t bytes) noexcept {
  if (!start()) return;
  account.limit_bytes.store(bytes, std::memory_order_relaxed);
  drain_cpu_lists();  // what they hold counts against the limit
}

void prepare_fork() noexcept {
  if (!started.done()) return;
  lock_zones_for_fork();
  lock_arena_for_fork();
  lock_metadata_for_fork();
  locked_for_fork = true;
}

void after_fork() noexcept {
  if (!locked_for_fork) return;
  locked_for_fork = false;
  unlock_metadata_after_fork();
  unlock_arena_after_fork();
  unlock_zones_after_fork();
}

void* reserve_zeroed(std::size_t bytes, bool read_only) noexcept {
  const auto access = read_only ? os::Access::read : os::Access::read_write;
  return os::reserve(align_up(bytes, page_bytes), page_bytes, access, os::HugePages::never);
}

void discard(void* base, std::size_t bytes) noexcept { os::discard(base, bytes); }

}  // namespace kmem::pages
