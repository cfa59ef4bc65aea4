// Real and faked topologies. Each is read once in a process, so each test asks in a child.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/nodes/topology.h"
#include "tests/unit/common/child.h"

namespace kmem::nodes {
namespace {

using kmem::testing::expect_in_child;

// What holds for any topology.
bool consistent() {
  if (count() < 1 || count() > max_nodes || cpu_ids() < 1 || cpu_ids() > 4096) return false;
  if (present_cpus() < 1 || present_cpus() > cpu_ids()) return false;
  std::vector<unsigned> cpus(static_cast<std::size_t>(count()), 0);
  for (unsigned cpu = 0; cpu < cpu_ids(); ++cpu) {
    if (of_cpu(cpu) < 0 || of_cpu(cpu) >= count()) return false;
    ++cpus[static_cast<std::size_t>(of_cpu(cpu))];
  }
  for (int node = 0; node < count(); ++node)
    if (cpus[static_cast<std::size_t>(node)] != cpus_on(node)) return false;
  for (int node = 0; node < count(); ++node) {
    std::vector<bool> seen(static_cast<std::size_t>(count()), false);
    for (int rank = 0; rank < count(); ++rank) {
      const auto other = static_cast<std::size_t>(nearest(node, rank));
      if (seen.at(other)) return false;
      seen[other] = true;
    }
    if (nearest(node, 0) != node) return false;
  }
  return of_cpu(cpu_ids()) == 0 && of_cpu(~0u) == 0 && cpus_on(-1) == 0 && cpus_on(count()) == 0;
}

TEST(Topology, RealOneIsConsistent) {
  unsetenv("KMEM_FAKE_NODES");
  expect_in_child({}, [] { return consistent() && !faked(); });
}

TEST(Topology, FakedOnesSplitTheCpusInEqualRuns) {
  for (const char* nodes : {"1", "2", "3", "64"}) {
    expect_in_child({{"KMEM_FAKE_NODES", nodes}}, [nodes] {
      const int wanted = std::stoi(nodes);
      if (!consistent() || !faked() || count() != wanted) return false;
      unsigned least = cpu_ids();
      unsigned most = 0;
      for (int node = 0; node < wanted; ++node) {
        least = std::min(least, cpus_on(node));
        most = std::max(most, cpus_on(node));
      }
      for (unsigned cpu = 1; cpu < cpu_ids(); ++cpu)
        if (of_cpu(cpu) < of_cpu(cpu - 1)) return false;
      return most - least <= 1;
    });
  }
}

TEST(Topology, OnFakedNodesTheOthersComeInADifferentOrderForEach) {
  expect_in_child({{"KMEM_FAKE_NODES", "3"}}, [] {
    return nearest(0, 1) == 1 && nearest(0, 2) == 2 && nearest(1, 1) == 2 && nearest(1, 2) == 0 &&
           nearest(2, 1) == 0 && nearest(2, 2) == 1;
  });
}

TEST(Topology, RefusedNumbersOfNodesGiveTheRealTopologyAndOneLine) {
  for (const char* refused : {"0", "65", "two", "-1", "2k", ""}) {
    expect_in_child(
        {{"KMEM_FAKE_NODES", refused}}, [] { return consistent() && !faked(); },
        "^kmem: KMEM_FAKE_NODES=.* refused: .*\n$");
  }
}

TEST(Topology, BindingIsHarmless) {
  expect_in_child({{"KMEM_FAKE_NODES", "2"}}, [] {
    bind_memory(nullptr, 0, 1);
    return true;
  });
}

}  // namespace
}  // namespace kmem::nodes
