// A cache over the one heap, and the check that every test leaves that heap as it found it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backends/slob/slob.h"
#include "common/base/log.h"
#include "common/debug/report.h"

namespace kmem::slob {

struct Destroyer {
  void operator()(Cache* cache) const noexcept {
    EXPECT_EQ(cache->validate(), nullptr);
    EXPECT_EQ(cache->destroy(), 0u);
    delete cache;
  }
};
using CachePointer = std::unique_ptr<Cache, Destroyer>;

inline CachePointer make_cache(const CacheSpec& spec) {
  CachePointer cache(new Cache);
  EXPECT_TRUE(cache->create(spec));
  return cache;
}
inline CachePointer make_cache(std::size_t bytes, std::size_t align = 0) {
  return make_cache({.name = "test", .object_bytes = bytes, .align = align});
}

inline void free_in(Cache& cache, void* object) {
  pages::Page* page = pages::page_of(object);
  ASSERT_TRUE(cache.owns(page, object));
  cache.free(object, page);
}

class SlobTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pages::start());
    set_log_hook([](void*, const char*) {}, nullptr);  // expected reports are not printed
    allocated_bytes_ = pages::usage().allocated_bytes;
    kmalloc_live_ = heap().kmalloc_live();
  }
  void TearDown() override {
    pages::fail_allocation(0);
    EXPECT_EQ(heap().kmalloc_live(), kmalloc_live_);
    if (!leaves_pages_) {
      EXPECT_EQ(pages::usage().allocated_bytes, allocated_bytes_);
    }
    set_log_hook(nullptr, nullptr);
  }
  // For tests that destroy a cache with objects in use.
  void leaves_pages() { leaves_pages_ = true; }

 private:
  std::size_t allocated_bytes_ = 0;
  std::size_t kmalloc_live_ = 0;
  bool leaves_pages_ = false;
};

}  // namespace kmem::slob
