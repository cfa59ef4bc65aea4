// The fixture of every suite: one world a test, a silent library unless the test takes its lines,
// no failure injection left over, and nothing live that the test did not destroy.
#pragma once

#include <gtest/gtest.h>

#include "common/pages/pages.h"
#include "tests/support/log_capture.h"
#include "tests/support/pattern.h"
#include "tests/support/random.h"
#include "tests/support/world.h"

namespace kmem::test {

class WorldTest : public ::testing::TestWithParam<const World*> {
 protected:
  void SetUp() override {
    pages::fail_allocation(0);
    pages::set_limit_bytes(0);
    world().enter_cpu(0);
  }
  void TearDown() override {
    pages::fail_allocation(0);
    pages::set_limit_bytes(0);
    const auto lines = log_.take();
    EXPECT_TRUE(lines.empty()) << "the library said:\n" << joined(lines);
  }

  const World& world() const { return *GetParam(); }
  bool is_slob() const { return world().backend() == "slob"; }

  // A cache that is no alias of any other; the test fails if there is none.
  CachePtr make(CacheSpec spec) {
    if (*spec.name == 0) spec.name = "test";
    spec.flags |= slab_flag::no_merge;
    auto cache = world().create(spec);
    EXPECT_NE(cache, nullptr);
    return cache;
  }
  CachePtr make(std::size_t bytes, slab_flags_t flags = 0) {
    return make(CacheSpec{.object_bytes = bytes, .flags = flags});
  }

  LogCapture log_;
};

inline std::string world_name(const ::testing::TestParamInfo<const World*>& info) {
  return info.param->name();
}

#define KMEM_ALL_WORLDS(Suite)                                                      \
  INSTANTIATE_TEST_SUITE_P(All, Suite, ::testing::ValuesIn(::kmem::test::worlds()), \
                           ::kmem::test::world_name);                               \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite)

}  // namespace kmem::test
