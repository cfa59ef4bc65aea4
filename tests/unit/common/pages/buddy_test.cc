// One buddy allocator against a model: the set of pages that are given out.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "common/pages/arena.h"
#include "common/pages/buddy.h"
#include "common/pages/pages.h"

namespace kmem::pages {
namespace {

constexpr std::uint64_t any_epoch = ~std::uint64_t{0};
constexpr std::size_t no_maximum = ~std::size_t{0};

class BuddyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(start());
    chunks_before_ = free_chunks();
  }
  // Everything was given back: after a release, the arena has all chunks again.
  void TearDown() override {
    buddy_.release(any_epoch, no_maximum);
    EXPECT_EQ(buddy_.validate(), nullptr);
    EXPECT_EQ(buddy_.free_pages(), 0u);
    EXPECT_EQ(free_chunks(), chunks_before_);
  }
  Page* take(unsigned order) {
    Page* head = buddy_.take(order).head;
    EXPECT_NE(head, nullptr);
    EXPECT_EQ(index_of(head) % (std::size_t{1} << order), 0u);
    return head;
  }

  Buddy buddy_{0};
  std::size_t chunks_before_ = 0;
};

TEST_F(BuddyTest, SplittingLeavesOneBlockOfEachSmallerOrder) {
  Page* page = take(0);
  EXPECT_EQ(buddy_.validate(), nullptr);
  EXPECT_EQ(buddy_.free_pages(), chunk_pages - 1);
  for (unsigned order = 0; order < max_order; ++order) {
    Page* head = take(order);
    EXPECT_EQ(head,
              page + (std::size_t{1} << order));  // the buddy of all that was split off before
  }
  EXPECT_EQ(buddy_.free_pages(), 0u);
  buddy_.give(page, 0);
  for (unsigned order = 0; order < max_order; ++order)
    buddy_.give(page + (std::size_t{1} << order), order);
  EXPECT_EQ(buddy_.free_pages(), chunk_pages);
  EXPECT_EQ(buddy_.take(max_order).head, page);
  buddy_.give(page, max_order);
}

TEST_F(BuddyTest, NeighboursThatAreNotBuddiesStayApart) {
  Page* block = take(2);
  for (Page* page = block; page < block + 4; ++page) page->counters = 0;
  buddy_.give(block + 1, 0);
  buddy_.give(block + 2, 0);
  EXPECT_EQ(buddy_.validate(), nullptr);
  Page* pair = take(1);  // not from the two in the middle
  EXPECT_TRUE(pair < block || pair >= block + 4);
  buddy_.give(pair, 1);
  buddy_.give(block, 0);
  buddy_.give(block + 3, 0);
}

TEST_F(BuddyTest, BlocksThatHoldMemoryAreUsedBeforeCleanOnes) {
  Page* used = take(3);
  Page* fence = take(3);
  buddy_.give(used, 3);
  const Buddy::Block again = buddy_.take(3);
  EXPECT_EQ(again.head, used);
  EXPECT_FALSE(again.clean);
  const Buddy::Block fresh = buddy_.take(3);
  EXPECT_TRUE(fresh.clean);
  buddy_.give(again.head, 3);
  buddy_.give(fresh.head, 3);
  buddy_.give(fence, 3);
}

TEST_F(BuddyTest, ReleaseKeepsTheBlocksAndGivesBackTheirMemory) {
  Page* used = take(3);
  Page* fence = take(0);
  std::fill_n(address_of(used), 8 * page_bytes, 'x');
  buddy_.give(used, 3);
  EXPECT_EQ(buddy_.dirty_pages(), 8u);
  const std::size_t free_before = buddy_.free_pages();
  EXPECT_EQ(buddy_.release(any_epoch, no_maximum), 8u);
  EXPECT_EQ(buddy_.dirty_pages(), 0u);
  EXPECT_EQ(buddy_.free_pages(), free_before);
  EXPECT_EQ(buddy_.validate(), nullptr);
  for (std::size_t i = 0; i < 8 * page_bytes; ++i) ASSERT_EQ(address_of(used)[i], 0);
  EXPECT_EQ(buddy_.release(any_epoch, no_maximum), 0u);
  buddy_.give(fence, 0);
}

TEST_F(BuddyTest, OnlyDirtyPagesOfAMixedBlockAreCounted) {
  Page* page = take(0);  // the rest of the chunk has never been used
  buddy_.give(page, 0);
  EXPECT_EQ(buddy_.free_pages(), chunk_pages);
  EXPECT_EQ(buddy_.dirty_pages(), 1u);
  EXPECT_EQ(buddy_.validate(), nullptr);
  EXPECT_EQ(buddy_.release(any_epoch, no_maximum), 1u);
}

