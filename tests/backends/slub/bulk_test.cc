// Optimized bulk: nothing is lost or given twice, at any count and from any mix of sources.
#include <algorithm>
#include <random>
#include <set>

#include "tests/backends/slub/fixture.h"

namespace kmem::slub {
namespace {

class SlubBulk : public VirtualSlub {
 protected:
  void bulk(std::size_t n) {
    const std::size_t before = live_.size();
    live_.resize(before + n);
    ASSERT_TRUE(cache_.alloc_bulk(gfp::kernel, n, live_.data() + before));
    const std::set<void*> distinct(live_.begin(), live_.end());
    ASSERT_EQ(distinct.size(), live_.size());
    ASSERT_STREQ(cache_.validate(), nullptr) << "n " << n;
  }
  void free_all() {
    cache_.free_bulk(live_.size(), live_.data());
    live_.clear();
    ASSERT_STREQ(cache_.validate(), nullptr);
  }
};

TEST_F(SlubBulk, EveryCountFromEveryStartOfTheCpuList) {
  create(512);
  for (unsigned start = 0; start <= objects(); start += 3) {
    for (std::size_t n = 0; n <= 4 * objects() + 2; ++n) {
      bulk(start);
      bulk(n);
      free_all();
    }
    cache_.shrink();
  }
}

TEST_F(SlubBulk, TakesWhatOthersFreedIntoTheCpuSlab) {
  create(512);
  bulk(objects() - 2);
  std::vector<void*> freed(live_.begin(), live_.begin() + 5);
  live_.erase(live_.begin(), live_.begin() + 5);
  on_cpu(1);
  cache_.free_bulk(freed.size(), freed.data());
  on_cpu(0);
  const std::uint64_t slabs = count(Event::alloc_slab);
  bulk(7);
  EXPECT_EQ(count(Event::alloc_slab), slabs);
}

TEST_F(SlubBulk, TakesManySlabsOfTheNodeUnderOneLock) {
  create(512);
  auto filled = fill_slabs(12);
  for (auto& slab : filled) {
    free(slab.back());
    slab.pop_back();
    keep(slab);
  }
  cache_.flush_all();
  ASSERT_EQ(cache_.partial_slabs(0), 12u);
  const std::uint64_t locks = count(Event::list_lock);
  const std::uint64_t slabs = count(Event::alloc_slab);
  bulk(10);
  EXPECT_EQ(count(Event::list_lock), locks + 1);
  EXPECT_EQ(count(Event::alloc_slab), slabs);
  EXPECT_EQ(cache_.partial_slabs(0), 0u) << "two more went to the CPU partial list";
}

TEST_F(SlubBulk, FailureAtAnyPageGivesEverythingBack) {
  create(512);
  bulk(3);
  const std::vector<void*> kept = live_;
  std::vector<void*> out(5 * objects());
  for (std::uint64_t k = 1; k <= 5; ++k) {
    pages::fail_allocation(k, true);
    EXPECT_FALSE(cache_.alloc_bulk(gfp::kernel, out.size(), out.data())) << k;
    pages::fail_allocation(0);
    expect_valid();
    cache_.shrink();
    EXPECT_EQ(cache_.usage().slabs, 1u) << k;
  }
}

TEST_F(SlubBulk, AMixedOrderIsFreedWithFewUpdatesASlab) {
  create(512);
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    bulk(random() % 200);
    std::shuffle(live_.begin(), live_.end(), random);
    on_cpu(static_cast<unsigned>(random() % cpus));
    while (!live_.empty()) {
      const std::size_t n = 1 + random() % live_.size();
      cache_.free_bulk(n, live_.data() + live_.size() - n);
      live_.resize(live_.size() - n);
      ASSERT_STREQ(cache_.validate(), nullptr);
    }
  }
  cache_.shrink();
  EXPECT_EQ(cache_.usage().slabs, 0u);
}

TEST_F(SlubBulk, TwoSlabsInTurnsNeedTwoUpdates) {
  create(512);
  auto filled = fill_slabs(2);
  live_.push_back(alloc());
  std::vector<void*> mixed;
  for (unsigned i = 0; i < objects(); ++i) {
    mixed.push_back(filled[0][i]);
    if (i < 2) mixed.push_back(filled[1][i]);  // two strangers are looked past, a third is not
  }
  on_cpu(1);
  cache_.free_bulk(mixed.size(), mixed.data());
  EXPECT_EQ(count(Event::cpu_partial_free), 2u);
  EXPECT_EQ(state_of(slab_of(filled[0][0])).inuse(), 0u);
  EXPECT_EQ(state_of(slab_of(filled[1][0])).inuse(), objects() - 2);
  expect_valid();
  live_.insert(live_.end(), filled[1].begin() + 2, filled[1].end());
}

TEST_F(SlubBulk, ANeighbourFreedTwiceInOneBulkIsReportedAndDropped) {
  create(512);
  bulk(4);
  const std::uint64_t before = debug::report_count(debug::Fault::double_free);
  void* batch[] = {live_[0], live_[1], live_[1], live_[2]};
  cache_.free_bulk(4, batch);
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 1);
  live_.erase(live_.begin(), live_.begin() + 3);
  expect_valid();
}

TEST_F(SlubBulk, TheHeadOfTheCpuListFreedAgainIsReportedAndTheRestFreed) {
  create(512);
  bulk(4);
  free(live_[0]);
  const std::uint64_t before = debug::report_count(debug::Fault::double_free);
  EXPECT_EQ(cache_.free_bulk_checked(4, live_.data()), 4u);
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 1);
  live_.clear();
  expect_valid();
  bulk(2 * objects());
  free_all();
}

TEST_F(SlubBulk, OnePassStopsBeforeWhatNeedsACloserLook) {
  create(512);
  bulk(12);
  const std::vector<void*> all = live_;
  void* stranger = &stranger;
  void* inside = static_cast<char*>(all[4]) + 8;
  for (void* odd : {stranger, inside, static_cast<void*>(nullptr)}) {
    void* batch[] = {all[0], all[1], all[2], all[3], odd, all[4]};
    EXPECT_EQ(cache_.free_bulk_checked(6, batch), 4u);
    live_.erase(live_.begin(), live_.begin() + 4);
    expect_valid();
    bulk(4);
    std::sort(live_.begin(), live_.end());
    ASSERT_EQ(live_, all);
  }
  void* twice[] = {all[0], all[1], all[2], all[3], all[3], all[4]};
  EXPECT_EQ(cache_.free_bulk_checked(6, twice), 0u);
  void* at_once[] = {all[0], all[0], all[1], all[2], all[3]};
  EXPECT_EQ(cache_.free_bulk_checked(5, at_once), 0u);
  expect_valid();
}

TEST_F(SlubBulk, OneObjectASlab) {
  create(40000);
  ASSERT_EQ(objects(), 1u);
  bulk(30);
  free_all();
  bulk(3);
}

}  // namespace
}  // namespace kmem::slub
