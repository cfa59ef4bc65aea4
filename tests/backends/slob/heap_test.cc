// The shared heap: which page an object comes from, when pages come and go, whose an object is.
#include "backends/slob/heap.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "tests/backends/slob/fixture.h"

namespace kmem::slob {
namespace {

using SlobHeap = SlobTest;
using Objects = std::vector<void*>;

Objects get(Cache& cache, std::size_t n) {
  Objects objects(n);
  for (void*& object : objects) EXPECT_NE(object = cache.alloc(gfp::kernel), nullptr);
  return objects;
}
void put(Cache& cache, const Objects& objects) {
  for (void* object : objects) free_in(cache, object);
}
std::size_t listed(Fit fit) { return heap().usage().listed_pages[static_cast<std::size_t>(fit)]; }

// ---- Pages -------------------------------------------------------------------------------------

TEST_F(SlobHeap, TheListIsChosenByTheSizeOfTheRequest) {
  const struct {
    std::size_t bytes;
    Fit fit;
  } rows[] = {{16, Fit::small},    {254, Fit::small},  {255, Fit::small}, {256, Fit::medium},
              {1023, Fit::medium}, {1024, Fit::large}, {4000, Fit::large}};
  for (const auto& row : rows) {
    auto cache = make_cache(row.bytes);
    void* object = cache->alloc(gfp::kernel);
    EXPECT_EQ(listed(row.fit), 1u) << row.bytes;
    EXPECT_EQ(heap().usage().block_pages, 1u) << row.bytes;
    free_in(*cache, object);
  }
}

TEST_F(SlobHeap, RequestsOfOneListShareAPageAcrossCaches) {
  auto narrow = make_cache(24), wide = make_cache(200), medium = make_cache(300);
  void* a = narrow->alloc(gfp::kernel);
  void* b = wide->alloc(gfp::kernel);
  void* c = medium->alloc(gfp::kernel);
  EXPECT_EQ(pages::page_of(a), pages::page_of(b));
  EXPECT_NE(pages::page_of(a), pages::page_of(c));
  free_in(*narrow, a);
  free_in(*wide, b);
  free_in(*medium, c);
}

TEST_F(SlobHeap, SearchesBeginAtThePageThatGaveLast) {
  auto cache = make_cache(1000);  // four in a page, and 96 bytes: it stays on its list
  Objects a = get(*cache, 4), b = get(*cache, 4);
  free_in(*cache, a[0]);
  free_in(*cache, b[0]);
  EXPECT_EQ(cache->alloc(gfp::kernel), b[0]);  // the newer page is first
  EXPECT_EQ(cache->alloc(gfp::kernel), a[0]);  // found behind it: searches begin here from now on
  free_in(*cache, a[1]);
  free_in(*cache, b[1]);
  EXPECT_EQ(cache->alloc(gfp::kernel), a[1]);
  EXPECT_EQ(cache->alloc(gfp::kernel), b[1]);
  EXPECT_EQ(cache->validate(), nullptr);
  put(*cache, a);
  put(*cache, b);
}

TEST_F(SlobHeap, AFullPageLeavesItsListAndComesBackWithItsFirstFreeBlock) {
  auto cache = make_cache(512);
  Objects objects = get(*cache, 8);
  EXPECT_EQ(listed(Fit::medium), 0u);
  EXPECT_EQ(heap().usage().block_pages, 1u);
  free_in(*cache, objects[3]);
  EXPECT_EQ(listed(Fit::medium), 1u);
  EXPECT_EQ(cache->alloc(gfp::kernel), objects[3]);
  EXPECT_EQ(cache->validate(), nullptr);
  put(*cache, objects);
}

TEST_F(SlobHeap, AWhollyFreePageIsReturnedAtOnceWithItsMap) {
  auto cache = make_cache(128);
  const std::size_t before = pages::usage().allocated_bytes;
  void* object = cache->alloc(gfp::kernel);
  EXPECT_EQ(pages::usage().allocated_bytes, before + 2 * pages::page_bytes);
  free_in(*cache, object);
  EXPECT_EQ(pages::usage().allocated_bytes, before);
  EXPECT_EQ(cache->path_counts().slabs_created, 1u);
  EXPECT_EQ(cache->path_counts().slabs_freed, 1u);
}

TEST_F(SlobHeap, MapsShareAPage) {
  auto small = make_cache(128), large = make_cache(2048);  // 32 and 2 in a page
  Objects objects = get(*small, 32 * 17), others = get(*large, 2 * 65);
  EXPECT_EQ(heap().usage().block_pages, 17u + 65u);
  EXPECT_EQ(heap().usage().map_pages, 2u + 2u);  // 16 or 64 to a page
  put(*small, objects);
  put(*large, others);
  EXPECT_EQ(heap().usage().map_pages, 0u);
}

// A heap of its own with holes in most pages, and the places of what is got from it then: pages are
// numbered as they turn up.
class Placement {
 public:
  explicit Placement(std::size_t bulk) {
    narrow_.request = cache_request({.object_bytes = 40});
    wide_.request = cache_request({.object_bytes = 72, .align = 16});
    narrow_.cache = &caches_[0];
    wide_.cache = &caches_[1];
    heap_.join(narrow_);
    heap_.join(wide_);
    std::vector<void*> objects;
    get(narrow_, 1, 900, objects);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (i % 100 < 93 && i * i % 11 < 6) heap_.free(narrow_, 1, &objects[i]);
    }
    get(wide_, bulk, 240, objects);
    EXPECT_EQ(heap_.validate(wide_), nullptr);
  }
  ~Placement() {
    for (Share* share : {&narrow_, &wide_}) {
      std::vector<void*> objects;
      heap_.for_each_live(
          *share,
          [](void* context, void* object, std::size_t) {
            static_cast<std::vector<void*>*>(context)->push_back(object);
          },
          &objects);
      EXPECT_EQ(heap_.free(*share, objects.size(), objects.data()), 0u);
      EXPECT_EQ(heap_.leave(*share), 0u);
    }
  }
  std::vector<std::pair<std::size_t, unsigned>> places;

