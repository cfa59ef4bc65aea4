// The percpu area: offsets are handed out first fit, never overlap, and read as zeros; the dummy
// cannot be written.
#include "common/percpu/area.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/nodes/topology.h"
#include "common/percpu/sequences.h"

namespace kmem::percpu {
namespace {

class AreaTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(start()); }
  const unsigned cpus = nodes::cpu_ids();

  bool all_zero(Place place, std::size_t bytes) const {
    for (unsigned cpu = 0; cpu < cpus; ++cpu) {
      for (std::size_t i = 0; i < bytes; ++i) {
        if (unit_of(place.base, cpu)[i] != 0) return false;
      }
    }
    return true;
  }
};

TEST_F(AreaTest, PlacesDoNotOverlapAndAreAligned) {
  const Place a = area_alloc(100, cpus), b = area_alloc(64, cpus);
  ASSERT_NE(a.base, nullptr);
  ASSERT_NE(b.base, nullptr);
  EXPECT_GE(b.base, a.base + 128);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.base) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.base) % 64, 0u);
  area_free(a, 100, cpus);
  area_free(b, 64, cpus);
  EXPECT_EQ(area_usage().used_bytes, 0u);
}

TEST_F(AreaTest, AFreedPlaceIsTheFirstToBeReusedAndIsZeroAgain) {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{5000}, std::size_t{40000}}) {
    const Place first = area_alloc(bytes, cpus);
    const Place second = area_alloc(bytes, cpus);
    for (unsigned cpu = 0; cpu < cpus; ++cpu) std::memset(unit_of(first.base, cpu), 0xee, bytes);
    area_free(first, bytes, cpus);
    const Place again = area_alloc(bytes, cpus);
    EXPECT_EQ(again.base, first.base);
    EXPECT_TRUE(all_zero(again, bytes)) << bytes;
    area_free(again, bytes, cpus);
    area_free(second, bytes, cpus);
  }
}

TEST_F(AreaTest, GrowsByChunksUpToWholeUnits) {
  std::vector<Place> places;
  for (int i = 0; i < 3; ++i) {
    places.push_back(area_alloc(unit_bytes, cpus));
    ASSERT_NE(places.back().base, nullptr);
  }
  EXPECT_GE(area_usage().chunks, 3u);
  const std::size_t chunks = area_usage().chunks;
  for (const Place place : places) area_free(place, unit_bytes, cpus);
  const Place again = area_alloc(unit_bytes, cpus);
  EXPECT_EQ(area_usage().chunks, chunks);
  area_free(again, unit_bytes, cpus);
}

TEST_F(AreaTest, AMachineWithMoreCpusGetsUnitsForAllOfThem) {
  const Place place = area_alloc(64, 300);
  ASSERT_NE(place.base, nullptr);
  unit_of(place.base, 299)[63] = 1;
  EXPECT_EQ(unit_of(place.dummy, 299)[63], 0);
  area_free(place, 64, 300);
}

TEST_F(AreaTest, TheDummyCannotBeWritten) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  char* const dummy = area_dummy(cpus);
  ASSERT_NE(dummy, nullptr);
  EXPECT_EQ(dummy[unit_bytes - 1], 0);
  EXPECT_DEATH(*static_cast<volatile char*>(dummy) = 1, "");
}

}  // namespace
}  // namespace kmem::percpu
