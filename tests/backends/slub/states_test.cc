// The states of a slab, and what moves it from one to the next.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/backends/slub/fixture.h"

namespace kmem::slub {
namespace {

class SlubStates : public VirtualSlub {};

TEST_F(SlubStates, TheFirstAllocationFreezesANewSlab) {
  create(256);
  live_.push_back(alloc());
  Page* const slab = slab_of(live_[0]);
  EXPECT_TRUE(state_of(slab).frozen());
  EXPECT_EQ(state_of(slab).inuse(), objects());
  EXPECT_EQ(cache_.peek(0).list.owner, slab);
  EXPECT_EQ(count(Event::alloc_slab), 1u);
  for (unsigned i = 1; i < objects(); ++i) live_.push_back(alloc());
  EXPECT_EQ(count(Event::alloc_slab), 1u);
  EXPECT_EQ(count(Event::alloc_fastpath), objects() - 1);
  live_.push_back(alloc());
  EXPECT_EQ(count(Event::alloc_slab), 2u);
  EXPECT_FALSE(state_of(slab).frozen()) << "a full slab is nobody's";
  expect_valid();
}

TEST_F(SlubStates, ObjectsComeInOrderOfAddressAndBackInReverse) {
  create(64);
  void* const a = alloc();
  void* const b = alloc();
  EXPECT_EQ(static_cast<char*>(b) - static_cast<char*>(a), 64);
  free(a);
  free(b);
  EXPECT_EQ(alloc(), b);
  EXPECT_EQ(alloc(), a);
  keep({a, b});
}

TEST_F(SlubStates, ARemoteFreeGoesToTheFrozenSlabAndIsFoundByItsOwner) {
  create(256);
  void* const object = alloc();
  live_.push_back(alloc());
  Page* const slab = slab_of(object);
  on_cpu(1);
  free(object);
  EXPECT_EQ(count(Event::free_frozen), 1u);
  EXPECT_EQ(count(Event::free_remote), 1u);
  EXPECT_TRUE(state_of(slab).frozen());
  EXPECT_EQ(state_of(slab).free_list, object);
  EXPECT_EQ(state_of(slab).inuse(), objects() - 1);
  expect_valid();

  on_cpu(0);
  for (unsigned i = 2; i < objects(); ++i) live_.push_back(alloc());
  EXPECT_EQ(cache_.peek(0).list.head, nullptr);
  live_.push_back(alloc());
  EXPECT_EQ(live_.back(), object);
  EXPECT_EQ(count(Event::alloc_refill), 1u);
  EXPECT_TRUE(state_of(slab).frozen());
  expect_valid();
}

TEST_F(SlubStates, AFullSlabGoesToTheCpuThatFreesItsFirstObject) {
  create(256);
  auto filled = fill_slabs(1);
  live_.push_back(alloc());  // lets go of the filled slab
  on_cpu(1);
  free(filled[0].back());
  filled[0].pop_back();
  Page* const slab = slab_of(filled[0][0]);
  EXPECT_EQ(cache_.peek(1).partial.list.head(), slab);
  EXPECT_EQ(cache_.peek(1).partial.list.count(), 1u);
  EXPECT_FALSE(state_of(slab).frozen()) << "frozen only when a CPU takes it";
  EXPECT_EQ(cache_.partial_slabs(slab->node), 0u);
  EXPECT_EQ(count(Event::cpu_partial_free), 1u);
  expect_valid();
  live_.push_back(alloc());  // CPU 1 allocates from the slab that it collected
  EXPECT_EQ(slab_of(live_.back()), slab);
  EXPECT_TRUE(state_of(slab).frozen());
  EXPECT_EQ(count(Event::cpu_partial_alloc), 1u);
  keep(filled[0]);
}

TEST_F(SlubStates, ACpuPartialOverflowMovesTheWholeListToTheNode) {
  create(256);
  const unsigned limit = cache_.geometry().cpu_partial_slabs;
  auto filled = fill_slabs(limit + 1);
  live_.push_back(alloc());
  on_cpu(1);
  const int node = slab_of(filled[0][0])->node;
  for (unsigned i = 0; i <= limit; ++i) {
    EXPECT_EQ(cache_.peek(1).partial.list.count(), i);
    EXPECT_EQ(cache_.partial_slabs(node), 0u);
    free(filled[i].back());
    filled[i].pop_back();
  }
  EXPECT_EQ(cache_.peek(1).partial.list.count(), 1u);
  EXPECT_EQ(cache_.partial_slabs(node), limit);
  EXPECT_EQ(count(Event::cpu_partial_drain), 1u);
  expect_valid();
  for (auto& slab : filled) keep(slab);
}

TEST_F(SlubStates, ARefillFromTheNodeTakesHalfACpuPartialListMore) {
  create(256);
  const unsigned limit = cache_.geometry().cpu_partial_slabs;
  const unsigned extra = limit / 2 + 1;
  auto filled = fill_slabs(limit + 2);
  for (auto& slab : filled) {
    free(slab.back());
    slab.pop_back();
    keep(slab);
  }
  cache_.flush_all();
  EXPECT_EQ(cache_.partial_slabs(0), limit + 2);
  on_cpu(2);
  live_.push_back(alloc());
  EXPECT_EQ(cache_.partial_slabs(0), limit + 2 - 1 - extra);
  EXPECT_EQ(cache_.peek(2).partial.list.count(), extra);
  EXPECT_EQ(count(Event::alloc_from_partial), 1u);
  EXPECT_EQ(count(Event::cpu_partial_node), extra);
  expect_valid();
}

TEST_F(SlubStates, ANodeKeepsMinPartialEmptySlabsAndShrinkNone) {
  create(256);
  const unsigned kept = cache_.geometry().min_partial;
  auto filled = fill_slabs(4 * kept);
  for (auto& slab : filled) release(slab);
  cache_.flush_all();
  expect_valid();
  EXPECT_EQ(cache_.partial_slabs(0), kept);
  EXPECT_EQ(cache_.usage().slabs, kept);
  EXPECT_EQ(cache_.usage().active_objects, 0u);
  EXPECT_FALSE(cache_.shrink());
  EXPECT_EQ(cache_.usage().slabs, 0u);
  EXPECT_EQ(cache_.usage().slab_bytes, 0u);
}

TEST_F(SlubStates, TheLastObjectOfAListedSlabDiscardsIt) {
  create(256);
  const unsigned kept = cache_.geometry().min_partial;
  auto filled = fill_slabs(kept + 3);
  std::vector<void*> last;
  for (auto& slab : filled) {
    last.push_back(slab.back());
    slab.pop_back();
    release(slab);
  }
  cache_.flush_all();
  ASSERT_EQ(cache_.partial_slabs(0), kept + 3);
  const std::uint64_t before = count(Event::free_slab);
  for (unsigned i = 0; i < last.size(); ++i) {
    free(last[i]);
    EXPECT_EQ(count(Event::free_slab) - before, std::min(i + 1, 4u));
    expect_valid();
  }
  EXPECT_EQ(cache_.partial_slabs(0), kept - 1u);
}

TEST_F(SlubStates, ShrinkPutsTheFullestFirst) {
  create(256);
  auto filled = fill_slabs(3);
  const unsigned frees[] = {3, 1, 2};
  Page* slabs[3];
  for (unsigned i = 0; i < 3; ++i) {
    slabs[i] = slab_of(filled[i][0]);
    for (unsigned k = 0; k < frees[i]; ++k) {
      free(filled[i].back());
      filled[i].pop_back();
    }
    keep(filled[i]);
  }
  EXPECT_TRUE(cache_.shrink());
  expect_valid();
  for (Page* slab : {slabs[1], slabs[2], slabs[0]}) {
    for (unsigned k = 0; k < objects() - state_of(slab).inuse(); ++k) {
      live_.push_back(alloc());
      EXPECT_EQ(slab_of(live_.back()), slab);
      break;
    }
    cache_.flush_all();
    // Back at the head of its node's list, so take all it has to reach the next.
    while (state_of(slab).free_list != nullptr || cache_.peek(0).list.head != nullptr) {
      live_.push_back(alloc());
    }
  }
}

TEST_F(SlubStates, FlushGivesEveryCpuSlabBack) {
  create(256);
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    on_cpu(cpu);
    live_.push_back(alloc());
  }
  cache_.flush_all();
  EXPECT_EQ(count(Event::cpuslab_flush), cpus);
  EXPECT_EQ(cache_.partial_slabs(0), cpus);
  for (void* object : live_) {
    EXPECT_FALSE(state_of(slab_of(object)).frozen());
    EXPECT_EQ(state_of(slab_of(object)).inuse(), 1u);
  }
  expect_valid();
}

TEST_F(SlubStates, ShortMemoryFallsBackToTheSmallestOrder) {
  create(2000);
  ASSERT_GT(cache_.geometry().order, cache_.geometry().order_min);
  pages::fail_allocation(1);
  live_.push_back(alloc());
  EXPECT_EQ(count(Event::order_fallback), 1u);
  const Page* slab = slab_of(live_[0]);
  EXPECT_EQ(slab->order, cache_.geometry().order_min);
  EXPECT_EQ(state_of(slab).objects(), pages::block_bytes(slab) / cache_.geometry().slot_bytes);
  for (unsigned i = 0; i < 2 * objects(); ++i) live_.push_back(alloc());
  expect_valid();
}

TEST_F(SlubStates, TheTailOfAShortSlabIsNoObject) {
  create(1500);
  ASSERT_GT(cache_.geometry().order, cache_.geometry().order_min);
  pages::fail_allocation(1);
  live_.push_back(alloc());
  auto* const first = pages::address_of(slab_of(live_[0]));
  const unsigned fit = state_of(slab_of(live_[0])).objects();
  ASSERT_LT(fit, objects());
  void* pointers[8];
  for (unsigned i = 0; i <= fit; ++i) {
    pointers[i] = first + i * cache_.geometry().slot_bytes;
    EXPECT_EQ(cache_.owns(pages::page_of(pointers[i]), pointers[i]), i < fit) << i;
  }
  EXPECT_EQ(cache_.count_owned(fit + 1, pointers), fit);
}

TEST_F(SlubStates, CountOwnedStopsWhereOwnsWouldSayNo) {
  create(104);
  for (unsigned i = 0; i < 3 * objects(); ++i) live_.push_back(alloc());
  int local = 0;
  void* const strangers[] = {&local, nullptr, static_cast<char*>(live_[1]) + 8,
                             pages::address_of(slab_of(live_[0])) + 4092};
  for (void* stranger : strangers) {
    for (std::size_t at : {std::size_t{0}, std::size_t{1}, live_.size() / 2, live_.size() - 1}) {
      std::vector<void*> pointers = live_;
      pointers[at] = stranger;
      EXPECT_EQ(cache_.count_owned(pointers.size(), pointers.data()), at);
    }
  }
  EXPECT_EQ(cache_.count_owned(live_.size(), live_.data()), live_.size());
  EXPECT_EQ(cache_.count_owned(0, nullptr), 0u);
}

TEST_F(SlubStates, NoMemoryIsNullAndLeavesNothing) {
  create(2000);
  pages::fail_allocation(1, true);
  EXPECT_EQ(cache_.alloc(gfp::kernel), nullptr);
  EXPECT_EQ(cache_.alloc_node(gfp::kernel, 0), nullptr);
  pages::fail_allocation(0);
  EXPECT_EQ(cache_.usage().slabs, 0u);
  live_.push_back(alloc());
}

TEST_F(SlubStates, SlabsThatReadersMayLookAtStay) {
  create(256, slab_flag::typesafe_by_rcu);
  auto filled = fill_slabs(20);
  const std::size_t slabs = cache_.usage().slabs;
  for (auto& slab : filled) release(slab);
  EXPECT_TRUE(cache_.shrink());
  EXPECT_EQ(cache_.usage().slabs, slabs);
  EXPECT_EQ(count(Event::free_slab), 0u);
}

unsigned constructed;
void construct(void* object) {
  ++constructed;
  std::fill_n(static_cast<unsigned char*>(object), 100, 0x5c);
}
TEST_F(SlubStates, ConstructorsRunOnceAnObject) {
  constructed = 0;
  create(100, 0, construct);
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 2 * objects(); ++i) live_.push_back(alloc());
    for (void* object : live_) {
      const auto* bytes = static_cast<unsigned char*>(object);
      EXPECT_EQ(std::count(bytes, bytes + 100, 0x5c), 100);
    }
    EXPECT_EQ(constructed, 2 * objects());
    release(live_);
  }
}

