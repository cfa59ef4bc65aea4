// Two nodes: what crosses them goes by the remote list. Run with KMEM_FAKE_NODES=2.
#include <set>

#include "common/nodes/topology.h"
#include "tests/backends/slqb/fixture.h"

namespace kmem::slqb {
namespace {

// CPUs 0 and 1 are on node 0, CPUs 2 and 3 on node 1.
class SlqbNodes : public SlqbTest {
 protected:
  void SetUp() override {
    if (nodes::count() != 2) GTEST_SKIP() << "run with KMEM_FAKE_NODES=2";
    SlqbTest::SetUp();
  }
  int nodes_of_machine() const override { return 2; }

  void* alloc_on_node(Cpu cpu, int node, gfp_t gfp = gfp::kernel) {
    percpu::enter_virtual_cpu(cpu);
    return cache.alloc_node(gfp, node);
  }
};

int node_of(const void* object) { return pages::page_of(object)->node; }

TEST_F(SlqbNodes, ACpuAllocatesFromItsNode) {
  create();
  EXPECT_EQ(node_of(alloc_on(0)), 0);
  EXPECT_EQ(node_of(alloc_on(3)), 1);
}

TEST_F(SlqbNodes, AnObjectOfAnotherNodeGoesToTheRemoteListAtOnce) {
  create();
  const std::vector<void*> objects = alloc_on(0, 4);

  for (std::size_t i = 0; i < 3; ++i) free_on(2, objects[i]);
  EXPECT_EQ(cache.queues(2).lifo, 0U);
  EXPECT_EQ(cache.queues(2).rlist, 3U);
  EXPECT_EQ(cache.queues(0).remote_free, 0U);

  free_on(2, objects[3]);
  EXPECT_EQ(cache.queues(2).rlist, 0U);
  EXPECT_EQ(cache.queues(0).remote_free, 4U);
  EXPECT_TRUE(cache.queues(0).remote_free_check);
  EXPECT_EQ(cache.statistics().free_remote, 4U);
}

TEST_F(SlqbNodes, AnObjectOfTheNodesOtherCpuIsPushedOnTheLifo) {
  create();
  free_on(1, alloc_on(0));
  EXPECT_EQ(cache.queues(1).lifo, 1U);
}

TEST_F(SlqbNodes, ANamedNodeHasSlabsOfItsOwn) {
  create();
  void* const a = alloc_on_node(0, 1);
  void* const b = alloc_on_node(1, 1);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(node_of(a), 1);
  EXPECT_EQ(pages::page_of(a)->head, pages::page_of(b)->head) << "both from the node's slab";
  EXPECT_STREQ(cache.validate(), nullptr);
  free_on(2, a);
  free_on(2, b);
  EXPECT_EQ(cache.queues(2).lifo, 2U);
}

TEST_F(SlqbNodes, TheNodesListClaimsWhatWasFreedToIt) {
  create();
  std::vector<void*> objects;
  for (int i = 0; i < 8; ++i) objects.push_back(alloc_on_node(0, 1));
  for (int i = 0; i < 4; ++i) free_on(0, objects[static_cast<std::size_t>(i)]);  // a batch
  EXPECT_EQ(cache.statistics().claim_remote_list, 0U);

  void* const again = alloc_on_node(0, 1);

  EXPECT_EQ(cache.statistics().claim_remote_list, 1U);
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.begin() + 4).count(again), 1U);
  free_on(0, again);
  for (std::size_t i = 4; i < 8; ++i) free_on(0, objects[i]);
  EXPECT_STREQ(cache.validate(), nullptr);
}

TEST_F(SlqbNodes, ThisnodeIsHonoured) {
  create();
  for (int i = 0; i < 20; ++i) {
    void* const object = alloc_on_node(0, i % 2, gfp::kernel | gfp::thisnode);
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(node_of(object), i % 2);
    free_on(static_cast<Cpu>(i % 4), object);
  }
}

TEST_F(SlqbNodes, BulkFreesSplitByNodeAndGroupByOwner) {
  create({.name = "test", .object_bytes = 512}, {.limit = 64, .batchcount = 32});
  std::vector<void*> mixed;
  for (int i = 0; i < 10; ++i) {
    for (Cpu cpu : {0U, 1U, 2U}) {
      percpu::enter_virtual_cpu(cpu);
      mixed.push_back(cache.alloc(gfp::kernel));
    }
  }
  percpu::enter_virtual_cpu(2);
  cache.free_bulk(mixed.size(), mixed.data());

  EXPECT_EQ(cache.queues(2).lifo, 10U);
  EXPECT_EQ(cache.statistics().free_remote, 20U);
  EXPECT_EQ(cache.queues(2).rlist, 10U);
  EXPECT_EQ(cache.statistics().flush_rfree_list, 1U);  // the first owner's, for the second's
  EXPECT_STREQ(cache.validate(), nullptr);
}

TEST_F(SlqbNodes, TrimServesTheNodesListToo) {
  create();
  void* const object = alloc_on_node(0, 1);
  free_on(0, object);
  trim_on(0);  // to the node's remote_free
  trim_on(2);  // and from there into its slab

  EXPECT_EQ(cache.usage().slabs, 0U);
}

TEST_F(SlqbNodes, ShrinkEmptiesEveryQueue) {
  create();
  for (Cpu cpu = 0; cpu < cpus; ++cpu) free_on((cpu + 2) % cpus, alloc_on(cpu, 10));
  free_on(0, alloc_on_node(0, 1));
  cache.shrink();
  EXPECT_EQ(cache.usage().slabs, 0U);
}

// CPUs 4 and 5 are on a third node, which has no memory.
class SlqbMemoryless : public SlqbNodes {
 protected:
  unsigned cpus_of_machine() const override { return 6; }
  int nodes_of_machine() const override { return 3; }
};

TEST_F(SlqbMemoryless, ACpuWithoutMemoryUsesItsFallbackNodesSlabsUp) {
  create();
  const std::vector<void*> objects = alloc_on(4, 16);

  EXPECT_EQ(cache.statistics().alloc_slab_new, 2U);
  EXPECT_LT(node_of(objects[0]), 2);
  EXPECT_STREQ(cache.validate(), nullptr);

  free_on(4, objects);  // all of another node: by batches to that node's list
  EXPECT_EQ(cache.statistics().free_remote, 16U);
  EXPECT_EQ(cache.queues(4).lifo, 0U);
  alloc_on(4);
  EXPECT_EQ(cache.statistics().claim_remote_list, 1U);
  EXPECT_EQ(cache.statistics().alloc_slab_new, 2U);
  trim_on(4);
}

}  // namespace
}  // namespace kmem::slqb
