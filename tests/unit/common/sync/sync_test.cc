// Locks exclude, know their order, and a Once runs once.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "common/sync/once.h"
#include "common/sync/ranked_lock.h"

namespace kmem {
namespace {

template <class Lock>
std::uint64_t count_under(Lock& lock, int threads, int rounds) {
  std::uint64_t plain_counter = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        if (round % 4 == 0) {
          while (!lock.try_lock()) std::this_thread::yield();
        } else {
          lock.lock();
        }
        ++plain_counter;
        lock.unlock();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return plain_counter;
}

TEST(SpinLock, ExcludesMoreThreadsThanCpus) {
  SpinLock lock(LockRank::node);
  EXPECT_EQ(count_under(lock, 8, 20000), 160000u);
}

TEST(RankedSpinLock, IsFreeWhenAllZerosAndExcludes) {
  alignas(64) unsigned char zeros[64] = {};
  auto& lock = *new (zeros) RankedSpinLock<LockRank::node>;
  EXPECT_EQ(count_under(lock, 4, 20000), 80000u);
}

TEST(SpinLock, TryLockFailsWhileHeldElsewhere) {
  SpinLock lock(LockRank::node);
  Guard guard(lock);
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
}

TEST(SpinLock, RisingRanksMayBeHeldTogetherAndReleasedInAnyOrder) {
  SpinLock cpu(LockRank::cpu), node(LockRank::node), buddy(LockRank::buddy);
  cpu.lock();
  node.lock();
  buddy.lock();
  node.unlock();
  buddy.unlock();
  EXPECT_TRUE(node.try_lock());
  node.unlock();
  cpu.unlock();
}

#ifndef NDEBUG
TEST(RankDeathTest, FallingRankNamesBothLocks) {
  SpinLock cpu(LockRank::cpu), node(LockRank::node);
  EXPECT_DEATH(
      {
        node.lock();
        cpu.lock();
      },
      "lock order broken: cpu taken while node is held");
  EXPECT_DEATH(
      {
        node.lock();
        static_cast<void>(cpu.try_lock());
      },
      "lock order broken: cpu taken while node is held");
}

TEST(RankDeathTest, TwoLocksOfOneRankAreRefused) {
  SpinLock first(LockRank::buddy);
  RankedSpinLock<LockRank::buddy> second;
  EXPECT_DEATH(
      {
        first.lock();
        second.lock();
      },
      "lock order broken: buddy taken while buddy is held");
}

TEST(RankDeathTest, UnlockingWhatIsNotHeldIsRefused) {
  SpinLock lock(LockRank::heap);
  EXPECT_DEATH(lock.unlock(), "lock heap released by a thread that does not hold it");
}
#endif

TEST(Once, RunsOnceAndOthersSeeWhatItWrote) {
  Once once;
  int runs = 0;
  int value = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < 8; ++i) {
    workers.emplace_back([&] {
      once([&] {
        ++runs;
        value = 42;
      });
      EXPECT_EQ(value, 42);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(once.done());
}

}  // namespace
}  // namespace kmem