TEST_F(SlubStates, AnObjectFreedTwiceInARowIsReported) {
  create(256);
  auto filled = fill_slabs(1);
  live_.push_back(alloc());
  const std::uint64_t before = debug::report_count(debug::Fault::double_free);
  void* const twice = alloc();
  free(twice);
  free(twice);  // head of the CPU's list
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 1);
  free(filled[0][0]);
  free(filled[0][0]);  // head of its slab's list
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), before + 2);
  expect_valid();
  filled[0].erase(filled[0].begin());
  keep(filled[0]);
}

TEST_F(SlubStates, DestroyCountsLiveObjectsAndLeavesThemOwnerless) {
  create(256);
  std::vector<void*> leaked;
  for (unsigned i = 0; i < objects() + 3; ++i) leaked.push_back(alloc());
  EXPECT_EQ(cache_.destroy(), leaked.size());
  created_ = false;
  for (void* object : leaked) {
    EXPECT_EQ(pages::page_of(object)->owner, nullptr);
    std::fill_n(static_cast<char*>(object), 256, 'x');  // still theirs
  }
}

struct Visit {
  std::multiset<void*> seen;
  Cache<percpu::Virtual>* cache;
  bool frees;
};
void visit_object(void* context, void* object, std::size_t offset) {
  auto* visit = static_cast<Visit*>(context);
  Page* const page = pages::page_of(object);
  EXPECT_EQ(pages::address_of(page->head) + offset, object);
  visit->seen.insert(object);
  if (visit->frees) visit->cache->free(object, page);
}
TEST_F(SlubStates, LiveObjectsAreVisitedOnceAndMayBeFreedThen) {
  create(256);
  std::multiset<void*> live;
  for (unsigned i = 0; i < 20 * objects() + 5; ++i) live_.push_back(alloc());
  for (std::size_t i = 0; i < live_.size(); ++i) {
    i % 3 == 0 ? free(live_[i]) : static_cast<void>(live.insert(live_[i]));
  }
  live_.clear();
  for (bool frees : {false, true}) {
    Visit visit{{}, &cache_, frees};
    cache_.for_each_live(visit_object, &visit);
    EXPECT_EQ(visit.seen, live);
    expect_valid();
  }
  EXPECT_FALSE(cache_.shrink());
}