TEST_F(BuddyTest, ReleaseByEpochAndByOrderLeavesTheRest) {
  Page* blocks[4];
  for (Page*& block : blocks) block = take(1);
  buddy_.give(blocks[0], 1);
  EXPECT_EQ(buddy_.release(0, no_maximum), 0u);  // everything is younger
  EXPECT_EQ(buddy_.release(any_epoch, no_maximum, max_order), 0u);
  EXPECT_EQ(buddy_.release(any_epoch, 0), 0u);
  buddy_.give(blocks[2], 1);
  EXPECT_EQ(buddy_.release(any_epoch, 1), 2u);  // whole blocks, until there are enough
  EXPECT_EQ(buddy_.dirty_pages(), 2u);
  buddy_.give(blocks[1], 1);
  buddy_.give(blocks[3], 1);
}

TEST_F(BuddyTest, ManyAtOnceAreDistinctAlignedAndSideBySideInFreshMemory) {
  for (unsigned order = 0; order < 4; ++order) {
    Page* blocks[16];
    const std::size_t n = std::size_t{16} >> order;
    ASSERT_EQ(buddy_.take_blocks(blocks, n, order), n);
    EXPECT_EQ(buddy_.validate(), nullptr);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(blocks[i], blocks[0] + (i << order));
    EXPECT_EQ(index_of(blocks[0]) % 16, 0u);
    buddy_.give_blocks(blocks, n, order);
    EXPECT_EQ(buddy_.validate(), nullptr);
    EXPECT_EQ(buddy_.free_pages(), chunk_pages);
  }
}

TEST_F(BuddyTest, ManyAtOnceUseUpSmallBlocksFirst) {
  Page* block = take(4);
  Page* fence = take(4);
  buddy_.give(block + 1, 0);
  buddy_.give(block + 6, 1);
  Page* pages[5];
  ASSERT_EQ(buddy_.take_blocks(pages, 5, 0), 5u);
  EXPECT_EQ(pages[0], block + 1);
  EXPECT_EQ(pages[1], block + 6);
  EXPECT_EQ(pages[2], block + 7);
  EXPECT_NE(pages[3], nullptr);
  EXPECT_EQ(pages[4], pages[3] + 1);
  buddy_.give_blocks(pages, 5, 0);
  for (const std::size_t page : {0, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15})
    buddy_.give(block + page, 0);
  buddy_.give(fence, 4);
}

class Model {
 public:
  Model(Buddy& buddy, std::uint64_t seed) : buddy_(buddy), random_(seed) {}

  void step(unsigned fill_percent) {
    const auto dice = random_() % 100;
    if (dice < 2) {
      buddy_.release(any_epoch, random_() % 64);
    } else if (live_.empty() || dice < fill_percent) {
      allocate(static_cast<unsigned>(random_() % (max_order + 1)));
    } else {
      free_random();
    }
  }
  void free_all() {
    while (!live_.empty()) free_random();
  }

 private:
  void allocate(unsigned order) {
    order = std::min(order, static_cast<unsigned>(random_() % (max_order + 1)));  // rather small
    Page* head = buddy_.take(order).head;
    ASSERT_NE(head, nullptr);
    const std::size_t index = index_of(head);
    ASSERT_EQ(index % (std::size_t{1} << order), 0u);
    auto next = live_.lower_bound(index);
    if (next != live_.end()) {
      ASSERT_GE(next->first, index + (std::size_t{1} << order));
    }
    if (next != live_.begin()) {
      --next;
      ASSERT_LE(next->first + (std::size_t{1} << next->second), index);
    }
    live_.emplace(index, order);
  }
  void free_random() {
    auto chosen = live_.lower_bound(live_.begin()->first +
                                    random_() % (live_.rbegin()->first - live_.begin()->first + 1));
    buddy_.give(arena.map + chosen->first, chosen->second);
    live_.erase(chosen);
  }

  Buddy& buddy_;
  std::mt19937_64 random_;
  std::map<std::size_t, unsigned> live_;  // index of the first page, order
};

TEST_F(BuddyTest, RandomOrdersNeverOverlapAndMergeCompletely) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(buddy_, seed);
    for (int step = 0; step < 600; ++step) {
      ASSERT_NO_FATAL_FAILURE(model.step(step % 200 < 100 ? 65 : 35)) << "step " << step;
      ASSERT_EQ(buddy_.validate(), nullptr) << "step " << step;
    }
    model.free_all();
    ASSERT_EQ(buddy_.validate(), nullptr);
    ASSERT_EQ(buddy_.free_pages() % chunk_pages, 0u);
  }
}

}  // namespace
}  // namespace kmem::pages
