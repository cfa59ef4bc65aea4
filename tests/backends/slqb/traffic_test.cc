// Threads that allocate for each other, while another drains, trims and retunes.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "backends/slqb/slqb.h"
#include "common/pages/pages.h"
#include "common/percpu/policies.h"

namespace kmem::slqb {
namespace {

constexpr unsigned workers = 4, rounds = 4000;
constexpr std::size_t object_bytes = 96;

// A mailbox for each worker: what others have allocated for it to free.
struct Mailbox {
  std::mutex mutex;
  std::vector<void*> objects;
};

template <class Policy>
class SlqbTraffic : public testing::Test {
 protected:
  void SetUp() override {
    percpu::set_virtual_machine(workers, 1);
    ASSERT_TRUE(cache_.create({.name = "traffic", .object_bytes = object_bytes}));
    ASSERT_TRUE(cache_.retune({.limit = 64, .batchcount = 16}));
  }

  // An object carries its own address and its taker's mark while it is live.
  static void mark(void* object, std::uint64_t by) {
    auto* const words = static_cast<std::uint64_t*>(object);
    words[1] = reinterpret_cast<std::uintptr_t>(object) ^ by;
    words[2] = by;
  }
  static bool marked(const void* object) {
    const auto* const words = static_cast<const std::uint64_t*>(object);
    return (words[1] ^ words[2]) == reinterpret_cast<std::uintptr_t>(object);
  }

  void work(unsigned self) {
    percpu::enter_virtual_cpu(self);
    std::mt19937 random(20081210 + self);
    void* batch[40];
    for (unsigned round = 0; round < rounds; ++round) {
      const std::size_t n = 1 + random() % 40;
      if (n == 1) {
        batch[0] = cache_.alloc(gfp::kernel);
        ASSERT_NE(batch[0], nullptr);
      } else {
        ASSERT_TRUE(cache_.alloc_bulk(gfp::kernel, n, batch));
      }
      for (std::size_t i = 0; i < n; ++i) mark(batch[i], self * rounds + round);
      Mailbox& to = mailboxes_[random() % workers];
      {
        std::lock_guard lock(to.mutex);
        to.objects.insert(to.objects.end(), batch, batch + n);
      }
      if (round % 3 == 0) empty(mailboxes_[self], random);
    }
  }

  void empty(Mailbox& mailbox, std::mt19937& random) {
    std::vector<void*> objects;
    {
      std::lock_guard lock(mailbox.mutex);
      objects.swap(mailbox.objects);
    }
    for (void* object : objects) ASSERT_TRUE(marked(object));
    for (void* object : objects) mark(object, 0);
    if (random() % 2 == 0) {
      cache_.free_bulk(objects.size(), objects.data());
    } else {
      for (void* object : objects) cache_.free(object, pages::page_of(object));
    }
  }

  void disturb() {
    percpu::enter_virtual_cpu(0);
    for (unsigned i = 0; !done_.load(); ++i) {
      switch (i % 4) {
        case 0:
          cache_.shrink();
          break;
        case 1:
          EXPECT_TRUE(cache_.retune({.limit = 32 + i % 64, .batchcount = 8 + i % 16}));
          break;
        case 2:
          cache_.trim();
          break;
        default:
          static_cast<void>(cache_.usage());
      }
      std::this_thread::yield();
    }
  }

  Cache<Policy> cache_;
  Mailbox mailboxes_[workers];
  std::atomic<bool> done_{false};
};

using Policies = testing::Types<percpu::Rseq, percpu::Locked, percpu::Virtual>;
TYPED_TEST_SUITE(SlqbTraffic, Policies);

TYPED_TEST(SlqbTraffic, EveryObjectIsHandedOutOnceAndComesBack) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i) threads.emplace_back([this, i] { this->work(i); });
  std::thread disturber([this] { this->disturb(); });
  for (std::thread& thread : threads) thread.join();
  this->done_ = true;
  disturber.join();
  EXPECT_STREQ(this->cache_.validate(), nullptr);

  std::mt19937 random(1);
  for (Mailbox& mailbox : this->mailboxes_) this->empty(mailbox, random);
  EXPECT_STREQ(this->cache_.validate(), nullptr);
  this->cache_.shrink();
  EXPECT_EQ(this->cache_.usage().slabs, 0U);
  EXPECT_EQ(this->cache_.destroy(), 0U);
}

}  // namespace
}  // namespace kmem::slqb
