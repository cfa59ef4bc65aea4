// OwnedList and CountedList: each operation by hand, then all of them at random against a vector.
#include <random>

#include "tests/sequences/fixture.h"

namespace kmem::percpu {
namespace {

template <class P>
class ListOperations : public PolicyTest<P> {
 protected:
  void* slab_a = &slabs_[0];
  void* slab_b = &slabs_[1];

  Push push_owned(void* first, void* last, void* owner) {
    return this->cpus.template push<owned>(first, last, owner, test_link);
  }
  Push push_counted(const std::vector<void*>& run, std::uint64_t node) {
    chain(run);
    return this->cpus.template push<counted>(run.front(), run.back(), run.size(), node, test_link);
  }
  bool own(void* owner) {
    return this->cpus.template cas<owned>({nullptr, nullptr}, {nullptr, owner});
  }

 private:
  char slabs_[2];
};
TYPED_TEST_SUITE(ListOperations, AllPolicies, PolicyNames);

TYPED_TEST(ListOperations, OwnedListIsLastInFirstOut) {
  ASSERT_TRUE(this->own(this->slab_a));
  EXPECT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_a), Push::done);
  EXPECT_EQ(this->push_owned(this->object(1), this->object(1), this->slab_a), Push::done);
  EXPECT_EQ(link_of(this->object(1)), this->object(0));
  EXPECT_EQ(this->cpus.template pop<owned>(test_link), this->object(1));
  EXPECT_EQ(this->cpus.template pop<owned>(test_link), this->object(0));
  EXPECT_EQ(this->cpus.template pop<owned>(test_link), nullptr);
}

TYPED_TEST(ListOperations, OwnedListRefusesAnotherOwnersObject) {
  ASSERT_TRUE(this->own(this->slab_a));
  EXPECT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_b), Push::refused);
  EXPECT_EQ(this->cpus.template pop<owned>(test_link), nullptr);
}

TYPED_TEST(ListOperations, OwnedListWithoutOwnerRefuses) {
  EXPECT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_a), Push::refused);
}

TYPED_TEST(ListOperations, PushingTheHeadAgainIsADuplicate) {
  ASSERT_TRUE(this->own(this->slab_a));
  ASSERT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_a), Push::done);
  EXPECT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_a), Push::duplicate);
  ASSERT_EQ(this->push_counted({this->object(1)}, this->node), Push::done);
  EXPECT_EQ(this->push_counted({this->object(1)}, this->node), Push::duplicate);
  EXPECT_EQ(this->cpus.template read<counted>().second, reinterpret_cast<void*>(1));
}

TYPED_TEST(ListOperations, AChainGoesInFrontAndComesOutInOrder) {
  ASSERT_TRUE(this->own(this->slab_a));
  const auto run = this->some(0, 3);
  chain(run);
  ASSERT_EQ(this->push_owned(this->object(9), this->object(9), this->slab_a), Push::done);
  ASSERT_EQ(this->push_owned(run.front(), run.back(), this->slab_a), Push::done);
  for (void* object : run) EXPECT_EQ(this->cpus.template pop<owned>(test_link), object);
  EXPECT_EQ(this->cpus.template pop<owned>(test_link), this->object(9));
}

TYPED_TEST(ListOperations, CasReplacesTheWholePairOrNothing) {
  void* const one = this->object(0);
  ASSERT_TRUE(this->own(this->slab_a));
  EXPECT_FALSE(this->own(this->slab_b));
  ASSERT_EQ(this->push_owned(one, one, this->slab_a), Push::done);
  EXPECT_FALSE((this->cpus.template cas<owned>({one, this->slab_b}, {nullptr, nullptr})));
  EXPECT_FALSE((this->cpus.template cas<owned>({nullptr, this->slab_a}, {nullptr, nullptr})));
  EXPECT_EQ(this->cpus.template read<owned>(), (Pair{one, this->slab_a}));
  EXPECT_TRUE((this->cpus.template cas<owned>({one, this->slab_a}, {nullptr, this->slab_b})));
  EXPECT_EQ(this->cpus.template read<owned>(), (Pair{nullptr, this->slab_b}));
  EXPECT_EQ(this->push_owned(one, one, this->slab_b), Push::done);
}

TYPED_TEST(ListOperations, CountedListCountsAndHoldsItsLimit) {
  EXPECT_EQ(this->push_counted(this->some(0, test_limit - 1), this->node), Push::done);
  EXPECT_EQ(this->push_counted(this->some(40, 2), this->node), Push::refused);
  EXPECT_EQ(this->push_counted(this->some(40, 1), this->node), Push::done);
  EXPECT_EQ(this->cpus.template read<counted>(),
            (Pair{this->object(40), reinterpret_cast<void*>(test_limit)}));
  EXPECT_EQ(this->cpus.template pop<counted>(test_link), this->object(40));
  EXPECT_EQ(this->cpus.template read<counted>().second, reinterpret_cast<void*>(test_limit - 1));
}

TYPED_TEST(ListOperations, CountedListRefusesAnotherNodesObjects) {
  EXPECT_EQ(this->push_counted({this->object(0)}, this->node + 1), Push::refused);
}

