// The contract of pages.h, on one thread.
#include "common/pages/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/debug/report.h"
#include "common/nodes/topology.h"
#include "common/pages/arena.h"
#include "common/pages/zones.h"
#include "tests/unit/common/child.h"
#include "tests/unit/common/log_lines.h"
#include "tests/unit/common/pages/resident.h"

namespace kmem::pages {
namespace {

using kmem::testing::resident_bytes;

class PagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    stay_on_this_cpu();
    ASSERT_TRUE(start());
    ASSERT_EQ(usage().allocated_bytes, 0u);
    reset_peak();
  }
  void TearDown() override {
    fail_allocation(0);
    set_limit_bytes(0);
    release_free();
    EXPECT_EQ(validate_zones(), nullptr);
    EXPECT_EQ(usage().allocated_bytes, 0u);
    EXPECT_EQ(usage().free_resident_bytes, 0u);
  }
  static Page* alloc_slab(unsigned order, gfp_t gfp = gfp::kernel) {
    return alloc(order, no_node, gfp, PageKind::slab);
  }
  static void fill(Page* head) { std::memset(address_of(head), 0xa5, block_bytes(head)); }
  static bool all_zero(const Page* head, std::size_t bytes) {
    const char* base = address_of(head);
    return std::all_of(base, base + bytes, [](char byte) { return byte == 0; });
  }

 private:
  // Peaks are exact for traffic of one CPU only.
  static void stay_on_this_cpu() {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
};

// First in the file: nothing has started the arena in this process.
TEST(BeforeStart, EveryPointerLeadsToANullPage) {
  int local = 0;
  for (const void* pointer : {static_cast<const void*>(nullptr), static_cast<const void*>(&local),
                              reinterpret_cast<const void*>(~std::uintptr_t{0})}) {
    EXPECT_TRUE(is_null_page(page_of(pointer)));
    EXPECT_EQ(page_of(pointer)->owner, nullptr);
  }
}

TEST_F(PagesTest, ForeignPointersLeadToTheNullPage) {
  static int in_data = 0;
  int on_stack = 0;
  const auto base = reinterpret_cast<const char*>(arena.base);
  const std::size_t bytes = arena.page_count * page_bytes;
  const std::uintptr_t wild[] = {0, 1, 0xdeadbeef, ~std::uintptr_t{0}, std::uintptr_t{1} << 63};
  std::vector<const void*> pointers = {&in_data, &on_stack,   base, base + page_bytes - 1,
                                       base - 1, base + bytes};
  for (const std::uintptr_t address : wild)
    pointers.push_back(reinterpret_cast<const void*>(address));
  for (const void* pointer : pointers) {
    EXPECT_TRUE(is_null_page(page_of(pointer))) << pointer;
    EXPECT_EQ(page_of(pointer)->owner, nullptr);
    EXPECT_EQ(page_of(pointer)->head, nullptr);
  }
  EXPECT_FALSE(is_null_page(page_of(base + bytes - 1)));
}

TEST_F(PagesTest, UnalignedPointersLeadToTheirPage) {
  Page* head = alloc_slab(2);
  for (std::size_t offset = 0; offset < 4 * page_bytes; offset += 511)
    EXPECT_EQ(page_of(address_of(head) + offset), head + offset / page_bytes);
  free(head);
}

TEST_F(PagesTest, BlocksOfAllOrdersAreAlignedAndDescribedInEveryPage) {
  for (unsigned order = 0; order <= max_order; ++order) {
    for (const PageKind kind : {PageKind::slab, PageKind::large}) {
      Page* head = alloc(order, no_node, gfp::kernel, kind);
      ASSERT_NE(head, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address_of(head)) % (page_bytes << order), 0u);
      EXPECT_EQ(block_bytes(head), page_bytes << order);
      EXPECT_FALSE(head->link.linked());
      for (const Page* page = head; page < head + (std::size_t{1} << order); ++page) {
        ASSERT_EQ(page->head, head);
        ASSERT_EQ(page->kind, kind);
        ASSERT_EQ(page->owner, nullptr);
        ASSERT_EQ(page->owner_tag, 0);
        ASSERT_LT(page->node, nodes::count());
      }
      fill(head);
      EXPECT_EQ(usage().allocated_bytes, page_bytes << order);
      free(head);
    }
  }
}

