// The loop of node over a stand-in: both of its turns end, and leave nothing allocated.
#include "bench/loops/node_line.h"

#include <gtest/gtest.h>

#include "bench/published.h"
#include "tests/bench/shared_world.h"

namespace kmem::bench {
namespace {

// As the library's caches: asked how many slabs there are.
struct AskedWorld : SharedWorld {
  static inline std::atomic<std::uint64_t> asked{0};
  struct Backend {
    int usage() const { return static_cast<int>(asked.fetch_add(1)); }
  };
  struct Cache {
    MallocWorld::Cache* malloc;
    Backend backend() const { return {}; }
  };
  static Cache* create(const CacheSpec& spec) { return new Cache{SharedWorld::create(spec)}; }
  static void destroy(Cache* cache) {
    SharedWorld::destroy(cache->malloc);
    delete cache;
  }
  static void* alloc(Cache* cache, gfp_t gfp) { return SharedWorld::alloc(cache->malloc, gfp); }
  static void free(Cache* cache, void* object) { SharedWorld::free(cache->malloc, object); }
  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return SharedWorld::alloc_bulk(cache->malloc, gfp, n, objects);
  }
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    SharedWorld::free_bulk(cache->malloc, n, objects);
  }
  static bool alloc_bulk_generic(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    return alloc_bulk(cache, gfp, n, objects);
  }
  static void free_bulk_generic(Cache* cache, std::size_t n, void** objects) {
    free_bulk(cache, n, objects);
  }
};

TEST(NodeLine, BothTurnsAllocateWhatIsAskedAndFreeIt) {
  SharedWorld::reset();
  {
    Job job;
    job.work = Work::node_line;
    NodeLineLoop<AskedWorld> loop(job);
    for (const std::uint64_t same : {0, 1}) {
      const Outcome outcome = loop.run({BulkPath::single, same, 500});
      ASSERT_EQ(outcome.values.size(), 1u);
      EXPECT_GT(outcome.cost.ns, 0);
    }
  }
  EXPECT_EQ(SharedWorld::allocs, 1000u);
  EXPECT_TRUE(MallocWorld::blocks.empty());
  EXPECT_TRUE(MallocWorld::caches.empty());
  MallocWorld::reset();
}

TEST(Published, TheTableOf2010TellsFourMachines) {
  ASSERT_EQ(std::size(published::node_cacheline_2010), 4u);
  EXPECT_STREQ(published::node_cacheline_2010[2].improvement_percent, "8-13");
}

}  // namespace
}  // namespace kmem::bench
