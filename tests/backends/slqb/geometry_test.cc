#include "backends/slqb/geometry.h"

#include <gtest/gtest.h>

#include "backends/slqb/slqb.h"
#include "common/pages/page.h"

namespace kmem::slqb {
namespace {

struct Row {
  std::size_t size;
  unsigned order, objects, freebatch, hiwater;
};

class SlqbGeometry : public testing::TestWithParam<Row> {};

TEST_P(SlqbGeometry, IsThatOfTheTables) {
  const Row row = GetParam();
  const Geometry g = plan_geometry({.object_bytes = row.size});

  EXPECT_EQ(g.slot_bytes, row.size);
  EXPECT_EQ(g.order, row.order);
  EXPECT_EQ(g.objects, row.objects);
  EXPECT_EQ(g.batchcount, row.freebatch);
  EXPECT_EQ(g.limit, row.hiwater);
  EXPECT_EQ(g.link_offset, 0U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SlqbGeometry,
                         testing::Values(Row{8, 0, 512, 2048, 8192}, Row{16, 0, 256, 1024, 4096},
                                         Row{32, 0, 128, 512, 2048}, Row{64, 0, 64, 256, 1024},
                                         Row{96, 0, 42, 256, 1024}, Row{128, 0, 32, 256, 1024},
                                         Row{192, 0, 21, 256, 1024}, Row{256, 0, 16, 256, 1024},
                                         Row{512, 0, 8, 256, 1024}, Row{640, 0, 6, 256, 1024},
                                         Row{704, 0, 5, 256, 1024}, Row{1024, 0, 4, 256, 1024},
                                         Row{2048, 0, 2, 128, 512}, Row{4096, 0, 1, 64, 256},
                                         Row{8192, 1, 1, 32, 128}),
                         [](const auto& info) {
                           return "Bytes" + std::to_string(info.param.size);
                         });

TEST(SlqbGeometryRules, OrderOneIsTakenWhereOrderZeroWastesOverAQuarter) {
  EXPECT_EQ(plan_geometry({.object_bytes = 3072}).order, 0U);  // just a quarter
  EXPECT_EQ(plan_geometry({.object_bytes = 2720}).order, 1U);  // 34 % of order 0
  EXPECT_EQ(plan_geometry({.object_bytes = 2720}).objects, 3U);
}

TEST(SlqbGeometryRules, WasteIsIgnoredWhereNoOrderIsGoodEnough) {
  const Geometry g = plan_geometry({.object_bytes = 5000});  // order 1 wastes 39 %
  EXPECT_EQ(g.order, 1U);
  EXPECT_EQ(g.objects, 1U);
  EXPECT_EQ(plan_geometry({.object_bytes = 3064}).order, 0U);
  EXPECT_EQ(plan_geometry({.object_bytes = 3 * pages::page_bytes}).order, 2U);
}

TEST(SlqbGeometryRules, LongQueuesShrinkToOneObject) {
  EXPECT_EQ(queue_length(std::size_t{1} << 20).freebatch, 1U);
  EXPECT_EQ(queue_length(std::size_t{1} << 20).hiwater, 4U);
}

TEST(SlqbGeometryRules, TheLinkStaysOutOfWhatMustSurvive) {
  const auto link_of = [](const CacheSpec& spec) { return plan_geometry(spec).link_offset; };
  EXPECT_EQ(link_of({.object_bytes = 20, .ctor = [](void*) {}}), 24U);
  EXPECT_EQ(link_of({.object_bytes = 20, .flags = slab_flag::typesafe_by_rcu}), 24U);
  EXPECT_EQ(link_of({.object_bytes = 20, .flags = slab_flag::poison}), 24U);
  EXPECT_EQ(link_of({.object_bytes = 24,
                     .flags = slab_flag::typesafe_by_rcu,
                     .has_freeptr_offset = true,
                     .freeptr_offset = 16}),
            16U);
  EXPECT_EQ(plan_geometry({.object_bytes = 20, .ctor = [](void*) {}}).slot_bytes, 32U);
}

TEST(SlqbGeometryRules, ColoursStepThroughTheLeftover) {
  const Geometry g = plan_geometry({.object_bytes = 640});
  EXPECT_EQ(g.waste_bytes, 256U);
  EXPECT_EQ(g.colour_bytes, 64U);
  EXPECT_EQ(g.colours, 4U);
  EXPECT_EQ(plan_geometry({.object_bytes = 640, .align = 128}).colours, 2U);
  EXPECT_EQ(plan_geometry({.object_bytes = 640, .flags = slab_flag::red_zone}).colours, 1U);
  EXPECT_EQ(plan_geometry({.object_bytes = 64}).colours, 1U);
}

TEST(SlqbGeometryRules, AnObjectLargerThanAnySlabHasNone) {
  EXPECT_EQ(plan_geometry({.object_bytes = pages::max_block_bytes}).objects, 1U);
  EXPECT_EQ(plan_geometry({.object_bytes = pages::max_block_bytes, .ctor = [](void*) {}}).objects,
            0U);
}

TEST(SlqbGeometryRules, TunablesAreBounded) {
  EXPECT_TRUE(legal({.freebatch = 9, .hiwater = 8}));
  EXPECT_FALSE(legal({.freebatch = 10, .hiwater = 8}));
  EXPECT_FALSE(legal({.freebatch = 0, .hiwater = 8}));
  EXPECT_FALSE(legal({.freebatch = 0x10000, .hiwater = 0x20000}));
}

TEST(SlqbGeometryRules, KmallocHas192ButNo96AndGoesTo2MiB) {
  constexpr KmallocClasses classes = Cache<percpu::Locked>::kmalloc_classes;
  EXPECT_EQ(classes.smallest, 8U);
  EXPECT_EQ(classes.largest, std::size_t{2} << 20);
  EXPECT_FALSE(classes.has_96);
  EXPECT_TRUE(classes.has_192);
}

}  // namespace
}  // namespace kmem::slqb
