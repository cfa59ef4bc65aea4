// Single objects: distinct, writable, zeroed when asked, constructed always, of the node asked for.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

class Alloc : public WorldTest {};
KMEM_ALL_WORLDS(Alloc);

TEST_P(Alloc, ObjectsAreDistinctAndKeepTheirContents) {
  for (const std::size_t bytes : {1u, 8u, 24u, 64u, 192u, 700u, 2048u, 4096u, 9000u}) {
    auto cache = make(bytes);
    const std::size_t count =
        std::max<std::size_t>(20, std::min<std::size_t>(2000, 400000 / bytes));
    std::vector<void*> objects;
    for (std::size_t i = 0; i < count; ++i) {
      void* object = cache->alloc();
      ASSERT_NE(object, nullptr);
      fill(object, bytes, i);
      objects.push_back(object);
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(holds(objects[i], bytes, i)) << bytes << " number " << i;
    }
    std::vector<void*> sorted = objects;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 1; i < count; ++i) {
      ASSERT_GE(static_cast<char*>(sorted[i]), static_cast<char*>(sorted[i - 1]) + bytes);
    }
    EXPECT_EQ(cache->validate(), nullptr);
    for (void* object : objects) cache->free(object);
    EXPECT_EQ(cache->validate(), nullptr);
  }
}

// Every other object stays and keeps what is in it, while its neighbours come and go.
TEST_P(Alloc, NeighboursOfFreedObjectsKeepTheirContents) {
  auto cache = make(40);
  std::vector<void*> objects(1000);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    objects[i] = cache->alloc();
    fill(objects[i], 40, i);
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < objects.size(); i += 2) cache->free(objects[i]);
    for (std::size_t i = 1; i < objects.size(); i += 2) ASSERT_TRUE(holds(objects[i], 40, i));
    for (std::size_t i = 0; i < objects.size(); i += 2) {
      objects[i] = cache->alloc();
      fill(objects[i], 40, i);
    }
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(holds(objects[i], 40, i));
    cache->free(objects[i]);
  }
  EXPECT_EQ(cache->validate(), nullptr);
}

TEST_P(Alloc, ZeroedObjectsReadAsZeros) {
  for (const std::size_t bytes : {1u, 8u, 13u, 64u, 500u, 4096u, 20000u}) {
    auto cache = make(bytes);
    std::vector<void*> objects(60);
    for (int round = 0; round < 3; ++round) {
      for (void*& object : objects) {
        object = cache->alloc(gfp::kernel | gfp::zero);
        ASSERT_TRUE(all_zero(object, bytes)) << bytes;
        std::memset(object, 0xee, bytes);
      }
      for (void* object : objects) cache->free(object);
    }
  }
}

TEST_P(Alloc, MemoryIsReusedNotPiledUp) {
  auto cache = make(256);
  void* objects[64];
  std::size_t largest = 0;
  for (std::size_t round = 0; round < scaled(2000); ++round) {
    for (void*& object : objects) object = cache->alloc();
    for (void* object : objects) cache->free(object);
    largest = std::max(largest, cache->usage().slab_bytes);
  }
  EXPECT_LE(largest, std::size_t{1} << 20);
  EXPECT_EQ(cache->validate(), nullptr);
}

// ---- Constructors ----

constexpr std::size_t ctor_bytes = 80;
void construct(void* object) { fill(object, ctor_bytes, 77); }

TEST_P(Alloc, ConstructedStateHoldsAtEveryAllocation) {
  auto cache = make({.object_bytes = ctor_bytes, .ctor = &construct});
  std::vector<void*> objects(300);
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < 100; ++i) objects[i] = cache->alloc();
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 100, &objects[100]));
    ASSERT_TRUE(cache->alloc_bulk_generic(gfp::kernel, 100, &objects[200]));
    for (void* object : objects) {
      ASSERT_TRUE(holds(object, ctor_bytes, 77)) << "round " << round;
      std::memset(object, 0x11, ctor_bytes);
      construct(object);  // objects are given back constructed
    }
    cache->free_bulk(100, &objects[50]);
    for (std::size_t i = 0; i < 50; ++i) cache->free(objects[i]);
    cache->free_bulk_generic(150, &objects[150]);
    if (round == 2) cache->shrink();
    EXPECT_EQ(cache->validate(), nullptr);
  }
}

TEST_P(Alloc, ConstructedStateHoldsOnANode) {
  auto cache = make({.object_bytes = ctor_bytes, .ctor = &construct});
  for (int node = 0; node < nodes::count(); ++node) {
    void* object = cache->alloc_node(gfp::kernel, node);
    ASSERT_NE(object, nullptr);
    EXPECT_TRUE(holds(object, ctor_bytes, 77));
    cache->free(object);
  }
}