 private:
  void get(Share& share, std::size_t bulk, std::size_t n, std::vector<void*>& objects) {
    objects.resize(n);
    for (std::size_t i = 0; i < n; i += bulk) {
      std::size_t constructed = 0;
      ASSERT_TRUE(heap_.alloc(share, gfp::kernel, no_node, bulk, &objects[i], constructed));
    }
    for (void* object : objects) {
      const auto page = std::find(pages_.begin(), pages_.end(), pages::page_of(object));
      places.emplace_back(page - pages_.begin(), unit_of(object));
      if (page == pages_.end()) pages_.push_back(pages::page_of(object));
    }
  }

  Heap heap_;
  Cache caches_[2];  // names for the shares, nothing more
  Share narrow_, wide_;
  std::vector<pages::Page*> pages_;
};

TEST_F(SlobHeap, ABulkPlacesWhereSinglesWould) {
  const Placement singles(1);
  for (std::size_t bulk : {2, 3, 16, 60, 240}) {
    EXPECT_EQ(Placement(bulk).places, singles.places) << bulk;
  }
}

TEST_F(SlobHeap, ABulkTakesTheLockOnceWhenAPageHasRoom) {
  auto cache = make_cache(64);
  void* first = cache->alloc(gfp::kernel);
  const std::uint64_t before = cache->path_counts().locks;
  Objects objects(32);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  EXPECT_EQ(cache->path_counts().locks, before + 1);
  cache->free_bulk(objects.size(), objects.data());
  EXPECT_EQ(cache->path_counts().locks, before + 2);
  free_in(*cache, first);
}

TEST_F(SlobHeap, ABulkFreeMergesInAnyOrder) {
  auto cache = make_cache(48);
  for (int order = 0; order < 4; ++order) {
    Objects objects(300);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, objects.size(), objects.data()));
    if (order == 1) std::reverse(objects.begin(), objects.end());
    if (order == 2)
      std::stable_partition(objects.begin(), objects.end(),
                            [](void* object) { return unit_of(object) % 48 == 0; });
    if (order == 3) std::rotate(objects.begin(), objects.begin() + 41, objects.end());
    cache->free_bulk(100, objects.data());
    EXPECT_EQ(cache->validate(), nullptr);
    cache->free_bulk(200, objects.data() + 100);
    EXPECT_EQ(heap().usage().block_pages, 0u) << order;
  }
}

// ---- Whose an object is ------------------------------------------------------------------------

