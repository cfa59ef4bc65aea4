// PointerArray: the window by hand, then all operations at random against a deque.
#include <algorithm>
#include <deque>
#include <random>

#include "tests/sequences/fixture.h"

namespace kmem::percpu {
namespace {

template <class P>
class ArrayOperations : public PolicyTest<P> {
 protected:
  std::size_t put(const std::vector<void*>& in) {
    return this->cpus.template put<array>(in.data(), in.size(), this->node);
  }
  std::vector<void*> take(std::size_t n) {
    std::vector<void*> out(n);
    out.resize(this->cpus.template take<array>(out.data(), n));
    return out;
  }
  std::vector<void*> take_oldest(std::size_t n) {
    std::vector<void*> out(n);
    out.resize(this->cpus.template take_oldest<array>(out.data(), n));
    return out;
  }
  Push push(void* object) { return this->cpus.template push<array>(object, this->node); }
  const PointerArray& window() { return this->cpus.peek(this->cpus.cpu()).array; }
};
TYPED_TEST_SUITE(ArrayOperations, AllPolicies, PolicyNames);

TYPED_TEST(ArrayOperations, PopTakesTheNewestAndMarksTheArrayTouched) {
  EXPECT_EQ(this->cpus.template pop<array>(), nullptr);
  EXPECT_EQ(this->window().touched, 0u);
  ASSERT_EQ(this->push(this->object(0)), Push::done);
  ASSERT_EQ(this->push(this->object(1)), Push::done);
  EXPECT_EQ(this->cpus.template pop<array>(), this->object(1));
  EXPECT_EQ(this->window().touched, 1u);
  EXPECT_EQ(this->cpus.template pop<array>(), this->object(0));
  EXPECT_EQ(this->cpus.template pop<array>(), nullptr);
}

TYPED_TEST(ArrayOperations, PushRefusesWhenFullAndOtherNodes) {
  for (std::size_t i = 0; i < test_limit; ++i) ASSERT_EQ(this->push(this->object(i)), Push::done);
  EXPECT_EQ(this->push(this->object(99)), Push::refused);
  ASSERT_NE(this->cpus.template pop<array>(), nullptr);
  EXPECT_EQ(this->cpus.template push<array>(this->object(99), this->node + 1), Push::refused);
  EXPECT_EQ(this->push(this->object(99)), Push::done);
}

TYPED_TEST(ArrayOperations, PushingTheNewestAgainIsADuplicateOnlyInsideTheWindow) {
  ASSERT_EQ(this->push(this->object(0)), Push::done);
  EXPECT_EQ(this->push(this->object(0)), Push::duplicate);
  // The entry below an empty window is a memory of what was flushed, not a member.
  ASSERT_EQ(this->take_oldest(1), this->some(0, 1));
  EXPECT_EQ(this->window().bottom, 1u);
  EXPECT_EQ(this->push(this->object(0)), Push::done);
}

TYPED_TEST(ArrayOperations, PutAndTakeKeepTheOrderForEveryLength) {
  for (std::size_t n = 1; n <= test_limit; ++n) {
    ASSERT_EQ(this->put(this->some(100, n)), n);
    EXPECT_EQ(this->window().top, n);
    ASSERT_EQ(this->take(n), this->some(100, n)) << n;
  }
}

TYPED_TEST(ArrayOperations, PutFillsWhatRoomThereIs) {
  EXPECT_EQ(this->put(this->some(0, test_limit - 3)), test_limit - 3);
  EXPECT_EQ(this->put(this->some(100, 8)), 3u);
  EXPECT_EQ(this->put(this->some(120, 1)), 0u);
  EXPECT_EQ(this->take(4), (std::vector<void*>{this->object(test_limit - 4), this->object(100),
                                               this->object(101), this->object(102)}));
}

TYPED_TEST(ArrayOperations, TakeGivesWhatThereIs) {
  EXPECT_TRUE(this->take(4).empty());
  EXPECT_EQ(this->window().touched, 0u);
  ASSERT_EQ(this->put(this->some(0, 3)), 3u);
  EXPECT_TRUE(this->take(0).empty());
  EXPECT_EQ(this->take(7), this->some(0, 3));
  EXPECT_EQ(this->window().touched, 1u);
}

TYPED_TEST(ArrayOperations, OtherNodesObjectsAreNotPut) {
  const auto in = this->some(0, 3);
  EXPECT_EQ(this->cpus.template put<array>(in.data(), in.size(), this->node + 1), 0u);
}

TYPED_TEST(ArrayOperations, TakingTheOldestMovesTheWindowUpToTheCapacity) {
  ASSERT_EQ(this->put(this->some(0, test_limit)), test_limit);
  EXPECT_EQ(this->take_oldest(10), this->some(0, 10));
  EXPECT_EQ(this->window().bottom, 10u);
  EXPECT_EQ(this->window().end, 10 + test_limit);
  EXPECT_EQ(this->put(this->some(100, 30)), 10u);
  EXPECT_EQ(this->take_oldest(24), [&] {
    auto all = this->some(10, 14);
    const auto later = this->some(100, 10);
    all.insert(all.end(), later.begin(), later.end());
    return all;
  }());
  EXPECT_EQ(this->window().bottom, 34u);
  EXPECT_EQ(this->window().end, 34 + test_limit);
  ASSERT_EQ(this->put(this->some(0, test_limit)), test_limit);
  EXPECT_EQ(this->take_oldest(10), this->some(0, 10));
  EXPECT_EQ(this->window().end, test_capacity);
}

TYPED_TEST(ArrayOperations, MakeRoomMovesTheWindowDownWhereItDoesNotOverlap) {
  EXPECT_TRUE(this->cpus.template make_room<array>());
  ASSERT_EQ(this->put(this->some(0, test_limit)), test_limit);
  EXPECT_FALSE(this->cpus.template make_room<array>());
  ASSERT_EQ(this->take_oldest(5).size(), 5u);
  EXPECT_TRUE(this->cpus.template make_room<array>());  // 19 entries at 5: they would overlap
  EXPECT_EQ(this->window().bottom, 5u);
  ASSERT_EQ(this->take_oldest(12).size(), 12u);
  EXPECT_TRUE(this->cpus.template make_room<array>());
  EXPECT_EQ(this->window().bottom, 0u);
  EXPECT_EQ(this->window().top, 7u);
  EXPECT_EQ(this->window().end, test_limit);
  EXPECT_EQ(this->take(9), this->some(17, 7));
}

TYPED_TEST(ArrayOperations, MakeRoomOfAnEmptyWindowStartsAnew) {
  ASSERT_EQ(this->put(this->some(0, 8)), 8u);
  ASSERT_EQ(this->take_oldest(8).size(), 8u);
  EXPECT_TRUE(this->cpus.template make_room<array>());
  EXPECT_EQ(this->window().bottom, 0u);
  EXPECT_EQ(this->window().top, 0u);
}

TYPED_TEST(ArrayOperations, FastFormsServeOrRefuseButNeverLose) {
  const bool serves = this->fast_forms_serve();
  EXPECT_EQ((this->cpus.template fast_push<array>(this->object(0), this->node)),
            serves ? Push::done : Push::refused);
  const auto in = this->some(1, 3);
  EXPECT_EQ(this->cpus.template fast_put<array>(in.data(), 3, this->node), serves ? 3u : 0u);
  void* out[2];
  EXPECT_EQ(this->cpus.template fast_take<array>(out, 2), serves ? 2u : 0u);
  EXPECT_EQ(this->cpus.template fast_pop<array>(), serves ? this->object(1) : nullptr);
}

TYPED_TEST(ArrayOperations, EverythingRefusesDuringADrain) {
  ASSERT_EQ(this->put(this->some(0, 6)), 6u);
  this->cpus.drain([&](TestState& state, unsigned cpu) {
    EXPECT_EQ(this->cpus.template pop<array>(), nullptr);
    EXPECT_EQ(this->push(this->object(9)), Push::refused);
    EXPECT_EQ(this->put(this->some(9, 2)), 0u);
    EXPECT_TRUE(this->take(2).empty());
    EXPECT_TRUE(this->take_oldest(2).empty());
    EXPECT_FALSE(this->cpus.template make_room<array>());
    EXPECT_EQ(state.array.top, cpu == this->cpus.cpu() ? 6u : 0u);
  });
  EXPECT_EQ(this->take(9), this->some(0, 6));
}

TYPED_TEST(ArrayOperations, ResizingVisitsTheOldSlotsAndServesFromTheNew) {
  ASSERT_EQ(this->put(this->some(0, 6)), 6u);
  constexpr std::uint32_t large = 200;
  const std::size_t bytes = sizeof(TestState) + (large - test_capacity) * sizeof(void*);
  std::size_t found = 0;
  ASSERT_TRUE(this->cpus.resize(
      [&](TestState& state, unsigned) {
        found += state.array.top - state.array.bottom;
        EXPECT_EQ(this->push(this->object(9)), Push::refused);
      },
      [&](TestState& state, unsigned, int node) {
        EXPECT_EQ(state.header.live, 1u);
        EXPECT_EQ(state.array.top, 0u);
        state.array.limit = state.array.end = state.array.capacity = large;
        state.array.node = static_cast<std::uint64_t>(node);
      },
      bytes));
  EXPECT_EQ(found, 6u);
  EXPECT_EQ(this->put(this->some(0, 250)), large);
  EXPECT_EQ(this->take(250), this->some(0, large));
}

// The model: a deque, newest at the back.
TYPED_TEST(ArrayOperations, AgreeWithAModelOverRandomOperations) {
  const unsigned seed = 987;
  std::mt19937 random(seed);
  std::deque<void*> model;
  std::vector<void*> free_objects = this->some(0, 200);
  for (int step = 0; step < 20000; ++step) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
    const std::size_t n = random() % 12;
    const std::size_t room = this->window().end - this->window().top;
    std::vector<void*> got;
    switch (random() % 6) {
      case 0:
      case 1: {
        if (free_objects.size() < n) break;
        std::vector<void*> in(free_objects.end() - static_cast<long>(n), free_objects.end());
        const std::size_t k = this->put(in);
        ASSERT_EQ(k, std::min(n, room));
        model.insert(model.end(), in.begin(), in.begin() + static_cast<long>(k));
        free_objects.erase(free_objects.end() - static_cast<long>(n),
                           free_objects.end() - static_cast<long>(n - k));
        break;
      }
      case 2:
        if (room == 0 || free_objects.empty()) break;
        ASSERT_EQ(this->push(free_objects.back()), Push::done);
        model.push_back(free_objects.back());
        free_objects.pop_back();
        break;
      case 3:
        got = this->take(n);
        ASSERT_EQ(got.size(), std::min(n, model.size()));
        ASSERT_TRUE(std::equal(got.rbegin(), got.rend(), model.rbegin()));
        model.resize(model.size() - got.size());
        break;
      case 4:
        got = this->take_oldest(n);
        ASSERT_EQ(got.size(), std::min(n, model.size()));
        ASSERT_TRUE(std::equal(got.begin(), got.end(), model.begin()));
        model.erase(model.begin(), model.begin() + static_cast<long>(got.size()));
        break;
      case 5:
        ASSERT_EQ(this->cpus.template make_room<array>(), model.size() < test_limit);
        break;
    }
    free_objects.insert(free_objects.end(), got.begin(), got.end());
    ASSERT_EQ(this->window().top - this->window().bottom, model.size());
  }
}

}  // namespace
}  // namespace kmem::percpu
