// Two nodes: alien arrays, allocation on a given node, bulk frees of mixed nodes.
#include <cstdlib>

#include "common/nodes/topology.h"
#include "tests/backends/slab/fixture.h"

namespace kmem::slab {
namespace {

// Before anything reads the topology.
const bool two_nodes = setenv("KMEM_FAKE_NODES", "2", 1) == 0;

class Nodes : public SlabTest {
 protected:
  void SetUp() override { ASSERT_TRUE(two_nodes && nodes::count() == 2); }
  // CPUs 0 and 1 are on node 0, 2 and 3 on node 1.
  static constexpr unsigned cpu_on_1 = 2;
  static int node_of(const void* object) { return pages::page_of(object)->node; }
};

TEST_F(Nodes, ACpuAllocatesFromItsOwnNode) {
  start({.name = "t", .object_bytes = 64}, 2);
  void* here = alloc();
  percpu::enter_virtual_cpu(cpu_on_1);
  void* there = alloc();
  EXPECT_EQ(node_of(here), 0);
  EXPECT_EQ(node_of(there), 1);
  free(there);
  percpu::enter_virtual_cpu(0);
  free(here);
}

TEST_F(Nodes, TwelveObjectsOfAnotherNodeWaitInTheAlienArray) {
  start({.name = "t", .object_bytes = 64}, 2);
  const std::vector<void*> objects = alloc_and_flush(13);
  percpu::enter_virtual_cpu(cpu_on_1);
  for (std::size_t i = 0; i < 12; ++i) free(objects[i]);
  EXPECT_EQ(cache.statistics().remotefrees, 12U);
  EXPECT_EQ(cache.statistics().alienoverflow, 0U);
  EXPECT_EQ(cache.usage().shared_available, 0U);

  free(objects[12]);
  EXPECT_EQ(cache.statistics().alienoverflow, 1U);
  EXPECT_EQ(cache.usage().shared_available, 12U) << "in the shared array of their own node";
  percpu::enter_virtual_cpu(0);
  EXPECT_EQ(node_of(objects[11]), 0);
  void* back = alloc();
  EXPECT_EQ(back, objects[11]) << "which that node's CPUs refill from";
  free(back);
}

TEST_F(Nodes, WithoutASharedArrayAliensGoToTheirSlabs) {
  start({.name = "t", .object_bytes = 64}, 2);
  ASSERT_TRUE(cache.retune({.shared = 0}));
  const std::vector<void*> objects = alloc_and_flush(13);
  percpu::enter_virtual_cpu(cpu_on_1);
  free(objects);
  EXPECT_EQ(active(), 1U) << "the thirteenth waits";
}

TEST_F(Nodes, TheReaperDrainsAlienArraysInTurn) {
  start({.name = "t", .object_bytes = 64}, 2);
  const std::vector<void*> objects = alloc_and_flush(5);
  percpu::enter_virtual_cpu(cpu_on_1);
  free(objects);
  EXPECT_EQ(active(), 5U);
  cache.reap();  // each node's array for node 0
  EXPECT_EQ(cache.usage().shared_available, 5U);
  percpu::enter_virtual_cpu(0);
  free(alloc());  // from the shared array, which the reaper then leaves alone
  void* remote = cache.alloc_node(gfp::kernel, 1);
  free(remote);
  cache.reap();  // each node's array for node 1
  cache.shrink();
  EXPECT_EQ(active(), 0U);
}

TEST_F(Nodes, AnObjectCanBeAskedForOnANode) {
  start({.name = "t", .object_bytes = 64}, 2);
  void* there = cache.alloc_node(gfp::kernel, 1);
  void* strictly = cache.alloc_node(gfp::kernel | gfp::thisnode, 1);
  void* here = cache.alloc_node(gfp::kernel, no_node);
  EXPECT_EQ(node_of(there), 1);
  EXPECT_EQ(node_of(strictly), 1);
  EXPECT_EQ(node_of(here), 0);
  EXPECT_EQ(cache.statistics().nodeallocs, 2U);
  free({there, strictly, here});
}

TEST_F(Nodes, WithoutMemoryOfItsOwnANodeTakesWhatOthersHaveFree) {
  start({.name = "t", .object_bytes = 64}, 2);
  void* first = alloc();
  void* other = cache.alloc_node(gfp::kernel, 1);
  pages::fail_allocation(1, true);
  std::vector<void*> objects;
  while (void* object = alloc()) objects.push_back(object);
  EXPECT_EQ(cache.alloc_node(gfp::kernel | gfp::thisnode, 0), nullptr);
  pages::fail_allocation(0);
  EXPECT_EQ(objects.size(), 126U) << "two slabs of 64";
  EXPECT_EQ(node_of(objects.front()), 0);
  EXPECT_EQ(node_of(objects.back()), 1);
  free(objects);
  free({first, other});
}

TEST_F(Nodes, BulkFreeGroupsObjectsByNode) {
  start({.name = "t", .object_bytes = 64}, 2);
  std::vector<void*> objects(200);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    objects[i] = cache.alloc_node(gfp::kernel, static_cast<int>(i % 2));
  }
  cache.shrink();
  const std::uint64_t locks = cache.path_counts().locks;
  cache.free_bulk(objects.size(), objects.data());
  EXPECT_EQ(cache.path_counts().locks - locks, 1U) << "100 to the array, 100 to the other node";
  EXPECT_EQ(cache.usage().shared_available, 100U);
  EXPECT_STREQ(cache.validate(), nullptr);

  for (std::size_t i = 0; i < 10; ++i) objects[i] = cache.alloc_node(gfp::kernel, 1);
  cache.free_bulk(10, objects.data());
  EXPECT_EQ(cache.statistics().alienoverflow, 0U) << "ten wait in the alien array";
}

TEST_F(Nodes, ShrinkEmptiesAlienArraysToo) {
  start({.name = "t", .object_bytes = 64}, 2);
  const std::vector<void*> objects = alloc(8);
  percpu::enter_virtual_cpu(cpu_on_1);
  free(objects);
  EXPECT_FALSE(cache.shrink());
  EXPECT_EQ(cache.usage().slabs, 0U);
}

}  // namespace
}  // namespace kmem::slab