TEST_F(SlobHeap, OnlyTheStartOfAnObjectInUseIsOwned) {
  auto cache = make_cache(64), other = make_cache(64);
  char* object = static_cast<char*>(cache->alloc(gfp::kernel));
  char* theirs = static_cast<char*>(other->alloc(gfp::kernel));
  const auto owns = [&](const void* p) { return cache->owns(pages::page_of(p), p); };
  EXPECT_TRUE(owns(object));
  for (int offset = 1; offset < 64; ++offset) EXPECT_FALSE(owns(object + offset)) << offset;
  EXPECT_FALSE(owns(theirs));
  EXPECT_FALSE(owns(theirs + 64));
  EXPECT_FALSE(owns(&object));
  EXPECT_FALSE(owns(nullptr));
  EXPECT_EQ(Cache::cache_of(object), cache.get());
  EXPECT_EQ(Cache::cache_of(theirs), other.get());
  EXPECT_EQ(Cache::cache_of(object + 8), nullptr);
  EXPECT_EQ(Cache::cache_of(&object), nullptr);
  EXPECT_EQ(Cache::cache_of(nullptr), nullptr);
  free_in(*cache, object);
  EXPECT_FALSE(owns(object));
  EXPECT_EQ(Cache::cache_of(object), nullptr);
  free_in(*other, theirs);
}

TEST_F(SlobHeap, ASecondFreeIsReportedAndChangesNothing) {
  auto cache = make_cache(64);
  void* keep = cache->alloc(gfp::kernel);
  void* object = cache->alloc(gfp::kernel);
  pages::Page* page = pages::page_of(object);
  cache->free(object, page);
  const std::uint64_t reports = debug::report_count(debug::Fault::double_free);
  cache->free(object, page);  // as a thread that lost a race would
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), reports + 1);
  EXPECT_EQ(cache->validate(), nullptr);
  EXPECT_EQ(cache->usage().active_objects, 1u);
  free_in(*cache, keep);
}

TEST_F(SlobHeap, AnObjectTwiceInOneBulkIsFreedOnce) {
  auto cache = make_cache(64);
  Objects objects = get(*cache, 4);
  Objects twice = {objects[0], objects[1], objects[0], objects[2], objects[2]};
  const std::uint64_t reports = debug::report_count(debug::Fault::double_free);
  cache->free_bulk(twice.size(), twice.data());
  EXPECT_EQ(debug::report_count(debug::Fault::double_free), reports + 2);
  EXPECT_EQ(cache->usage().active_objects, 1u);
  EXPECT_EQ(cache->validate(), nullptr);
  free_in(*cache, objects[3]);
}

TEST_F(SlobHeap, IdsOfDestroyedCachesAreUsedAgain) {
  for (int round = 0; round < 300; ++round) {
    auto cache = make_cache(32), other = make_cache(32);
    void* object = cache->alloc(gfp::kernel);
    EXPECT_EQ(Cache::cache_of(object), cache.get());
    EXPECT_FALSE(other->owns(pages::page_of(object), object));
    free_in(*cache, object);
  }
}

TEST_F(SlobHeap, HundredsOfCachesOfOneSizeAreToldApart) {
  std::vector<CachePointer> caches;
  Objects objects;
  for (std::size_t i = 0; i < 500; ++i) {
    caches.push_back(make_cache(40));
    objects.push_back(caches.back()->alloc(gfp::kernel));
  }
  for (std::size_t i = 0; i < caches.size(); ++i) {
    ASSERT_EQ(Cache::cache_of(objects[i]), caches[i].get()) << i;
    for (std::size_t j = 0; j < caches.size(); ++j) {
      ASSERT_EQ(caches[j]->owns(pages::page_of(objects[i]), objects[i]), i == j) << i << ' ' << j;
    }
  }
  EXPECT_EQ(caches.back()->validate(), nullptr);
  for (std::size_t i = 0; i < caches.size(); ++i) free_in(*caches[i], objects[i]);
}

