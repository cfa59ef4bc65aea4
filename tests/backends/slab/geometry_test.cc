// What SLAB chooses: the table of orders, where the index array goes, colours, queue lengths.
#include "backends/slab/geometry.h"

#include <gtest/gtest.h>

namespace kmem::slab {
namespace {

Layout plan(std::size_t bytes, slab_flags_t flags = 0, Constructor ctor = nullptr) {
  return plan_layout({.name = "t", .object_bytes = bytes, .flags = flags, .ctor = ctor}, 4);
}
void construct(void*) {}

TEST(SlabGeometry, OrdersAndManagementAreThoseOfTheTable) {
  struct Row {
    std::size_t bytes, slot_bytes;
    unsigned order, objects;
    const char* management;
  };
  constexpr Row rows[] = {
      {8, 16, 0, 240, "on-slab"},      {16, 16, 0, 240, "on-slab"},
      {32, 32, 0, 124, "on-slab"},     {64, 64, 0, 64, "in-object"},
      {96, 96, 0, 42, "in-object"},    {128, 128, 0, 32, "in-object"},
      {192, 192, 0, 21, "in-object"},  {256, 256, 0, 16, "in-object"},
      {512, 512, 0, 8, "in-object"},   {640, 640, 0, 6, "in-object"},
      {704, 704, 1, 11, "in-object"},  {1024, 1024, 0, 4, "in-object"},
      {2048, 2048, 0, 2, "in-object"}, {4096, 4096, 0, 1, "in-object"},
      {8192, 8192, 1, 1, "in-object"},
  };
  for (const Row& row : rows) {
    const Geometry geometry = plan(row.bytes).geometry;
    EXPECT_EQ(geometry.slot_bytes, row.slot_bytes) << row.bytes;
    EXPECT_EQ(geometry.order, row.order) << row.bytes;
    EXPECT_EQ(geometry.objects, row.objects) << row.bytes;
    EXPECT_STREQ(geometry.management, row.management) << row.bytes;
  }
}

TEST(SlabGeometry, QueueLengthsFollowTheSlot) {
  struct Row {
    std::size_t bytes;
    unsigned limit, batchcount, shared;
  };
  constexpr Row rows[] = {{8, 120, 60, 480},   {256, 120, 60, 480}, {264, 54, 27, 216},
                          {1024, 54, 27, 216}, {1032, 24, 12, 96},  {4096, 24, 12, 96},
                          {4104, 8, 4, 0},     {131072, 8, 4, 0},   {131080, 1, 1, 0}};
  for (const Row& row : rows) {
    const Geometry geometry = plan(row.bytes).geometry;
    EXPECT_EQ(geometry.limit, row.limit) << row.bytes;
    EXPECT_EQ(geometry.batchcount, row.batchcount) << row.bytes;
    EXPECT_EQ(geometry.shared, row.shared) << row.bytes;
  }
  EXPECT_EQ(plan_layout({.object_bytes = 64}, 1).geometry.shared, 0U) << "one CPU shares nothing";
  EXPECT_EQ(plan(64, slab_flag::red_zone).geometry.limit, 32U) << "debugging";
}

TEST(SlabGeometry, AConstructorKeepsTheIndexArrayOutOfObjects) {
  EXPECT_STREQ(plan(512, 0, construct).geometry.management, "off-slab");
  EXPECT_EQ(plan(512, 0, construct).index_block_bytes, 32U);
  EXPECT_STREQ(plan(512, slab_flag::typesafe_by_rcu).geometry.management, "off-slab");
  // Leftover space holds the array: 21 objects of 192 leave 64 bytes.
  EXPECT_STREQ(plan(192, 0, construct).geometry.management, "on-slab");
  // An array of 64 needs a 64-byte block, more than half a slot.
  EXPECT_STREQ(plan(64, 0, construct).geometry.management, "on-slab");
  EXPECT_STREQ(plan(512, slab_flag::noleaktrace, construct).geometry.management, "on-slab");
}

TEST(SlabGeometry, ReclaimableCachesTakeTheFirstOrderThatFits) {
  EXPECT_EQ(plan(704).geometry.order, 1U);
  EXPECT_EQ(plan(704, slab_flag::reclaim_account).geometry.order, 0U);
}

TEST(SlabGeometry, ColoursFillTheLeftover) {
  const Geometry geometry = plan(704).geometry;  // 8192 - 11 * 704 = 448
  EXPECT_EQ(geometry.waste_bytes, 448U);
  EXPECT_EQ(geometry.colours, 7U);
  EXPECT_EQ(geometry.colour_bytes, 64U);
  EXPECT_EQ(plan(256).geometry.colours, 1U);
}

TEST(SlabGeometry, EverySizeUpToTheLargestBlockHasALayout) {
  for (std::size_t bytes = 1; bytes <= pages::max_block_bytes; bytes += 1 + bytes / 7) {
    for (Constructor ctor : {Constructor{nullptr}, Constructor{construct}}) {
      const Layout layout = plan(bytes, 0, ctor);
      const Geometry& geometry = layout.geometry;
      ASSERT_GT(geometry.objects, 0U) << bytes;
      ASSERT_LE(geometry.objects, max_objects) << bytes;
      const std::size_t slab_bytes = pages::page_bytes << geometry.order;
      const std::size_t colour_bytes = (geometry.colours - 1) * geometry.colour_bytes;
      const std::size_t index_bytes =
          layout.management == Management::on_slab ? geometry.objects : 0;
      ASSERT_LE(geometry.objects * geometry.slot_bytes + colour_bytes + index_bytes, slab_bytes)
          << bytes;
    }
  }
  EXPECT_EQ(plan(pages::max_block_bytes, slab_flag::noleaktrace, construct).geometry.objects, 1U);
  EXPECT_EQ(plan(pages::max_block_bytes + 1).geometry.objects, 0U);
}

}  // namespace
}  // namespace kmem::slab
