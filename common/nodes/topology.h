// CPUs and memory nodes of the machine, read once at start: libnuma's, or KMEM_FAKE_NODES=n, which
// splits the CPU ids into n equal runs (with fewer CPUs than nodes, the last nodes have memory
// only). CPU ids are sized by what is possible, never by the affinity mask: a thread may be moved
// later.
#pragma once

#include <cstdint>

namespace kmem::nodes {

inline constexpr int max_nodes = 64;

unsigned cpu_ids() noexcept;       // one more than the largest possible CPU id; 1..4096
unsigned present_cpus() noexcept;  // CPUs the system has now: SLUB's order choice depends on it
int count() noexcept;              // 1..max_nodes
bool faked() noexcept;
int of_cpu(unsigned cpu) noexcept;    // 0..count()-1; 0 for an id out of range
unsigned cpus_on(int node) noexcept;  // CPU ids that belong to node; may be 0
// The nodes by distance from node: rank 0 is node itself, rank count()-1 the farthest.
int nearest(int node, int rank) noexcept;

// Binds [base, base + bytes) to node where that is real; nothing with faked nodes or a single one.
void bind_memory(void* base, std::uint64_t bytes, int node) noexcept;

}  // namespace kmem::nodes
