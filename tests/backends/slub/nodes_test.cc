// Two nodes (KMEM_FAKE_NODES=2), CPUs 0 and 1 on node 0, 2 and 3 on node 1.
#include "tests/backends/slub/fixture.h"

namespace kmem::slub {
namespace {

class SlubNodes : public VirtualSlub {
 protected:
  void SetUp() override {
    if (nodes::count() != 2) GTEST_SKIP() << "needs KMEM_FAKE_NODES=2";
    VirtualSlub::SetUp();
  }
  static int node_of(void* object) { return pages::page_of(object)->node; }
};

TEST_F(SlubNodes, ACpuAllocatesAtHome) {
  create(256);
  live_.push_back(alloc());
  EXPECT_EQ(node_of(live_.back()), 0);
  on_cpu(3);
  live_.push_back(alloc());
  EXPECT_EQ(node_of(live_.back()), 1);
}

TEST_F(SlubNodes, AWishedForNodeDeactivatesTheCpuSlab) {
  create(256);
  live_.push_back(alloc());
  Page* const home = slab_of(live_[0]);
  live_.push_back(cache_.alloc_node(gfp::kernel, 1));
  EXPECT_EQ(node_of(live_.back()), 1);
  EXPECT_EQ(count(Event::alloc_node_mismatch), 1u);
  EXPECT_FALSE(state_of(home).frozen());
  EXPECT_EQ(cache_.partial_slabs(0), 1u);
  live_.push_back(cache_.alloc_node(gfp::kernel, 1));
  EXPECT_EQ(slab_of(live_[2]), slab_of(live_[1])) << "now the CPU's slab is node 1's";
  live_.push_back(cache_.alloc_node(gfp::kernel | gfp::thisnode, 0));
  EXPECT_EQ(slab_of(live_.back()), home);
  expect_valid();
}

TEST_F(SlubNodes, CpuPartialSlabsOfTheWrongNodeGoHome) {
  create(256);
  auto filled = fill_slabs(2);
  live_.push_back(alloc());
  for (auto& slab : filled) {
    free(slab.back());
    slab.pop_back();
    keep(slab);
  }
  ASSERT_EQ(cache_.peek(0).partial.list.count(), 2u);
  live_.push_back(cache_.alloc_node(gfp::kernel, 1));
  EXPECT_EQ(node_of(live_.back()), 1);
  EXPECT_EQ(cache_.peek(0).partial.list.count(), 0u);
  EXPECT_EQ(cache_.partial_slabs(0), 3u);
  expect_valid();
}

TEST_F(SlubNodes, NoSuchNode) {
  create(256);
  EXPECT_EQ(cache_.alloc_node(gfp::kernel | gfp::thisnode, 2), nullptr);
  live_.push_back(cache_.alloc_node(gfp::kernel, 2));
  EXPECT_NE(live_.back(), nullptr);
}

// Node 1 has more partial slabs than it needs, node 0 none.
class SlubDefrag : public SlubNodes {
 protected:
  void SetUp() override {
    SlubNodes::SetUp();
    if (IsSkipped()) return;
    create(256);
    on_cpu(2);
    auto filled = fill_slabs(cache_.geometry().min_partial + 4);
    for (auto& slab : filled) {
      free(slab.back());
      slab.pop_back();
      keep(slab);
    }
    cache_.flush_all();
    ASSERT_GT(cache_.partial_slabs(1), cache_.geometry().min_partial);
    on_cpu(0);
  }
};

TEST_F(SlubDefrag, TakesPartialSlabsOfOtherNodes) {
  live_.push_back(alloc());
  EXPECT_EQ(node_of(live_.back()), 1);
  expect_valid();
}

TEST_F(SlubDefrag, NeverWithRatioZero) {
  cache_.set_remote_node_defrag_ratio(0);
  live_.push_back(alloc());
  EXPECT_EQ(node_of(live_.back()), 0);
}

TEST_F(SlubDefrag, LeavesANodeWhatItNeeds) {
  const unsigned needs = cache_.geometry().min_partial;
  unsigned from_node_1 = 0;
  for (unsigned i = 0; i < 6 * objects(); ++i) {
    live_.push_back(alloc());
    if (node_of(live_.back()) == 1) ++from_node_1;
  }
  EXPECT_GT(from_node_1, 0u);
  EXPECT_LE(cache_.partial_slabs(1), needs);
  EXPECT_EQ(node_of(live_.back()), 0);
  expect_valid();
}

TEST_F(SlubDefrag, BulkTakesThemToo) {
  live_.resize(live_.size() + 3);
  ASSERT_TRUE(cache_.alloc_bulk(gfp::kernel, 3, live_.data() + live_.size() - 3));
  EXPECT_EQ(node_of(live_.back()), 1);
  expect_valid();
}

}  // namespace
}  // namespace kmem::slub
