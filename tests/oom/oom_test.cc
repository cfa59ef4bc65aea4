// Out of memory, systematically: the k-th allocation of pages or metadata fails, for every k there
// is. Whatever fails says so by NULL or false, is undone, leaks nothing, and works the next time.
#include <algorithm>
#include <cerrno>

#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

void construct(void* object) { fill(object, 96, 21); }

class OutOfMemory : public WorldTest {
 protected:
  // One life of two caches and some blocks. Every failure is taken as a caller would: what was got
  // is used, what was not is done without.
  void live_once() {
    auto cache = world().create({.name = "small", .object_bytes = 96, .ctor = &construct});
    auto large = world().create({.name = "large", .object_bytes = 3000});
    std::vector<void*> blocks;
    if (cache != nullptr) use(*cache, blocks);
    if (large != nullptr) use(*large, blocks);
    for (const std::size_t bytes : {40u, 200u, 5000u, 20000u, 300000u}) {
      void* block = world().kmalloc(bytes);
      if (block == nullptr) continue;
      fill(block, bytes, bytes);
      void* grown = world().krealloc(block, bytes * 3, gfp::kernel);
      EXPECT_TRUE(holds(grown != nullptr ? grown : block, bytes, bytes));
      blocks.push_back(grown != nullptr ? grown : block);
    }
    if (void* run = world().kvmalloc(pages::max_block_bytes + 1)) blocks.push_back(run);
    world().kfree_bulk(blocks.size(), blocks.data());
    for (auto* each : {&cache, &large}) {
      if (*each == nullptr) continue;
      EXPECT_EQ((*each)->validate(), nullptr);
      (*each)->shrink();
      EXPECT_EQ((*each)->live_count(), 0u);
    }
    cache.reset();
    large.reset();
    world().shrink_all();
  }

  void use(AnyCache& cache, std::vector<void*>& blocks) {
    const bool constructed = cache.object_bytes() == 96;
    std::vector<void*> mine;
    const auto take = [&](void* object) {
      if (object == nullptr) return;
      EXPECT_TRUE(!constructed || holds(object, 96, 21));
      mine.push_back(object);
    };
    for (int i = 0; i < 5; ++i) take(cache.alloc());
    for (int node = 0; node < nodes::count(); ++node) take(cache.alloc_node(gfp::kernel, node));
    for (const std::size_t n : {10u, 150u}) {
      std::vector<void*> objects(n);
      const bool generic = n == 10;
      if (generic ? cache.alloc_bulk_generic(gfp::kernel, n, objects.data())
                  : cache.alloc_bulk(gfp::kernel, n, objects.data())) {
        for (void* object : objects) take(object);
      }
      if (mine.empty()) continue;
      cache.free(mine.back());
      mine.pop_back();
    }
    cache.retune({.limit = 16, .batchcount = 8, .shared = 1});
    take(cache.alloc());
    blocks.insert(blocks.end(), mine.begin(), mine.end());
  }

  // Lines that say which cache could not be made are what is expected here; reports are not.
  void expect_no_reports() {
    const auto lines = log_.take();
    EXPECT_EQ(count_lines(lines, "BUG "), 0u) << joined(lines);
  }
};
KMEM_ALL_WORLDS(OutOfMemory);

// First of all in a process: kmalloc's caches, made once, are still to be made.
TEST_P(OutOfMemory, FromAColdStart) {
  std::uint64_t k = 1;
  for (; k < 2000; ++k) {
    const auto failures = pages::usage().failures;
    pages::fail_allocation(k);
    live_once();
    pages::fail_allocation(0);
    expect_no_reports();
    if (HasFailure()) FAIL() << "allocation " << k << " failed";
    if (pages::usage().failures == failures) break;  // fewer than k were asked for
  }
  EXPECT_LT(k, 2000u);
}

TEST_P(OutOfMemory, EveryAllocationFailsOnce) {
  live_once();
  live_once();
  const std::size_t before = pages::usage().allocated_bytes;
  const auto attempts_before = pages::allocation_attempts();
  live_once();
  const auto attempts = pages::allocation_attempts() - attempts_before;
  ASSERT_EQ(pages::usage().allocated_bytes, before);
  for (std::uint64_t k = 1; k <= attempts; ++k) {
    pages::fail_allocation(k);
    live_once();
    pages::fail_allocation(0);
    expect_no_reports();
    EXPECT_EQ(pages::usage().allocated_bytes, before) << "allocation " << k << " of " << attempts;
    if (HasFailure()) return;
  }
}

