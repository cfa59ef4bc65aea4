// Slabs and the cache over time: colours, index arrays, reaping, retuning, shrink, destroy.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "common/debug/report.h"
#include "tests/backends/slab/fixture.h"

namespace kmem::slab {
namespace {

class Lifetime : public SlabTest {};

TEST_F(Lifetime, SuccessiveSlabsHaveSuccessiveColours) {
  start(704);  // 7 colours, 11 objects
  std::vector<void*> objects = alloc(11 * 14);
  std::set<const Page*> slabs;
  std::vector<std::uint32_t> offsets;
  for (void* object : objects) {
    const Page* slab = pages::page_of(object)->head;
    if (slabs.insert(slab).second) offsets.push_back(slab->first_object);
  }
  ASSERT_GE(offsets.size(), 14U);
  for (std::size_t i = 0; i < 14; ++i) EXPECT_EQ(offsets[i], (i + 1) % 7 * 64) << i;
  free(objects);
}

// ---- Index arrays -------------------------------------------------------------------------------

TEST_F(Lifetime, NothingIsWrittenIntoFreeObjectsWithAnArrayOnTheSlab) {
  start(32);
  const std::vector<void*> objects = alloc(124);
  for (void* object : objects) std::memset(object, 0x5a, 32);
  free(objects);
  cache.reap();
  for (void* object : objects) {
    for (int i = 0; i < 32; ++i) ASSERT_EQ(static_cast<unsigned char*>(object)[i], 0x5a);
  }
}

TEST_F(Lifetime, AnArrayInAnObjectIsGoneWhenTheSlabIsFullAndBackAfterTheFirstFree) {
  start(64);
  const std::vector<void*> objects = alloc(64);
  const Page* slab = pages::page_of(objects[0])->head;
  EXPECT_EQ(slab->free_list, nullptr);
  for (void* object : objects) std::memset(object, 0xff, 64);
  EXPECT_STREQ(cache.validate(), nullptr);
  free(objects[17]);
  cache.shrink();
  EXPECT_EQ(slab->free_list, objects[17]);
  EXPECT_EQ(slab->counters, 63U);
  EXPECT_EQ(alloc(), objects[17]);
  free(objects);
}

TEST_F(Lifetime, AnArrayOffTheSlabComesAndGoesWithIt) {
  start({.name = "t", .object_bytes = 512, .ctor = [](void* object) {
           std::memset(object, 7, 512);
         }});
  EXPECT_STREQ(cache.geometry().management, "off-slab");
  const std::size_t before = pages::usage().allocated_bytes;
  const std::vector<void*> objects = alloc(64);
  EXPECT_GE(pages::usage().allocated_bytes, before + 8 * (4096 + 32));
  for (void* object : objects) {
    for (int i = 0; i < 512; ++i) ASSERT_EQ(static_cast<char*>(object)[i], 7);
  }
  free(objects);
  EXPECT_FALSE(cache.shrink());
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

TEST_F(Lifetime, NoMemoryForAnArrayOffTheSlabIsNoMemory) {
  start({.name = "t", .object_bytes = 512, .ctor = [](void*) {}});
  const std::size_t before = pages::usage().allocated_bytes;
  pages::fail_allocation(2);  // the first is the slab's pages
  EXPECT_EQ(alloc(), nullptr);
  pages::fail_allocation(0);
  EXPECT_EQ(pages::usage().allocated_bytes, before);
  EXPECT_EQ(cache.statistics().error, 1U);
  free(alloc());
}

// ---- Reaping ------------------------------------------------------------------------------------

TEST_F(Lifetime, TheReaperTakesAFifthOfAnUntouchedArrayThenHalves) {
  start(64);
  const std::vector<void*> objects = alloc_and_flush(50);
  free(objects);
  EXPECT_EQ(active(), 50U);
  std::vector<std::size_t> left;
  for (int round = 0; round < 4; ++round) {
    cache.reap();
    left.push_back(active());
  }
  EXPECT_EQ(left, (std::vector<std::size_t>{26, 2, 1, 0}));
}

TEST_F(Lifetime, ATouchedArrayIsLeftAloneOnce) {
  start(64);
  const std::vector<void*> objects = alloc_and_flush(50);
  free(objects);
  free(alloc());
  cache.reap();
  EXPECT_EQ(active(), 50U);
  cache.reap();
  EXPECT_EQ(active(), 26U);
}

TEST_F(Lifetime, EverySecondRoundTheReaperTakesFromTheSharedArrayAndFreesSlabs) {
  start(64);
  std::vector<void*> objects = alloc_and_flush(600);
  cache.free_bulk(objects.size(), objects.data());  // 120 in the array, 480 shared
  EXPECT_EQ(cache.usage().shared_available, 480U);
  cache.reap();
  EXPECT_EQ(cache.usage().shared_available, 480U);
  cache.reap();
  EXPECT_EQ(cache.usage().shared_available, 480U - 96U) << "a fifth of its limit";
  for (int round = 0; round < 60; ++round) cache.reap();
  EXPECT_EQ(cache.usage().slabs, 0U) << "an idle cache gives back all";
  EXPECT_GT(cache.statistics().reaped, 0U);
}

TEST_F(Lifetime, FreeSlabsThatWereWantedAreKeptForARound) {
  start(64);
  free(alloc_and_flush(300));
  ASSERT_TRUE(cache.retune({.shared = 0}));  // and empty arrays
  const std::size_t slabs = cache.usage().slabs;
  ASSERT_GT(slabs, 1U);
  std::vector<void*> wanted = alloc(1);  // from a free slab
  cache.reap();
  cache.reap();
  EXPECT_EQ(cache.usage().slabs, slabs);
  cache.reap();
  cache.reap();
  EXPECT_LT(cache.usage().slabs, slabs);
  free(wanted);
}

// ---- Tuning -------------------------------------------------------------------------------------

TEST_F(Lifetime, RetuneRefusesWhatCannotBe) {
  start(64);
  EXPECT_FALSE(cache.retune({.limit = 10, .batchcount = 20}));
  EXPECT_FALSE(cache.retune({.limit = 10})) << "the batch stays at 60";
  EXPECT_FALSE(cache.retune({.limit = max_limit + 1}));
  EXPECT_TRUE(cache.retune({.batchcount = 1, .shared = 0}));
  EXPECT_EQ(cache.tunables().limit, 120U);
  EXPECT_EQ(cache.tunables().batchcount, 1U);
  EXPECT_EQ(cache.tunables().shared, 0);
}

TEST_F(Lifetime, RetuneDownAndUpChangesHowMuchAnArrayHolds) {
  start(64);
  const std::vector<void*> objects = alloc(1000);
  for (const unsigned limit : {10U, 120U, 500U, 40U}) {
    ASSERT_TRUE(cache.retune({.limit = limit, .batchcount = limit / 2, .shared = 0})) << limit;
    std::size_t hits = cache.statistics().freehit;
    const std::vector<void*> some(objects.begin(), objects.begin() + limit);
    free(some);
    EXPECT_EQ(cache.statistics().freehit - hits, limit);
    EXPECT_STREQ(cache.validate(), nullptr);
    hits = cache.statistics().allochit;
    EXPECT_EQ(std::set(some.begin(), some.end()).count(alloc()), 1U);
    for (unsigned i = 1; i < limit; ++i) alloc();
    EXPECT_EQ(cache.statistics().allochit - hits, limit);
  }
  free(objects);
}

TEST_F(Lifetime, ALongRetuneThatFindsNoMemoryChangesNothing) {
  start(64);
  for (std::uint64_t failing = 1; failing < 4; ++failing) {
    pages::fail_allocation(failing);
    const bool done = cache.retune({.limit = 4000, .batchcount = 1000, .shared = 8});
    pages::fail_allocation(0);
    if (done) break;
    EXPECT_EQ(cache.tunables().limit, 120U);
    EXPECT_EQ(cache.tunables().batchcount, 60U);
    EXPECT_EQ(cache.tunables().shared, 8);
    free(alloc(200));
    EXPECT_STREQ(cache.validate(), nullptr);
  }
}

template <class Policy>
class Traffic : public ::testing::Test {};
using Policies = ::testing::Types<percpu::Rseq, percpu::Locked>;
TYPED_TEST_SUITE(Traffic, Policies);

TYPED_TEST(Traffic, GoesOnWhileTheCacheIsRetunedReapedShrunkAndValidated) {
  Cache<TypeParam> cache;
  ASSERT_TRUE(cache.create({.name = "t", .object_bytes = 64}));
  std::atomic<bool> stop{false};
  const auto work = [&] {
    void* objects[300];
    for (unsigned n = 1; !stop.load(std::memory_order_relaxed); n = n * 7 % 299 + 1) {
      if (!cache.alloc_bulk(gfp::kernel, n, objects)) std::abort();
      for (unsigned i = 0; i < n; ++i) *static_cast<void**>(objects[i]) = &objects[i];
      for (unsigned i = 0; i < n; ++i) {
        if (*static_cast<void**>(objects[i]) != &objects[i]) std::abort();  // somebody else's too
      }
      if (n % 2 == 0) {
        cache.free_bulk(n, objects);
      } else {
        for (unsigned i = 0; i < n; ++i) cache.free(objects[i], pages::page_of(objects[i]));
      }
      for (unsigned i = 0; i < 20; ++i) objects[i] = cache.alloc(gfp::kernel);
      for (unsigned i = 0; i < 20; ++i) cache.free(objects[i], pages::page_of(objects[i]));
    }
  };
  std::thread threads[] = {std::thread(work), std::thread(work), std::thread(work)};
  constexpr unsigned limits[] = {120, 16, 1, 700, 64, 2000};
  for (unsigned round = 0; round < 300; ++round) {
    const unsigned limit = limits[round % 6];
    EXPECT_TRUE(cache.retune({limit, (limit + 1) / 2, static_cast<int>(round % 3 * 4)}));
    if (round % 3 == 0) cache.reap();
    if (round % 5 == 0) cache.shrink();
    EXPECT_STREQ(cache.validate(), nullptr);
    EXPECT_LE(cache.usage().active_objects, cache.usage().total_objects + 10000);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_STREQ(cache.validate(), nullptr);
  EXPECT_FALSE(cache.shrink());
  EXPECT_EQ(cache.destroy(), 0U);
}

// ---- The end ------------------------------------------------------------------------------------

TEST_F(Lifetime, DestroyLeavesSlabsOfLiveObjectsWithoutAnOwner) {
  percpu::set_virtual_machine(cpus, 1);
  percpu::enter_virtual_cpu(0);
  VirtualCache leaking;
  ASSERT_TRUE(leaking.create({.name = "leaking", .object_bytes = 64}));
  void* kept = leaking.alloc(gfp::kernel);
  void* freed = leaking.alloc(gfp::kernel);
  leaking.free(freed, pages::page_of(freed));
  std::vector<void*> seen;
  leaking.for_each_live(
      [](void* context, void* object, std::size_t) {
        static_cast<std::vector<void*>*>(context)->push_back(object);
      },
      &seen);
  EXPECT_EQ(seen, std::vector<void*>{kept});
  EXPECT_EQ(leaking.destroy(), 1U);
  std::memset(kept, 1, 64);  // still there
  EXPECT_EQ(pages::page_of(kept)->owner, nullptr);
}

TEST_F(Lifetime, AForkedChildAllocatesAndFrees) {
  start(64);
  std::vector<void*> objects = alloc(100);
  cache.prepare_fork();
  const pid_t child = fork();
  cache.after_fork();
  if (child == 0) {
    cache.free_bulk(objects.size(), objects.data());
    _exit(cache.shrink() || cache.validate() != nullptr ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  free(objects);
}

TEST_F(Lifetime, AVisitorMayFreeWhatItIsShown) {
  start(64);
  alloc(500);
  cache.for_each_live(
      [](void* context, void* object, std::size_t) {
        static_cast<VirtualCache*>(context)->free(object, pages::page_of(object));
      },
      &cache);
  EXPECT_FALSE(cache.shrink());
}

TEST_F(Lifetime, TypesafeCachesKeepTheirEmptySlabs) {
  start({.name = "t", .object_bytes = 64, .flags = slab_flag::typesafe_by_rcu});
  const std::vector<void*> objects = alloc(2000);
  const std::size_t slabs = cache.usage().slabs;
  free(objects);
  EXPECT_FALSE(cache.shrink());
  for (int round = 0; round < 20; ++round) cache.reap();
  EXPECT_EQ(cache.usage().slabs, slabs);
}

TEST_F(Lifetime, NothingButAnObjectsStartIsOwned) {
  start(704);
  void* object = alloc();
  const Page* slab = pages::page_of(object)->head;
  char* const base = pages::address_of(slab);
  std::size_t owned = 0;
  for (std::size_t offset = 0; offset < pages::block_bytes(slab); ++offset) {
    const bool owns = cache.owns(pages::page_of(base + offset), base + offset);
    EXPECT_TRUE(!owns || (offset - slab->first_object) % 704 == 0) << offset;
    owned += owns ? 1 : 0;
  }
  EXPECT_EQ(owned, 11U);
  int outside = 0;
  EXPECT_FALSE(cache.owns(pages::page_of(&outside), &outside));
  EXPECT_FALSE(cache.owns(pages::page_of(nullptr), nullptr));
  free(object);
}

}  // namespace
}  // namespace kmem::slab