// Those of 16 and 24 bytes soonest: there is no room for the longer ids in their blocks.
TEST_F(SlobHeap, CachesBeyondTheLastIdAreToldApartBySize) {
  std::vector<CachePointer> caches, two_of_each;
  for (std::size_t i = 0; i < 60; ++i) caches.push_back(make_cache(24));
  Objects objects;
  for (std::size_t i = 0; i < 4; ++i) {
    two_of_each.push_back(make_cache(i < 2 ? 16 : 24));
    objects.push_back(two_of_each.back()->alloc(gfp::kernel));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const Cache* cache = Cache::cache_of(objects[i]);
    EXPECT_TRUE(i >= 2 || cache == two_of_each[0].get() || cache == two_of_each[1].get());
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(two_of_each[j]->owns(pages::page_of(objects[i]), objects[i]), i / 2 == j / 2);
    }
    EXPECT_FALSE(caches.front()->owns(pages::page_of(objects[i]), objects[i]));
  }
  EXPECT_EQ(two_of_each[0]->validate(), nullptr);
  for (std::size_t i = 0; i < 4; ++i) free_in(*two_of_each[i], objects[i]);
}

// ---- kmalloc -----------------------------------------------------------------------------------

TEST_F(SlobHeap, KmallocAlignsPowersOfTwoToThemselves) {
  for (std::size_t bytes = 1; bytes < kmalloc_end_bytes; bytes += bytes < 100 ? 1 : 37) {
    void* object = heap().kmalloc(bytes, gfp::kernel, no_node);
    ASSERT_NE(object, nullptr);
    const std::size_t align = (bytes & (bytes - 1)) == 0 ? std::max<std::size_t>(bytes, 8) : 8;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % align, 0u) << bytes;
    EXPECT_EQ(heap().ksize(object), align_up(bytes, 2)) << bytes;
    std::memset(object, 0xa5, bytes);
    EXPECT_TRUE(heap().kfree(object));
  }
}

TEST_F(SlobHeap, TheLargestKmallocTakesAWholePage) {
  void* object = heap().kmalloc(kmalloc_end_bytes - 1, gfp::kernel, no_node);
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(unit_of(object) * unit_bytes, kmalloc_header_bytes);
  EXPECT_EQ(heap().usage().block_pages, 1u);
  EXPECT_TRUE(heap().kfree(object));
  EXPECT_EQ(heap().usage().block_pages, 0u);
}

TEST_F(SlobHeap, KfreeRefusesWhatIsNoKmallocBlockInUse) {
  auto cache = make_cache(64);
  void* theirs = cache->alloc(gfp::kernel);
  char* object = static_cast<char*>(heap().kmalloc(40, gfp::kernel, no_node));
  EXPECT_FALSE(heap().kfree(theirs));
  EXPECT_EQ(heap().ksize(theirs), 0u);
  EXPECT_FALSE(heap().kfree(object - 8));
  for (int offset = 1; offset < 48; ++offset) EXPECT_FALSE(heap().kfree(object + offset));
  EXPECT_FALSE(heap().kfree(&object));
  EXPECT_FALSE(heap().kfree(nullptr));
  EXPECT_EQ(Cache::cache_of(object), nullptr);
  EXPECT_EQ(Cache::cache_of(object - 8), nullptr);
  EXPECT_TRUE(heap().kfree(object));
  EXPECT_FALSE(heap().kfree(object));
  EXPECT_EQ(heap().ksize(object), 0u);
  free_in(*cache, theirs);
}

TEST_F(SlobHeap, AnOverwrittenSizeIsReportedAndTheBlockIsStillFreedWhole) {
  auto cache = make_cache(64);
  void* before = cache->alloc(gfp::kernel);
  auto* object = static_cast<std::uint32_t*>(heap().kmalloc(40, gfp::kernel, no_node));
  void* after = cache->alloc(gfp::kernel);
  object[-2] = 0x4000;
  EXPECT_EQ(heap().ksize(object), 40u);
  const std::uint64_t reports = debug::report_count();
  EXPECT_TRUE(heap().kfree(object));
  EXPECT_EQ(debug::report_count(), reports + 1);
  EXPECT_EQ(cache->validate(), nullptr);
  free_in(*cache, before);
  free_in(*cache, after);
}

TEST_F(SlobHeap, SinglesAndKmallocSayNoMemory) {
  auto cache = make_cache(1500);
  for (std::uint64_t k = 1; k <= 2; ++k) {  // the page, then the page for its map
    pages::fail_allocation(k, true);
    EXPECT_EQ(cache->alloc(gfp::kernel), nullptr);
    pages::fail_allocation(k, true);
    EXPECT_EQ(heap().kmalloc(1500, gfp::kernel, no_node), nullptr);
    pages::fail_allocation(0);
    EXPECT_EQ(cache->validate(), nullptr);
  }
}

}  // namespace
}  // namespace kmem::slob