TEST_F(SlubStates, OwnsKnowsObjectsFromTheirInsidesAndNeighbours) {
  create(104);
  auto* const object = static_cast<char*>(alloc());
  live_.push_back(object);
  auto owns = [this](const char* p) { return cache_.owns(pages::page_of(p), p); };
  EXPECT_TRUE(owns(object));
  EXPECT_TRUE(owns(object + 104));
  EXPECT_FALSE(owns(object + 8));
  EXPECT_FALSE(owns(object - 8));
  EXPECT_FALSE(owns(object + 104 * objects())) << "the tail of a slab is no object";
  int local = 0;
  EXPECT_FALSE(owns(reinterpret_cast<char*>(&local)));
  EXPECT_FALSE(owns(nullptr));
}

// Random single and bulk calls on random CPUs, against a map of what is live.
TEST_F(SlubStates, RandomOperationsKeepTheInvariants) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  create(512);
  std::map<void*, std::uint64_t> model;
  auto give = [&](void* object) {
    const std::uint64_t mark = random();
    ASSERT_TRUE(model.emplace(object, mark).second);
    std::fill_n(static_cast<std::uint64_t*>(object), 64, mark);
  };
  auto take_any = [&] {
    auto it = model.lower_bound(reinterpret_cast<void*>(
        reinterpret_cast<std::uintptr_t>(model.begin()->first) + random() % (1 << 20)));
    if (it == model.end()) it = model.begin();
    void* const object = it->first;
    const auto* words = static_cast<std::uint64_t*>(object);
    EXPECT_EQ(std::count(words, words + 64, it->second), 64);
    model.erase(it);
    return object;
  };
  for (int step = 0; step < 4000; ++step) {
    on_cpu(static_cast<unsigned>(random() % cpus));
    const bool filling = step / 500 % 2 == 0;
    const std::size_t n = random() % 100;
    if (random() % 100 < (filling ? 60u : 40u)) {
      if (random() % 2 == 0) {
        give(alloc());
      } else {
        std::vector<void*> got(n);
        ASSERT_TRUE(cache_.alloc_bulk(gfp::kernel, n, got.data()));
        for (void* object : got) give(object);
      }
    } else if (random() % 2 == 0) {
      if (!model.empty()) free(take_any());
    } else {
      std::vector<void*> batch;
      while (batch.size() < n && !model.empty()) batch.push_back(take_any());
      cache_.free_bulk(batch.size(), batch.data());
    }
    if (random() % 200 == 0) cache_.shrink();
    ASSERT_STREQ(cache_.validate(), nullptr) << "step " << step;
  }
  for (auto& [object, mark] : model) live_.push_back(object);
}

}  // namespace
}  // namespace kmem::slub
