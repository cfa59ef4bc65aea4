#include "common/nodes/topology.h"

#include <fcntl.h>
#include <numa.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "common/base/assert.h"
#include "common/base/environment.h"
#include "common/sync/once.h"

namespace kmem::nodes {
namespace {

constexpr unsigned cpu_ids_max = 4096;

struct Topology {
  unsigned cpu_ids;
  unsigned present_cpus;
  int count;
  bool faked;
  int system_id[max_nodes];  // libnuma's number of our node
  unsigned cpus_on[max_nodes];
  std::uint8_t node_of_cpu[cpu_ids_max];
  std::uint8_t nearest[max_nodes][max_nodes];
};
constinit Topology topology = {};
constinit Once discovered;

// One more than the largest id in a list such as "0-3,8-11"; 0 if it cannot be read.
unsigned ids_in_list(const char* text) noexcept {
  unsigned number = 0;
  unsigned largest_plus_one = 0;
  for (; *text != '\0'; ++text) {
    if (*text >= '0' && *text <= '9') {
      number = number * 10 + static_cast<unsigned>(*text - '0');
      if (number >= cpu_ids_max) return cpu_ids_max;
      largest_plus_one = std::max(largest_plus_one, number + 1);
    } else {
      number = 0;
    }
  }
  return largest_plus_one;
}

unsigned possible_cpu_ids() noexcept {
  char text[4096];
  const int file = open("/sys/devices/system/cpu/possible", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    const ssize_t bytes = read(file, text, sizeof(text) - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (const unsigned ids = ids_in_list(text); ids != 0) return ids;
  }
  // No sysfs, as in some containers: configured CPUs are the best answer left.
  const long configured = sysconf(_SC_NPROCESSORS_CONF);
  return configured < 1 ? 1 : static_cast<unsigned>(std::min<long>(configured, cpu_ids_max));
}

void sort_by_distance(int (*distance)(int, int)) noexcept {
  for (int from = 0; from < topology.count; ++from) {
    std::uint8_t* order = topology.nearest[from];
    for (int node = 0; node < topology.count; ++node) {
      int place = node;
      for (; place > 0 && distance(from, order[place - 1]) > distance(from, node); --place)
        order[place] = order[place - 1];
      order[place] = static_cast<std::uint8_t>(node);
    }
  }
}

// Fake nodes lie on a ring, so that the order of the others differs from node to node.
int ring_distance(int from, int to) noexcept {
  return (to - from + topology.count) % topology.count;
}
int system_distance(int from, int to) noexcept {
  if (from == to) return 0;  // below any distance that a firmware table may hold
  return numa_distance(topology.system_id[from], topology.system_id[to]);
}

void fake_nodes(unsigned count) noexcept {
  topology.count = static_cast<int>(count);
  topology.faked = true;
  for (unsigned cpu = 0; cpu < topology.cpu_ids; ++cpu) {
    const unsigned node = count <= topology.cpu_ids ? cpu * count / topology.cpu_ids : cpu;
    topology.node_of_cpu[cpu] = static_cast<std::uint8_t>(node);
  }
  sort_by_distance(ring_distance);
}

// Our index of the node with memory that is nearest to a system node, which may have none itself.
std::uint8_t index_nearest_to(int system_node) noexcept {
  int best = 0;
  for (int node = 0; node < topology.count; ++node) {
    if (topology.system_id[node] == system_node) return static_cast<std::uint8_t>(node);
    if (numa_distance(system_node, topology.system_id[node]) <
        numa_distance(system_node, topology.system_id[best]))
      best = node;
  }
  return static_cast<std::uint8_t>(best);
}

void read_system_nodes() noexcept {
  topology.count = 0;
  if (numa_available() >= 0) {
    for (int id = 0; id <= numa_max_node() && topology.count < max_nodes; ++id)
      if (numa_bitmask_isbitset(numa_nodes_ptr, static_cast<unsigned>(id)) != 0)
        topology.system_id[topology.count++] = id;
  }
  if (topology.count <= 1) {  // nothing to choose from; all CPUs are on node 0
    topology.count = 1;
    topology.nearest[0][0] = 0;
    return;
  }
  for (unsigned cpu = 0; cpu < topology.cpu_ids; ++cpu) {
    const int system_node = numa_node_of_cpu(static_cast<int>(cpu));
    topology.node_of_cpu[cpu] = system_node < 0 ? 0 : index_nearest_to(system_node);
  }
  sort_by_distance(system_distance);
}

void discover() noexcept {
  topology.cpu_ids = possible_cpu_ids();
  const long present = sysconf(_SC_NPROCESSORS_CONF);
  topology.present_cpus =
      present < 1 ? 1 : std::min(static_cast<unsigned>(present), topology.cpu_ids);
  const auto fakes = environment_number("KMEM_FAKE_NODES", 0, {1, max_nodes});
  if (fakes != 0) {
    fake_nodes(static_cast<unsigned>(fakes));
  } else {
    read_system_nodes();
  }
  for (unsigned cpu = 0; cpu < topology.cpu_ids; ++cpu)
    ++topology.cpus_on[topology.node_of_cpu[cpu]];
}

KMEM_FAST const Topology& get() noexcept {
  discovered(discover);
  return topology;
}

}  // namespace

unsigned cpu_ids() noexcept { return get().cpu_ids; }
unsigned present_cpus() noexcept { return get().present_cpus; }
int count() noexcept { return get().count; }
bool faked() noexcept { return get().faked; }

int of_cpu(unsigned cpu) noexcept {
  const Topology& known = get();
  return cpu < known.cpu_ids ? known.node_of_cpu[cpu] : 0;
}

unsigned cpus_on(int node) noexcept {
  const Topology& known = get();
  return node >= 0 && node < known.count ? known.cpus_on[node] : 0;
}

int nearest(int node, int rank) noexcept {
  const Topology& known = get();
  KMEM_ASSERT(node >= 0 && node < known.count && rank >= 0 && rank < known.count);
  return known.nearest[node][rank];
}

void bind_memory(void* base, std::uint64_t bytes, int node) noexcept {
  const Topology& known = get();
  if (known.faked || known.count == 1) return;
  // libnuma's default is to prefer the node, not to insist: a full node must not kill the process.
  numa_tonode_memory(base, bytes, known.system_id[node]);
}

}  // namespace kmem::nodes
