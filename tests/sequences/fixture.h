// A cache's per-CPU State with one field of each shape, objects to put in it, and the policies to
// run each test with. A test's thread stays on one CPU, so that operations follow each other on one
// slot.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/percpu/policies.h"

namespace kmem::percpu {

inline constexpr std::size_t test_capacity = 64, test_limit = 24;

struct TestState {
  SlotHeader header;
  OwnedList owned;
  CountedList counted;
  PointerArray array;
  void* entries[test_capacity];
};
inline constexpr Field<OwnedList> owned{offsetof(TestState, owned)};
inline constexpr Field<CountedList> counted{offsetof(TestState, counted)};
inline constexpr Field<PointerArray> array{offsetof(TestState, array)};

// Where the link lies in an object: not at its start, so that a confusion shows.
inline constexpr std::size_t test_link = 24;

struct alignas(64) TestObject {
  char bytes[64];
};

inline void* link_of(void* object) { return exclusive::load_link(object, test_link); }

// Links objects[0] -> objects[1] -> ...; the last one's link is left for push to write.
inline void chain(const std::vector<void*>& objects) {
  for (std::size_t i = 0; i + 1 < objects.size(); ++i) {
    exclusive::store_link(objects[i], test_link, objects[i + 1]);
  }
}

class PinnedToOneCpu {
 public:
  PinnedToOneCpu() {
    CPU_ZERO(&old_);
    EXPECT_EQ(sched_getaffinity(0, sizeof(old_), &old_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~PinnedToOneCpu() { sched_setaffinity(0, sizeof(old_), &old_); }

 private:
  cpu_set_t old_;
};

template <class Policy>
class PolicyTest : public testing::Test {
 protected:
  using Cpus = typename Policy::template Cpus<TestState>;
  static constexpr bool is_rseq = std::is_same_v<Policy, Rseq>;

  void SetUp() override {
    ASSERT_TRUE(cpus.create([](TestState& state, unsigned, int node) {
      EXPECT_EQ(state.header.live, 1u);
      EXPECT_EQ(state.owned.head, nullptr);
      state.counted.limit = test_limit;
      state.counted.node = state.array.node = static_cast<std::uint64_t>(node);
      state.array.limit = state.array.end = test_limit;
      state.array.capacity = test_capacity;
    }));
    node = static_cast<std::uint64_t>(cpus.node());
  }
  void TearDown() override { cpus.destroy(); }

  void* object(std::size_t i) { return &objects.at(i); }
  std::vector<void*> some(std::size_t first, std::size_t n) {
    std::vector<void*> run;
    for (std::size_t i = first; i < first + n; ++i) run.push_back(object(i));
    return run;
  }
  // The bare forms work: not in the fallback of Rseq, where they refuse.
  static bool fast_forms_serve() { return !is_rseq || rseq_available(); }

  PinnedToOneCpu pinned;
  std::vector<TestObject> objects = std::vector<TestObject>(256);
  Cpus cpus;
  std::uint64_t node = 0;
};

struct PolicyNames {
  template <class Policy>
  static std::string GetName(int) {
    return Policy::name;
  }
};
using AllPolicies = testing::Types<Rseq, Locked, Virtual, Atomic>;

}  // namespace kmem::percpu
