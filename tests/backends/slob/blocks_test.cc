// The blocks of one page, without a heap.
#include "backends/slob/blocks.h"

#include <vector>

#include "tests/backends/slob/fixture.h"

namespace kmem::slob {
namespace {

class SlobBlocks : public SlobTest {
 protected:
  void SetUp() override {
    SlobTest::SetUp();
    page_ = pages::alloc(0, no_node, gfp::kernel, pages::PageKind::slab);
    ASSERT_NE(page_, nullptr);
    page_->counters = 0;
    format_page(page_, OwnerMap(map_, Fit::small));
  }
  void TearDown() override {
    pages::free(page_);
    SlobTest::TearDown();
  }

  static Request request(std::size_t bytes, std::size_t align = 8, std::size_t lead = 0) {
    Request result;
    result.units = static_cast<std::uint16_t>(bytes / unit_bytes);
    result.align_units = static_cast<std::uint16_t>(align / unit_bytes);
    result.lead_units = static_cast<std::uint16_t>(lead / unit_bytes);
    result.id = owner_id::first_cache;
    return result;
  }
  // Offset in bytes of the object got; -1: none.
  int get(const Request& wanted) {
    void* object = nullptr;
    if (carve(page_, wanted, 1, &object) == 0) return -1;
    return static_cast<int>(unit_of(object) * unit_bytes);
  }
  void put(std::size_t offset, std::size_t bytes) {
    const auto at = static_cast<unsigned>(offset / unit_bytes);
    map_of(page_).clear(offset);
    insert(page_, at, static_cast<unsigned>(bytes / unit_bytes), page_units);
  }
  struct Free {
    unsigned offset, bytes;
    bool operator==(const Free&) const = default;
  };
  std::vector<Free> free_blocks() {
    std::vector<Free> blocks;
    for (unsigned at = first_free(page_); at != page_units;) {
      const FreeBlock block = read_block(page_, at);
      blocks.push_back({static_cast<unsigned>(at * unit_bytes),
                        static_cast<unsigned>(block.units * unit_bytes)});
      at = block.next;
    }
    return blocks;
  }
  const char* validate() {
    const std::uint16_t any_length[owner_id::end]{};
    return validate_blocks(page_, any_length);
  }

  pages::Page* page_ = nullptr;
  alignas(64) std::uint8_t map_[fine_map_bytes]{};
};

TEST_F(SlobBlocks, AFreshPageIsOneFreeBlock) {
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{0, 4096}}));
  EXPECT_EQ(state_of(page_).free_units, page_units);
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, ObjectsAreCarvedFromTheFrontInAddressOrder) {
  EXPECT_EQ(get(request(64)), 0);
  EXPECT_EQ(get(request(64)), 64);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{128, 3968}}));
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, AFragmentOfOneUnitIsAFreeBlock) {
  EXPECT_EQ(get(request(22)), 0);
  EXPECT_EQ(get(request(16)), 24);  // aligned: two bytes stay between
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{22, 2}, {40, 4056}}));
  EXPECT_EQ(units_of(page_)[11], -20);  // one unit: the negated offset of the next block
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, TheLastBlockOfOneUnitEndsTheList) {
  EXPECT_EQ(get(request(4094)), 0);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{4094, 2}}));
  EXPECT_EQ(units_of(page_)[2047], -2048);
  put(0, 4094);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{0, 4096}}));
}

TEST_F(SlobBlocks, WhatLiesBeforeAnAlignedStartStaysFree) {
  EXPECT_EQ(get(request(16)), 0);
  EXPECT_EQ(get(request(256, 256)), 256);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{16, 240}, {512, 3584}}));
  EXPECT_EQ(get(request(240)), 16);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{512, 3584}}));
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, AlignmentIsOfTheObjectBehindTheLead) {
  EXPECT_EQ(get(request(8 + 256, 256, 8)), 256);
  EXPECT_EQ(map_of(page_).id_at(248), owner_id::first_cache);
  EXPECT_EQ(map_of(page_).id_at(256), owner_id::none);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{0, 248}, {512, 3584}}));
}

TEST_F(SlobBlocks, FirstFitTakesTheLowestBlockThatIsLongEnough) {
  for (int i = 0; i < 4; ++i) get(request(128));
  put(0, 128);
  put(256, 128);
  EXPECT_EQ(get(request(192)), 512);
  EXPECT_EQ(get(request(64)), 0);
  EXPECT_EQ(get(request(128)), 256);
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, AFreedBlockMergesWithBothNeighbours) {
  for (int i = 0; i < 3; ++i) get(request(128));
  put(0, 128);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{0, 128}, {384, 3712}}));
  put(256, 128);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{0, 128}, {256, 3840}}));
  put(128, 128);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{0, 4096}}));
  EXPECT_EQ(state_of(page_).free_units, page_units);
}