TEST_F(PagesTest, OwnerIsInEveryPageUntilTheBlockIsFreed) {
  int owner = 0;
  Page* head = alloc_slab(3);
  set_owner(head, &owner, 9);
  for (const Page* page = head; page < head + 8; ++page) {
    EXPECT_EQ(page->owner, &owner);
    EXPECT_EQ(page->owner_tag, 9);
  }
  free(head);
  for (const Page* page = head; page < head + 8; ++page) {
    EXPECT_EQ(page->owner, nullptr);
    EXPECT_EQ(page->owner_tag, 0);
    EXPECT_EQ(page->head, nullptr);
    EXPECT_EQ(page->kind, PageKind::free);
  }
}

TEST_F(PagesTest, ManySinglePagesAreDistinct) {
  std::set<Page*> live;
  for (int i = 0; i < 3000; ++i) {
    Page* page = alloc_slab(0);
    ASSERT_TRUE(live.insert(page).second);
  }
  EXPECT_EQ(usage().allocated_bytes, 3000 * page_bytes);
  for (Page* page : live) free(page);
}

TEST_F(PagesTest, AnOrderTooLargeIsRefused) {
  const std::uint64_t failures = usage().failures;
  EXPECT_EQ(alloc_slab(max_order + 1), nullptr);
  EXPECT_EQ(usage().failures, failures + 1);
}

TEST_F(PagesTest, ZeroHoldsForUsedAndForFreshMemory) {
  for (unsigned order = 0; order <= max_order; ++order) {
    Page* used = alloc_slab(order);
    fill(used);
    free(used);
    for (int round = 0; round < 2; ++round) {
      Page* head = alloc_slab(order, gfp::kernel | gfp::zero);
      EXPECT_TRUE(all_zero(head, page_bytes << order)) << "order " << order;
      fill(head);
      free(head);
      release_free();
    }
  }
}

TEST_F(PagesTest, UsageCountsBlocksAndPeakExactlyOnOneThread) {
  const Usage start = usage();
  std::vector<Page*> live;
  for (int i = 0; i < 100; ++i) live.push_back(alloc_slab(0));
  live.push_back(alloc_slab(4));
  EXPECT_EQ(usage().allocated_bytes, 116 * page_bytes);
  for (Page* page : live) free(page);
  const Usage end = usage();
  EXPECT_EQ(end.allocated_bytes, 0u);
  EXPECT_EQ(end.allocated_bytes_peak, 116 * page_bytes);
  EXPECT_EQ(end.allocations - start.allocations, 101u);
  EXPECT_EQ(end.frees - start.frees, 101u);
  EXPECT_GE(end.free_resident_bytes, 116 * page_bytes);
  reset_peak();
  EXPECT_EQ(usage().allocated_bytes_peak, 0u);
  Page* page = alloc_slab(0);
  EXPECT_EQ(usage().allocated_bytes_peak, page_bytes);
  free(page);
}

TEST_F(PagesTest, TheLimitIsReachedExactly) {
  set_limit_bytes(20 * page_bytes);
  std::vector<Page*> live;
  while (Page* page = alloc_slab(0)) live.push_back(page);
  EXPECT_EQ(live.size(), 20u);
  EXPECT_EQ(alloc_slab(3), nullptr);
  EXPECT_EQ(metadata_alloc(64), nullptr);
  EXPECT_EQ(alloc_run(max_block_bytes + 1, no_node, gfp::kernel), nullptr);
  for (int i = 0; i < 8; ++i) {
    free(live.back());
    live.pop_back();
  }
  Page* block = alloc_slab(3);  // the eight pages lie on a per-CPU list: that must not matter
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(alloc_slab(0), nullptr);
  set_limit_bytes(0);
  live.push_back(alloc_slab(0));
  EXPECT_NE(live.back(), nullptr);
  live.push_back(block);
  for (Page* page : live) free(page);
}

TEST_F(PagesTest, BlocksOfOneOrderOnAListDoNotStandInTheWayOfAnother) {
  set_limit_bytes(64 * page_bytes);
  for (int round = 0; round < 3; ++round) {
    for (unsigned order = 0; order <= 6; ++order) {
      std::vector<Page*> live;
      while (Page* head = alloc_slab(order)) live.push_back(head);
      EXPECT_EQ(live.size(), std::size_t{64} >> order) << "order " << order;
      EXPECT_EQ(usage().allocated_bytes, 64 * page_bytes);
      for (Page* head : live) free(head);
      EXPECT_EQ(usage().allocated_bytes, 0u);
    }
  }
}

TEST_F(PagesTest, ALimitBelowWhatIsAllocatedRefusesAndRecovers) {
  Page* block = alloc_slab(4);
  set_limit_bytes(page_bytes);
  EXPECT_EQ(alloc_slab(0), nullptr);
  free(block);
  Page* page = alloc_slab(0);
  EXPECT_NE(page, nullptr);
  EXPECT_EQ(alloc_slab(0), nullptr);
  free(page);
}

