// Allocations that must not wait: over a lock that somebody holds they give up, and leave nothing
// behind.
#include "tests/backends/slqb/fixture.h"

namespace kmem::slqb {
namespace {

class SlqbWaiting : public SlqbTest {
 protected:
  // The owner's, by way of the slab.
  SpinLock& page_lock_of(const void* object) {
    return reinterpret_cast<CacheList*>(pages::page_of(object)->head->word)->page_lock;
  }
};

TEST_F(SlqbWaiting, AnAtomicAllocationGivesUpOnAHeldLock) {
  create();
  void* const object = alloc_on(0);
  const std::size_t slabs = cache.usage().slabs;
  const std::size_t bytes = pages::usage().allocated_bytes;
  page_lock_of(object).unranked().lock();

  EXPECT_EQ(cache.alloc(gfp::atomic), nullptr);
  void* objects[3];
  EXPECT_FALSE(cache.alloc_bulk(gfp::atomic, 3, objects));

  page_lock_of(object).unranked().unlock();
  EXPECT_EQ(cache.usage().slabs, slabs);
  EXPECT_EQ(pages::usage().allocated_bytes, bytes);
}

TEST_F(SlqbWaiting, AnAtomicAllocationTakesWhatNeedsNoLock) {
  create();
  void* const object = alloc_on(0);
  void* const waiting = alloc_on(0);
  free_on(0, waiting);
  page_lock_of(object).unranked().lock();

  EXPECT_EQ(cache.alloc(gfp::atomic), waiting);

  page_lock_of(object).unranked().unlock();
  cache.free(waiting, pages::page_of(waiting));
}

}  // namespace
}  // namespace kmem::slqb