TEST_F(SlobBlocks, OneUnitMergesOnBothSides) {
  EXPECT_EQ(get(request(22)), 0);
  EXPECT_EQ(get(request(22)), 24);
  EXPECT_EQ(get(request(16)), 48);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{22, 2}, {46, 2}, {64, 4032}}));
  put(24, 22);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{22, 26}, {64, 4032}}));
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, AFullPageHasAnEmptyList) {
  EXPECT_EQ(get(request(4096)), 0);
  EXPECT_EQ(first_free(page_), page_units);
  EXPECT_EQ(state_of(page_).free_units, 0);
  EXPECT_EQ(get(request(16)), -1);
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, AWalkThatFindsNothingLeavesTheExactBound) {
  void* objects[32];
  ASSERT_EQ(carve(page_, request(128), 32, objects), 32u);
  put(128, 128);
  put(1024, 128);
  EXPECT_EQ(get(request(256)), -1);
  EXPECT_EQ(state_of(page_).fit_units, 64);
  EXPECT_EQ(get(request(128)), 128);
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, ManyInOnePassLieWhereSinglesWould) {
  const Request wanted = request(36, 16);
  get(request(512));
  put(0, 512);
  get(request(20));
  std::vector<int> singles;
  for (int offset = get(wanted); offset >= 0; offset = get(wanted)) singles.push_back(offset);
  const std::vector<Free> left = free_blocks();
  for (int offset : singles) put(static_cast<std::size_t>(offset), 36);

  std::vector<void*> objects(300);
  objects.resize(carve(page_, wanted, objects.size(), objects.data()));

  ASSERT_EQ(objects.size(), singles.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(unit_of(objects[i]) * unit_bytes, static_cast<std::size_t>(singles[i]));
  }
  EXPECT_EQ(free_blocks(), left);
  EXPECT_EQ(validate(), nullptr);
}

TEST_F(SlobBlocks, TheLengthOfABlockFollowsFromItsNeighbours) {
  EXPECT_EQ(get(request(22)), 0);
  EXPECT_EQ(get(request(64)), 24);
  EXPECT_EQ(get(request(32)), 88);
  EXPECT_EQ(units_in_use(page_, 0), 11u);
  EXPECT_EQ(units_in_use(page_, 12), 32u);
  EXPECT_EQ(units_in_use(page_, 44), 16u);
}

TEST(SlobOwnerMap, RemembersStartsAndOwnersInBothKinds) {
  for (Fit fit : {Fit::small, Fit::medium}) {
    alignas(64) std::uint8_t bytes[fine_map_bytes]{};
    const OwnerMap map(bytes, fit);
    const std::size_t step = fit == Fit::small ? 40 : 264;
    EXPECT_EQ(map.next_start(0), pages::page_bytes);
    for (OwnerId first = owner_id::kmalloc; first < owner_id::end; first += 9) {
      OwnerId id = first;
      for (std::size_t at = 0; at + step <= pages::page_bytes; at += step) {
        map.mark(at, OwnerCode(id));
        id = id + 1 < owner_id::end ? id + 1 : owner_id::kmalloc;
      }
      id = first;
      for (std::size_t at = 0; at + step <= pages::page_bytes; at += step) {
        EXPECT_EQ(map.id_at(at), id);
        EXPECT_TRUE(map.starts_at(at, OwnerCode(id)));
        EXPECT_FALSE(map.starts_at(at, OwnerCode(static_cast<OwnerId>(id ^ 1))));
        EXPECT_EQ(map.next_start(at), at);
        for (std::size_t inside = 1; inside < step; ++inside) {
          EXPECT_EQ(map.id_at(at + inside), owner_id::none) << at << '+' << inside;
          EXPECT_FALSE(map.starts_at(at + inside, OwnerCode(id)));
        }
        map.change(at, owner_id::parked);
        EXPECT_EQ(map.id_at(at), owner_id::parked);
        map.clear(at);
        EXPECT_EQ(map.id_at(at), owner_id::none);
        id = id + 1 < owner_id::end ? id + 1 : owner_id::kmalloc;
      }
      EXPECT_EQ(map.next_start(0), pages::page_bytes);
    }
    for (std::uint8_t byte : bytes) EXPECT_EQ(byte, 0);
  }
}

TEST_F(SlobBlocks, AnOverwrittenHeaderEndsTheListAndIsReported) {
  for (int i = 0; i < 4; ++i) get(request(128));
  put(128, 128);
  const std::uint64_t reports = debug::report_count(debug::Fault::corrupt_link);
  units_of(page_)[64] = 0x4141;
  EXPECT_EQ(get(request(64)), -1);
  EXPECT_EQ(debug::report_count(debug::Fault::corrupt_link), reports + 1);
  EXPECT_EQ(free_blocks(), (std::vector<Free>{{128, 2}}));
}

}  // namespace
}  // namespace kmem::slob
