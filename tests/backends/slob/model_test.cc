// Random calls against a model: which byte of the arena belongs to which object.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tests/backends/slob/fixture.h"

namespace kmem::slob {
namespace {

constexpr std::size_t kmalloc_source = SIZE_MAX;

class SlobModel : public SlobTest, public testing::WithParamInterface<unsigned> {
 protected:
  struct Object {
    std::size_t source;  // number of its cache, or kmalloc_source
    std::size_t bytes;
    unsigned char pattern;
  };

  void add(std::size_t source, std::size_t bytes, std::size_t align, void* object) {
    ASSERT_NE(object, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(object) % align, 0u);
    char* begin = static_cast<char*>(object);
    const auto after = live_.lower_bound(begin);
    ASSERT_TRUE(after == live_.end() || begin + bytes <= after->first) << "overlaps the next";
    ASSERT_TRUE(after == live_.begin() ||
                std::prev(after)->first + std::prev(after)->second.bytes <= begin)
        << "overlaps the one before";
    const auto pattern = static_cast<unsigned char>(random_());
    std::memset(object, pattern, bytes);
    live_.emplace(begin, Object{source, bytes, pattern});
  }

  // Takes a random object of the source of some random one out of the model, its bytes checked.
  void* remove(std::size_t source) {
    std::vector<char*> candidates;
    for (const auto& [object, state] : live_) {
      if (state.source == source) candidates.push_back(object);
    }
    if (candidates.empty()) return nullptr;
    char* object = candidates[random_() % candidates.size()];
    const Object state = live_[object];
    EXPECT_TRUE(std::all_of(object, object + state.bytes, [&](char c) {
      return static_cast<unsigned char>(c) == state.pattern;
    })) << "somebody wrote to an object in use";
    live_.erase(object);
    return object;
  }

  std::mt19937 random_;
  std::map<char*, Object> live_;
};

TEST_P(SlobModel, EveryByteBelongsToOneObject) {
  const unsigned seed = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  random_.seed(seed);
  std::vector<CachePointer> caches;
  std::vector<std::size_t> bytes_of;
  for (int i = 0; i < 12; ++i) {
    const std::size_t bytes = 1 + random_() % (i < 8 ? 300 : 5000);
    const std::size_t align = random_() % 3 == 0 ? std::size_t{1} << random_() % 13 : 0;
    const slab_flags_t flags = i == 3 ? slab_flag::typesafe_by_rcu : 0;
    bytes_of.push_back(bytes);
    caches.push_back(
        make_cache({.name = "model", .object_bytes = bytes, .align = align, .flags = flags}));
  }
  for (int step = 0; step < 4000 && !HasFatalFailure(); ++step) {
    const std::size_t source = random_() % 3 == 0 ? kmalloc_source : random_() % caches.size();
    const bool grow = random_() % 100 < (step / 1000 % 2 == 0 ? 60u : 40u);
    if (source == kmalloc_source && grow) {
      const std::size_t bytes = 1 + random_() % (random_() % 2 ? 100 : 4000);
      const std::size_t align = (bytes & (bytes - 1)) == 0 ? std::max<std::size_t>(bytes, 8) : 8;
      add(source, bytes, align, heap().kmalloc(bytes, gfp::kernel, no_node));
    } else if (source == kmalloc_source) {
      if (void* object = remove(source)) {
        ASSERT_TRUE(heap().kfree(object));
      }
    } else if (grow) {
      void* objects[40];
      const std::size_t n = random_() % 4 == 0 ? 1 + random_() % 40 : 1;
      ASSERT_TRUE(caches[source]->alloc_bulk(gfp::kernel, n, objects));
      for (std::size_t i = 0; i < n; ++i) {
        add(source, bytes_of[source], caches[source]->geometry().align, objects[i]);
        ASSERT_EQ(Cache::cache_of(objects[i]), caches[source].get());
      }
    } else {
      void* objects[40];
      const std::size_t most = random_() % 4 == 0 ? 1 + random_() % 40 : 4;
      std::size_t n = 0;
      while (n < most && (objects[n] = remove(source)) != nullptr) ++n;
      if (random_() % 2 == 0) std::sort(objects, objects + n);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_TRUE(caches[source]->owns(pages::page_of(objects[i]), objects[i]));
      caches[source]->free_bulk(n, objects);
    }
    if (step % 50 == 0) {
      ASSERT_EQ(caches[source % caches.size()]->validate(), nullptr) << "step " << step;
    }
  }
  for (std::size_t i = 0; i < caches.size(); ++i) {
    while (void* object = remove(i)) free_in(*caches[i], object);
  }
  while (void* object = remove(kmalloc_source)) EXPECT_TRUE(heap().kfree(object));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SlobModel, testing::Range(1u, 21u));

}  // namespace
}  // namespace kmem::slob
