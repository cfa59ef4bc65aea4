// A pool over a source that a test controls. Each test of pools is built once for each library's
// own backend (KMEM_BACKEND_*), over the exported calls of the static library.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "api/mempool.h"
#include "common/pages/pages.h"

namespace kmem::test {

inline Mempool* inside(mempool_t* pool) { return reinterpret_cast<Mempool*>(pool); }

// A source of numbered elements, as many as the test allows; nothing is ever handed out twice.
class Source {
 public:
  explicit Source(int left) : left_(left) {}

  static void* alloc(gfp_t, void* data) { return static_cast<Source*>(data)->take(); }
  static void free(void* element, void* data) { static_cast<Source*>(data)->put(element); }

  void allow(int more) {
    std::lock_guard lock(mutex_);
    left_ += more;
  }
  void forbid() {
    std::lock_guard lock(mutex_);
    left_ = 0;
  }
  std::size_t in_use() {
    std::lock_guard lock(mutex_);
    return out_.size();
  }
  int asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void* take() {
    std::lock_guard lock(mutex_);
    ++asked_;
    if (left_ == 0) return nullptr;
    --left_;
    void* element = std::malloc(16);
    out_.insert(element);
    return element;
  }
  void put(void* element) {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(out_.erase(element), 1u) << "freed twice, or never handed out";
    ++left_;
    std::free(element);
  }

  std::mutex mutex_;
  std::set<void*> out_;
  int left_;
  int asked_ = 0;
};

class MempoolTest : public ::testing::Test {
 protected:
  void SetUp() override { Mempool::set_retry_ms(60'000); }  // nothing may depend on it
  void TearDown() override {
    Mempool::set_retry_ms(5000);
    EXPECT_EQ(kmem_slab_errors(), 0u);
  }

  static mempool_t* make(Source& source, int min_nr) {
    mempool_t* pool = mempool_create(min_nr, Source::alloc, Source::free, &source);
    EXPECT_NE(pool, nullptr);
    return pool;
  }
  static void close(mempool_t* pool, Source& source) {
    EXPECT_EQ(inside(pool)->validate(), nullptr);
    mempool_destroy(pool);
    EXPECT_EQ(source.in_use(), 0u);
  }
  // Until so many threads sleep for an element.
  static void await_waiting(mempool_t* pool, int count) {
    while (mempool_waiting_nr(pool) != count) std::this_thread::yield();
    EXPECT_EQ(inside(pool)->validate(), nullptr);
  }
  static std::vector<void*> take_reserve(mempool_t* pool) {
    std::vector<void*> elements;
    while (void* element = mempool_alloc_preallocated(pool)) elements.push_back(element);
    return elements;
  }
};

}  // namespace kmem::test