TEST_F(PagesTest, TheKthAllocationFails) {
  for (std::uint64_t k = 1; k <= 4; ++k) {
    fail_allocation(k);
    for (std::uint64_t i = 1; i <= 6; ++i) {
      void* block = nullptr;  // each kind of allocation counts once
      switch (i % 3) {
        case 0:
          block = alloc_slab(0);
          break;
        case 1:
          block = metadata_alloc(100);
          break;
        default:
          block = alloc_slab(2);
      }
      EXPECT_EQ(block == nullptr, i == k) << "k " << k << ", i " << i;
      if (block == nullptr) continue;
      if (i % 3 == 1)
        metadata_free(block, 100);
      else
        free(static_cast<Page*>(block));
    }
  }
}

TEST_F(PagesTest, AllAllocationsFromTheKthFail) {
  fail_allocation(2, true);
  Page* page = alloc_slab(0);
  EXPECT_NE(page, nullptr);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(alloc_slab(0), nullptr);
    EXPECT_EQ(metadata_alloc(5000), nullptr);
    EXPECT_EQ(alloc_run(5 << 20, no_node, gfp::kernel), nullptr);
  }
  fail_allocation(0);
  free(page);
  page = alloc_slab(0);
  EXPECT_NE(page, nullptr);
  free(page);
}

TEST_F(PagesTest, AttemptsAreCountedWhetherTheySucceedOrNot) {
  const std::uint64_t before = allocation_attempts();
  Page* page = alloc_slab(0);
  void* block = metadata_alloc(1);
  fail_allocation(1);
  EXPECT_EQ(alloc_slab(1), nullptr);
  free(page);
  metadata_free(block, 1);
  EXPECT_EQ(allocation_attempts(), before + 3);
}

TEST_F(PagesTest, ReleaseGivesTheMemoryBack) {
  std::vector<Page*> live;
  for (int i = 0; i < 2000; ++i) {
    live.push_back(alloc_slab(0));
    fill(live.back());
  }
  Page* block = alloc_slab(6);
  fill(block);
  for (Page* page : live) free(page);
  EXPECT_GE(usage().free_resident_bytes, 2000 * page_bytes);
  const std::size_t released = release_free();
  EXPECT_GE(released, 2000 * page_bytes);
  EXPECT_EQ(usage().free_resident_bytes, 0u);
  std::size_t resident = 0;
  for (Page* page : live) resident += resident_bytes(address_of(page), page_bytes);
  EXPECT_EQ(resident, 0u);
  EXPECT_EQ(resident_bytes(address_of(block), block_bytes(block)), block_bytes(block));
  EXPECT_EQ(release_free(), 0u);
  free(block);
}

TEST_F(PagesTest, WholeChunksReturnToTheArenaWithTheirDescriptors) {
  const std::size_t chunks = free_chunks();
  std::vector<Page*> live;
  for (int i = 0; i < 4; ++i) {
    live.push_back(alloc_slab(max_order));
    fill(live.back());
  }
  EXPECT_LE(free_chunks(), chunks - 4);
  for (Page* head : live) free(head);
  release_free();
  EXPECT_EQ(free_chunks(), chunks);
  for (const Page* head : live) {
    EXPECT_EQ(resident_bytes(head, chunk_pages * sizeof(Page)), 0u);
    EXPECT_EQ(head->kind, PageKind::reserved);
  }
}

TEST_F(PagesTest, FreeMemoryDecaysAfterMoreThanOneInterval) {
  std::uint64_t clock_ms = std::uint64_t{1} << 40;  // made up; far after any real pass
  set_decay_interval_ms(1000);
  decay_at(clock_ms);
  Page* block = alloc_slab(5);
  fill(block);
  Page* fence = alloc_slab(0);
  free(block);
  const std::size_t dirty = usage().free_resident_bytes;
  decay_at(clock_ms += 1000);  // free for less than an interval, as far as a pass can know
  EXPECT_GE(usage().free_resident_bytes, 32 * page_bytes);
  decay_at(clock_ms += 999);  // not due
  EXPECT_EQ(usage().free_resident_bytes, dirty);
  decay_at(clock_ms += 1);
  EXPECT_EQ(resident_bytes(address_of(block), 32 * page_bytes), 0u);
  free(fence);
  decay_at(clock_ms += 1000);
  decay_at(clock_ms += 1000);
  decay_at(clock_ms += 1000);  // pages on an idle CPU's list go a pass later
  decay_at(clock_ms += 1000);
  EXPECT_EQ(usage().free_resident_bytes, 0u);
}

