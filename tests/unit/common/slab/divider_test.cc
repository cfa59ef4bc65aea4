// ObjectDivider: an offset leads to the object that starts there, and no other offset does.
#include <gtest/gtest.h>

#include "common/slab/owned.h"

namespace {

using kmem::ObjectDivider;

constexpr std::uint32_t sizes[] = {1,      7,      8,       12,        24,       96,      104,
                                   192,    256,    1000,    1864,      4096,     4104,    12'288,
                                   65'528, 65'536, 262'136, 1'000'008, 24 << 16, 1 << 21, 1 << 22};

TEST(ObjectDivider, NumbersTheObjectsOfTheLargestSlab) {
  for (const std::uint32_t size : sizes) {
    const ObjectDivider divider(size);
    const std::uint64_t objects = (std::uint64_t{1} << 22) / size;
    for (std::uint64_t i = 0; i < objects; ++i) ASSERT_EQ(divider.number(i * size), i) << size;
  }
}

TEST(ObjectDivider, NoObjectStartsAnywhereElse) {
  constexpr std::uint64_t slab_bytes = std::uint64_t{1} << 22;
  for (const std::uint32_t size : sizes) {
    const ObjectDivider divider(size);
    const std::uint64_t objects = slab_bytes / size;
    for (std::uint64_t offset = 0; offset < slab_bytes; ++offset)
      ASSERT_EQ(divider.number(offset) < objects, offset % size == 0 && offset / size < objects)
          << size << " at " << offset;
  }
}

TEST(ObjectDivider, NorBelowTheFirstOrFarAbove) {
  for (const std::uint32_t size : sizes) {
    const ObjectDivider divider(size);
    const std::uint64_t objects = (std::uint64_t{1} << 22) / size;
    for (std::uint64_t distance = 1; distance <= (1 << 22); ++distance)
      ASSERT_GE(divider.number(0 - distance), objects) << size << " below by " << distance;
    for (unsigned bit = 22; bit < 64; ++bit) {
      const std::uint64_t multiple = (std::uint64_t{1} << bit) / size * size;
      ASSERT_GE(divider.number(multiple), multiple / size) << size << " at 2^" << bit;
      ASSERT_GE(divider.number(std::uint64_t{1} << bit), objects) << size << " at 2^" << bit;
    }
  }
}

TEST(ObjectRange, HoldsWhatStartsInIt) {
  alignas(64) static const char slab[4096] = {};
  const ObjectDivider divider(96);
  const kmem::ObjectRange range{slab + 64, 40};
  EXPECT_TRUE(range.holds(slab + 64, divider));
  EXPECT_TRUE(range.holds(slab + 64 + 39 * 96, divider));
  EXPECT_FALSE(range.holds(slab + 64 + 40 * 96, divider));
  EXPECT_FALSE(range.holds(slab, divider));
  EXPECT_FALSE(range.holds(slab + 65, divider));
}

}  // namespace