TEST_P(OutOfMemory, EverythingFailsFromSomePointOn) {
  live_once();
  live_once();
  const std::size_t before = pages::usage().allocated_bytes;
  const auto attempts_before = pages::allocation_attempts();
  live_once();
  const auto attempts = pages::allocation_attempts() - attempts_before;
  for (std::uint64_t k = 1; k <= attempts; ++k) {
    pages::fail_allocation(k, true);
    live_once();
    pages::fail_allocation(0);
    expect_no_reports();
    EXPECT_EQ(pages::usage().allocated_bytes, before) << "from allocation " << k;
    if (HasFailure()) return;
  }
}

TEST_P(OutOfMemory, ErrnoSaysSo) {
  auto cache = make(2000);
  pages::fail_allocation(1, true);
  errno = 0;
  EXPECT_EQ(cache->alloc(), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(cache->alloc_node(gfp::kernel, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* objects[3];
  errno = 0;
  EXPECT_FALSE(cache->alloc_bulk(gfp::kernel, 3, objects));
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_FALSE(cache->alloc_bulk_generic(gfp::kernel, 3, objects));
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(world().kmalloc(std::size_t{3} << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(world().kvmalloc(pages::max_block_bytes + 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(world().create({.name = "unlucky", .object_bytes = 40}), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(log_.take().size(), 1u);
  pages::fail_allocation(0);
  void* object = cache->alloc();
  EXPECT_NE(object, nullptr);
  cache->free(object);
}

// Freeing never needs memory.
TEST_P(OutOfMemory, FreeingWorksWithoutMemory) {
  for (const std::size_t bytes : {16u, 200u, 4096u}) {
    auto cache = make(bytes);
    std::vector<void*> objects(2000);
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 2000, objects.data()));
    pages::fail_allocation(1, true);
    for (std::size_t i = 0; i < 700; ++i) {
      world().enter_cpu(static_cast<unsigned>(i) % virtual_cpus);
      cache->free(objects[i]);
    }
    cache->free_bulk(700, &objects[700]);
    world().kfree_bulk(600, &objects[1400]);
    EXPECT_FALSE(cache->shrink());
    EXPECT_EQ(cache->live_count(), 0u);
    EXPECT_EQ(cache->validate(), nullptr);
    pages::fail_allocation(0);
  }
}

TEST_P(OutOfMemory, ALimitIsKeptAndLetsGo) {
  auto cache = make(512);
  world().kfree(world().kmalloc(std::size_t{1} << 19));  // where that is a cache, it exists now
  world().shrink_all();
  const std::size_t before = pages::usage().allocated_bytes;
  const std::size_t limit = before + (std::size_t{1} << 20);
  pages::set_limit_bytes(limit);
  std::vector<void*> objects;
  while (void* object = cache->alloc()) {
    fill(object, 512, objects.size());
    objects.push_back(object);
    ASSERT_LE(pages::usage().allocated_bytes, limit);
    ASSERT_LT(objects.size(), 4000u);
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GE(objects.size(), 1700u) << "of 2,048 that a mebibyte holds";
  EXPECT_EQ(world().kmalloc(std::size_t{1} << 20), nullptr);
  for (std::size_t i = 0; i < objects.size(); ++i) ASSERT_TRUE(holds(objects[i], 512, i));
  // What was freed serves again, within the limit.
  cache->free_bulk(100, objects.data());
  ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 100, objects.data()));
  cache->free_bulk(objects.size(), objects.data());
  cache->shrink();
  void* block = world().kmalloc(std::size_t{1} << 19);
  EXPECT_NE(block, nullptr);
  world().kfree(block);
  pages::set_limit_bytes(0);
  world().shrink_all();
  EXPECT_EQ(pages::usage().allocated_bytes, before);
}

}  // namespace
}  // namespace kmem::test