TEST_P(Alloc, ZeroingAConstructedObjectIsSaidOnce) {
  auto cache = make({.object_bytes = ctor_bytes, .ctor = &construct});
  for (int i = 0; i < 3; ++i) {
    void* object = cache->alloc(gfp::kernel | gfp::zero);
    EXPECT_TRUE(all_zero(object, ctor_bytes));
    construct(object);
    cache->free(object);
  }
  const auto lines = log_.take();
  EXPECT_EQ(lines.size(), 1u) << joined(lines);
}

// ---- Nodes ----

TEST_P(Alloc, ThisNodeGivesAnObjectOfThatNode) {
  auto cache = make(96);
  for (int node = 0; node < nodes::count(); ++node) {
    for (int from = 0; from < nodes::count(); ++from) {
      world().enter_cpu(virtual_cpu_on(from));
      std::vector<void*> objects(100);
      for (void*& object : objects) {
        object = cache->alloc_node(gfp::kernel | gfp::thisnode, node);
        ASSERT_NE(object, nullptr);
        ASSERT_EQ(pages::page_of(object)->node, node);
        fill(object, 96, 3);
      }
      for (void* object : objects) cache->free(object);
    }
  }
  EXPECT_EQ(cache->validate(), nullptr);
}

TEST_P(Alloc, ANodeIsAPreferenceAndNoNodeIsFine) {
  auto cache = make(96);
  void* here = cache->alloc_node(gfp::kernel, no_node);
  ASSERT_NE(here, nullptr);
  for (int node = 0; node < nodes::count(); ++node) {
    void* object = cache->alloc_node(gfp::kernel, node);
    ASSERT_NE(object, nullptr);
    cache->free(object);
  }
  cache->free(here);
  EXPECT_EQ(cache->validate(), nullptr);
}

TEST_P(Alloc, ObjectsOfOtherNodesCanBeFreedAnywhere) {
  auto cache = make(128);
  std::vector<void*> objects(500);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    world().enter_cpu(static_cast<unsigned>(i) % virtual_cpus);
    objects[i] = cache->alloc_node(gfp::kernel, static_cast<int>(i) % nodes::count());
    ASSERT_NE(objects[i], nullptr);
    fill(objects[i], 128, i);
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(holds(objects[i], 128, i));
    world().enter_cpu(static_cast<unsigned>(i * 5 + 3) % virtual_cpus);
    cache->free(objects[i]);
  }
  EXPECT_EQ(cache->validate(), nullptr);
  cache->shrink();
  EXPECT_EQ(cache->live_count(), 0u);
}

// ---- SLAB_TYPESAFE_BY_RCU ----

// A reader may hold a stale pointer as long as the cache lives: the memory serves nobody else.
TEST_P(Alloc, TypesafeMemoryIsNotGivenToOthers) {
  auto cache = make({.object_bytes = 512, .flags = slab_flag::typesafe_by_rcu});
  std::vector<void*> objects(200);
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, objects.size(), objects.data()));
  std::vector<void*> stale = objects;
  cache->free_bulk(objects.size(), objects.data());
  cache->shrink();

  auto other = make({.name = "other", .object_bytes = 512});
  std::vector<void*> theirs(2000);
  ASSERT_TRUE(other->alloc_bulk(gfp::kernel, theirs.size(), theirs.data()));
  std::sort(theirs.begin(), theirs.end());
  for (void* object : stale) {
    const auto next = std::upper_bound(theirs.begin(), theirs.end(), object);
    if (next != theirs.end()) {
      ASSERT_GE(*next, static_cast<char*>(object) + 512);
    }
    if (next != theirs.begin()) {
      ASSERT_LE(static_cast<char*>(next[-1]) + 512, object);
    }
    ASSERT_EQ(pages::page_of(object)->kind, pages::PageKind::slab);
  }
  other->free_bulk(theirs.size(), theirs.data());
  EXPECT_EQ(cache->validate(), nullptr);
}

TEST_P(Alloc, TypesafeMemoryGoesBackWithItsCache) {
  const auto live_once = [&] {
    auto cache = make({.object_bytes = 512, .flags = slab_flag::typesafe_by_rcu});
    std::vector<void*> objects(500);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, objects.size(), objects.data()));
    cache->free_bulk(objects.size(), objects.data());
  };
  live_once();
  const std::size_t before = pages::usage().allocated_bytes;
  for (int i = 0; i < 10; ++i) live_once();
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

}  // namespace
}  // namespace kmem::test