TEST_F(PagesTest, DecayIsBoundedAndGoesOnAtTheNextCall) {
  std::uint64_t clock_ms = std::uint64_t{1} << 41;
  std::vector<Page*> live;
  for (int i = 0; i < 12; ++i) live.push_back(alloc_slab(max_order));
  for (Page* head : live) free(head);
  decay_at(clock_ms += 1000);
  decay_at(clock_ms += 1000);  // first 16 MiB
  const std::size_t after_first = usage().free_resident_bytes;
  EXPECT_GT(after_first, 0u);
  EXPECT_LT(after_first, 12 * max_block_bytes);
  for (int i = 0; i < 4; ++i) decay_at(clock_ms + 1);
  EXPECT_EQ(usage().free_resident_bytes, 0u);
}

TEST_F(PagesTest, RunsAreZeroAlignedAndGivenBack) {
  const std::size_t chunks = free_chunks();
  for (const std::size_t bytes :
       {max_block_bytes + 1, std::size_t{5} << 20, std::size_t{64} << 20}) {
    Page* head = alloc_run(bytes, no_node, gfp::kernel);
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address_of(head)) % max_block_bytes, 0u);
    EXPECT_GE(run_bytes(head), bytes);
    EXPECT_LT(run_bytes(head), bytes + page_bytes);
    EXPECT_EQ(usage().allocated_bytes, run_bytes(head));
    EXPECT_EQ(head->head, head);
    EXPECT_EQ(head->kind, PageKind::large);
    EXPECT_EQ(run_bytes(head + 1), 0u);
    EXPECT_TRUE(all_zero(head, bytes));
    std::memset(address_of(head), 0xa5, bytes);
    free_run(head);
    EXPECT_EQ(run_bytes(head), 0u);
    EXPECT_EQ(head->head, nullptr);
    EXPECT_EQ(free_chunks(), chunks);
  }
}

TEST_F(PagesTest, ABlockIsNotARunAndImpossibleRunsAreRefused) {
  Page* block = alloc_slab(max_order);
  EXPECT_EQ(run_bytes(block), 0u);
  free(block);
  EXPECT_EQ(alloc_run(0, no_node, gfp::kernel), nullptr);
  EXPECT_EQ(alloc_run(arena.page_count * page_bytes, no_node, gfp::kernel), nullptr);
  EXPECT_EQ(alloc_run(~std::size_t{0}, no_node, gfp::kernel), nullptr);
}

TEST_F(PagesTest, FreeingWhatIsNoBlockIsReportedAndChangesNothing) {
  Page* block = alloc_slab(2);
  Page* run = alloc_run(max_block_bytes + 1, no_node, gfp::kernel);
  Page* freed = alloc_slab(0);
  free(freed);
  auto* between = reinterpret_cast<Page*>(reinterpret_cast<char*>(block) + 8);
  Page elsewhere = {};
  for (Page* bad :
       {block + 1, run, freed, arena.map, between, &elsewhere, static_cast<Page*>(nullptr)}) {
    kmem::testing::LogLines log;
    const std::uint64_t reports = debug::report_count();
    free(bad);
    EXPECT_EQ(debug::report_count(), reports + 1);
    EXPECT_TRUE(log.contains("FIX pages: Pages not freed"));
  }
  {
    kmem::testing::LogLines log;
    free_run(block);
    EXPECT_TRUE(log.contains("BUG pages (Not tainted): "));
  }
  EXPECT_EQ(block->head, block);
  free(block);
  free_run(run);
}

TEST_F(PagesTest, ReservedRangesAreZeroAndCostNothingUntilWritten) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  auto* writable = static_cast<char*>(reserve_zeroed(bytes, false));
  ASSERT_NE(writable, nullptr);
  EXPECT_EQ(resident_bytes(writable, bytes), 0u);
  writable[page_bytes * 3] = 1;
  EXPECT_EQ(resident_bytes(writable, bytes), page_bytes);
  discard(writable, bytes);
  EXPECT_EQ(resident_bytes(writable, bytes), 0u);
  EXPECT_EQ(writable[page_bytes * 3], 0);
  auto* constant = static_cast<const volatile char*>(reserve_zeroed(bytes, true));
  ASSERT_NE(constant, nullptr);
  EXPECT_EQ(constant[bytes - 1], 0);
  EXPECT_DEATH(const_cast<volatile char*>(constant)[0] = 1, "");
  EXPECT_EQ(reserve_zeroed(std::size_t{1} << 60, false), nullptr);
}

}  // namespace
}  // namespace kmem::pages
