// The nodes' buddy allocators and the per-CPU lists in front of them, as one source of blocks:
// which node is asked next, what is drained before an allocation fails, when free memory decays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/assert.h"
#include "common/base/attributes.h"
#include "common/pages/buddy.h"
#include "common/pages/cpu_lists.h"

namespace kmem::pages {

// Makes the tables for all nodes and CPUs; called once, by start(), after reserve_arena().
bool create_zones() noexcept;

// Constant after create_zones().
struct Zones {
  Buddy* buddies;      // one a node
  CpuList* cpu_lists;  // one a CPU and node: those of a CPU side by side
  std::size_t node_count, list_count;
};
extern Zones zones;

KMEM_FAST Buddy& buddy_of(int node) noexcept {
  KMEM_ASSERT(static_cast<std::size_t>(node) < zones.node_count);
  return zones.buddies[node];
}
// A CPU's list of node. Any CPU's is correct: the thread may have been moved already.
KMEM_FAST CpuList& list_of(unsigned cpu, int node) noexcept {
  const std::size_t list = cpu * zones.node_count + static_cast<std::size_t>(node);
  return zones.cpu_lists[list < zones.list_count ? list : 0];
}

// A block charged to the limit, from node, or from the others in order of distance; reclaims what
// lies on per-CPU lists and in whole free chunks before it gives up. Only node: strict.
Buddy::Block take_block(unsigned order, int node, bool strict) noexcept;
void give_block(Page* head, unsigned order) noexcept;
// The same without the charge, for callers who charge less than the block.
Buddy::Block take_uncharged(unsigned order, int node, bool strict) noexcept;
void give_uncharged(Page* head, unsigned order) noexcept;
// False: over the limit, even with the per-CPU lists drained.
bool charge_or_drain(std::size_t bytes) noexcept;

// Chunks side by side for a run, of bytes charged to the limit.
Page* take_run(std::size_t bytes, int node) noexcept;

void drain_cpu_lists() noexcept;
std::size_t release_all() noexcept;  // bytes given back

// In the order of lock_rank.h; within a rank, by index, and nothing else holds two of a rank.
void lock_zones_for_fork() noexcept;
void unlock_zones_after_fork() noexcept;

// Counts of all per-CPU lists.
CpuList::Counts sum_cpu_lists() noexcept;
// From now on, pages_least is what a list holds now or less.
void reset_list_peaks() noexcept;
std::size_t dirty_bytes() noexcept;

// Gives back what has been free for longer than the interval, if a pass is due at that time; a pass
// is bounded, and continued by the next call. For callers, and with a made-up clock for tests.
void decay_at(std::uint64_t now_ms) noexcept;
void decay_if_due() noexcept;
void set_decay_interval_ms(std::uint64_t interval_ms) noexcept;

const char* validate_zones() noexcept;

}  // namespace kmem::pages
