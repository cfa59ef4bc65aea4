// Where a node's lock lies: away from what each call reads, but for the variant that kmem-bench
// measures the other way.
#include <gtest/gtest.h>

#include "backends/slub/alloc.h"
#include "backends/slub/bulk.h"
#include "backends/slub/drain.h"
#include "backends/slub/free.h"
#include "common/base/bits.h"

namespace kmem::slub {
namespace {

// As aligned as caches from the registry are.
template <class C>
bool shares_hot_line() {
  alignas(cache_line_bytes) static C cache;
  CacheSpec spec;
  spec.name = "line";
  spec.object_bytes = 64;
  EXPECT_TRUE(cache.create(spec));
  const bool shares = cache.shares_hot_line();
  EXPECT_EQ(cache.destroy(), 0u);
  return shares;
}

TEST(SlubNodeLine, OfItsOwn) { EXPECT_FALSE(shares_hot_line<Cache<percpu::Rseq>>()); }

TEST(SlubNodeLine, SharedWhereItIsEmbedded) {
  EXPECT_TRUE(shares_hot_line<Cache<EmbeddedNode<percpu::Rseq>>>());
}

}  // namespace
}  // namespace kmem::slub