TYPED_TEST(ListOperations, TakeStopsAtNAndAtTheEnd) {
  void* out[8] = {};
  EXPECT_EQ(this->cpus.template take<counted>(out, 8, test_link), 0u);
  ASSERT_EQ(this->push_counted(this->some(0, 5), this->node), Push::done);
  EXPECT_EQ(this->cpus.template take<counted>(out, 0, test_link), 0u);
  EXPECT_EQ(this->cpus.template take<counted>(out, 2, test_link), 2u);
  EXPECT_EQ(out[0], this->object(0));
  EXPECT_EQ(out[1], this->object(1));
  EXPECT_EQ(out[2], nullptr);
  EXPECT_EQ(this->cpus.template take<counted>(out, 8, test_link), 3u);
  EXPECT_EQ(out[2], this->object(4));
  EXPECT_EQ(this->cpus.template read<counted>(), (Pair{nullptr, nullptr}));
}

TYPED_TEST(ListOperations, FastFormsServeOrRefuseButNeverLose) {
  ASSERT_TRUE(this->own(this->slab_a));
  void* const one = this->object(0);
  const Push pushed = this->cpus.template fast_push<owned>(one, one, this->slab_a, test_link);
  EXPECT_EQ(pushed, this->fast_forms_serve() ? Push::done : Push::refused);
  void* const popped = this->cpus.template fast_pop<owned>(test_link);
  EXPECT_EQ(popped, this->fast_forms_serve() ? one : nullptr);
  EXPECT_EQ(this->cpus.template read<owned>(), (Pair{nullptr, this->slab_a}));
}

TYPED_TEST(ListOperations, EverythingRefusesDuringADrainAndServesAfterIt) {
  ASSERT_TRUE(this->own(this->slab_a));
  ASSERT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_a), Push::done);
  ASSERT_EQ(this->push_counted({this->object(1)}, this->node), Push::done);
  std::vector<void*> found;
  unsigned visited = 0;
  this->cpus.drain([&](TestState& state, unsigned cpu) {
    EXPECT_EQ(cpu, visited++);
    EXPECT_EQ(this->cpus.template pop<owned>(test_link), nullptr);
    EXPECT_EQ(this->cpus.template pop<counted>(test_link), nullptr);
    EXPECT_EQ(this->push_owned(this->object(2), this->object(2), this->slab_a), Push::refused);
    EXPECT_EQ(this->push_counted({this->object(2)}, this->node), Push::refused);
    EXPECT_EQ(this->cpus.template read<owned>(), (Pair{nullptr, nullptr}));
    EXPECT_FALSE(this->own(this->slab_a));
    void* out[4];
    EXPECT_EQ(this->cpus.template take<owned>(out, 4, test_link), 0u);
    for (const Pair pair :
         {this->cpus.template detach<owned>(state), this->cpus.template detach<counted>(state)}) {
      if (pair.first != nullptr) found.push_back(pair.first);
    }
  });
  EXPECT_EQ(visited, this->cpus.count());
  EXPECT_EQ(found, this->some(0, 2));
  EXPECT_TRUE(this->own(this->slab_b));
  EXPECT_EQ(this->push_owned(this->object(0), this->object(0), this->slab_b), Push::done);
}

// The model: a list is a vector whose last element is the head.
TYPED_TEST(ListOperations, AgreeWithAModelOverRandomOperations) {
  const unsigned seed = 20240607;
  std::mt19937 random(seed);
  ASSERT_TRUE(this->own(this->slab_a));
  std::vector<void*> model_owned, model_counted, free_objects = this->some(0, 200);
  for (int step = 0; step < 20000; ++step) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
    const bool use_owned = random() % 2 == 0;
    auto& model = use_owned ? model_owned : model_counted;
    const std::size_t n = 1 + random() % 5;
    void* out[8];
    std::size_t got = 0;
    switch (random() % 4) {
      case 0:
      case 1: {
        if (free_objects.size() < n) break;
        std::vector<void*> run(free_objects.end() - static_cast<long>(n), free_objects.end());
        chain(run);
        const bool fits = use_owned || model.size() + n <= test_limit;
        const Push pushed = use_owned ? this->push_owned(run.front(), run.back(), this->slab_a)
                                      : this->push_counted(run, this->node);
        ASSERT_EQ(pushed, fits ? Push::done : Push::refused);
        if (!fits) break;
        free_objects.resize(free_objects.size() - n);
        model.insert(model.end(), run.rbegin(), run.rend());
        break;
      }
      case 2:
        out[0] = use_owned ? this->cpus.template pop<owned>(test_link)
                           : this->cpus.template pop<counted>(test_link);
        ASSERT_EQ(out[0], model.empty() ? nullptr : model.back());
        got = out[0] != nullptr;
        break;
      case 3:
        got = use_owned ? this->cpus.template take<owned>(out, n, test_link)
                        : this->cpus.template take<counted>(out, n, test_link);
        ASSERT_EQ(got, std::min(n, model.size()));
        break;
    }
    for (std::size_t i = 0; i < got; ++i) {
      ASSERT_EQ(out[i], model.back());
      model.pop_back();
      free_objects.push_back(out[i]);
    }
    const Pair pair = this->cpus.template read<counted>();
    ASSERT_EQ(pair.first, model_counted.empty() ? nullptr : model_counted.back());
    ASSERT_EQ(pair.second, reinterpret_cast<void*>(model_counted.size()));
  }
}

}  // namespace
}  // namespace kmem::percpu
