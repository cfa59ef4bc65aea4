// Real threads under every policy: hand-over between threads, bulk, and drains beside them. Nothing
// is lost: at the end the cache is valid and gives everything back.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "backends/slub/slub.h"

namespace kmem::slub {
namespace {

// Objects on their way from one thread to another.
class Exchange {
 public:
  void put(std::vector<void*>&& objects) {
    std::lock_guard guard(mutex_);
    batches_.push_back(std::move(objects));
  }
  std::vector<void*> take() {
    std::lock_guard guard(mutex_);
    if (batches_.empty()) return {};
    auto batch = std::move(batches_.back());
    batches_.pop_back();
    return batch;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<void*>> batches_;
};

template <class Policy>
class SlubTraffic : public ::testing::Test {
 protected:
  static constexpr std::size_t bytes = 192;

  void* claim(void* object, std::uint64_t tag) {
    auto* words = static_cast<std::uint64_t*>(object);
    for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = tag;
    return object;
  }
  void check(void* object) {
    const auto* words = static_cast<std::uint64_t*>(object);
    for (std::size_t i = 1; i < bytes / 8; ++i) {
      if (words[i] != words[0]) damaged_.fetch_add(1);
    }
  }

  void work(unsigned id, std::uint64_t seed, int steps) {
    percpu::enter_virtual_cpu(id % 4);
    std::mt19937_64 random(seed + id);
    std::vector<void*> mine;
    for (int step = 0; step < steps; ++step) {
      const std::size_t n = random() % 50;
      const std::uint64_t tag = seed ^ (std::uint64_t{id} << 32 | static_cast<unsigned>(step));
      switch (random() % 5) {
        case 0:
          mine.push_back(claim(cache_.alloc(gfp::kernel), tag));
          break;
        case 1: {
          std::vector<void*> got(n);
          if (!cache_.alloc_bulk(gfp::kernel, n, got.data())) damaged_.fetch_add(1);
          for (void* object : got) mine.push_back(claim(object, tag));
          break;
        }
        case 2:
          for (std::size_t i = 0; i < n && !mine.empty(); ++i) {
            check(mine.back());
            cache_.free(mine.back(), pages::page_of(mine.back()));
            mine.pop_back();
          }
          break;
        case 3:
          exchange_.put(std::move(mine));
          mine = exchange_.take();
          break;
        case 4:
          for (void* object : mine) check(object);
          cache_.free_bulk(mine.size(), mine.data());
          mine = exchange_.take();
          break;
      }
    }
    exchange_.put(std::move(mine));
  }

  Cache<Policy> cache_;
  Exchange exchange_;
  std::atomic<std::uint64_t> damaged_{0};
};

using Policies = ::testing::Types<percpu::Rseq, percpu::Locked, percpu::Virtual, percpu::Atomic>;
TYPED_TEST_SUITE(SlubTraffic, Policies);

TYPED_TEST(SlubTraffic, NothingIsLostBesideDrains) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  CacheSpec spec;
  spec.name = "traffic";
  spec.object_bytes = this->bytes;
  ASSERT_TRUE(this->cache_.create(spec));
  constexpr unsigned threads = 6;
  std::atomic<unsigned> running{threads};
  std::vector<std::thread> workers;
  for (unsigned id = 0; id < threads; ++id) {
    workers.emplace_back([&, id] {
      this->work(id, seed, 30000);
      running.fetch_sub(1);
    });
  }
  for (int round = 0; running.load() != 0; ++round) {
    if (round % 2 == 0) {
      this->cache_.shrink();
    } else {
      this->cache_.usage();
    }
    std::this_thread::yield();
  }
  for (auto& worker : workers) worker.join();
  EXPECT_STREQ(this->cache_.validate(), nullptr);
  for (auto batch = this->exchange_.take();; batch = this->exchange_.take()) {
    if (batch.empty()) {
      batch = this->exchange_.take();  // an empty batch may lie above others
      if (batch.empty()) break;
    }
    for (void* object : batch) this->check(object);
    this->cache_.free_bulk(batch.size(), batch.data());
  }
  EXPECT_EQ(this->damaged_.load(), 0u);
  this->cache_.shrink();
  EXPECT_STREQ(this->cache_.validate(), nullptr);
  EXPECT_EQ(this->cache_.destroy(), 0u);
}

}  // namespace
}  // namespace kmem::slub
