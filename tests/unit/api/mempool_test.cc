// Memory pools where more than one thread, a limit, a signal or a fork is in it. Built once for
// each library's own backend (KMEM_BACKEND_*), over the exported calls of the static library.
#include "api/mempool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "api/chosen_backend.h"

namespace {

using Kmem = kmem::Kmem<kmem::Chosen>;
using kmem::Mempool;

Mempool* inside(mempool_t* pool) { return reinterpret_cast<Mempool*>(pool); }

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

// ---- Waiting ----

TEST_F(MempoolTest, WaitersAreServedInTheOrderOfComing) {
  constexpr int count = 6;
  Source source(count);
  mempool_t* pool = make(source, count);
  std::vector<void*> elements = take_reserve(pool);
  void* got[count] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back(
        [&, i] { got[i] = mempool_alloc(pool, i % 2 == 0 ? GFP_KERNEL : GFP_NOIO); });
    await_waiting(pool, i + 1);
  }
  for (int i = 0; i < count; ++i) {
    mempool_free(elements[static_cast<std::size_t>(i)], pool);
    EXPECT_EQ(mempool_waiting_nr(pool), count - i - 1);
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(got[i], elements[static_cast<std::size_t>(i)]) << "waiter " << i;
  }
  for (void* element : got) mempool_free(element, pool);
  EXPECT_EQ(mempool_curr_nr(pool), count);
  close(pool, source);
}

TEST_F(MempoolTest, ALateComerDoesNotOvertakeAWaiter) {
  Source source(2);
  mempool_t* pool = make(source, 2);
  std::vector<void*> elements = take_reserve(pool);
  void* got[2] = {};
  std::thread first([&] { got[0] = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 1);
  EXPECT_EQ(mempool_alloc(pool, GFP_NOWAIT), nullptr);
  EXPECT_EQ(mempool_alloc_preallocated(pool), nullptr);
  // The source has one again: it goes to who waits, and the late-comer waits in turn.
  source.allow(1);
  std::thread second([&] { got[1] = mempool_alloc(pool, GFP_KERNEL); });
  first.join();
  await_waiting(pool, 1);
  mempool_free(elements[0], pool);
  second.join();
  EXPECT_NE(got[0], nullptr);
  EXPECT_EQ(got[1], elements[0]);
  for (void* element : {got[0], got[1], elements[1]}) mempool_free(element, pool);
  close(pool, source);
}

TEST_F(MempoolTest, WhoCannotWaitKeepsWhatTheSourceGaveIt) {
  Source source(1);
  mempool_t* pool = make(source, 1);
  std::vector<void*> elements = take_reserve(pool);
  void* got = nullptr;
  std::thread waiter([&] { got = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 1);
  source.allow(1);
  void* mine = mempool_alloc(pool, GFP_ATOMIC);
  EXPECT_NE(mine, nullptr);
  EXPECT_EQ(mempool_waiting_nr(pool), 1);
  mempool_free(mine, pool);
  waiter.join();
  EXPECT_EQ(got, mine);
  mempool_free(got, pool);
  mempool_free(elements[0], pool);
  close(pool, source);
}

TEST_F(MempoolTest, ABulkRequestCollectsItsElementsBeforeLaterOnesGetAny) {
  Source source(5);
  mempool_t* pool = make(source, 5);
  std::vector<void*> elements = take_reserve(pool);
  mempool_free(elements[0], pool);
  void* many[4] = {};
  void* one = nullptr;
  std::thread bulk([&] { EXPECT_EQ(mempool_alloc_bulk(pool, many, 4, 0), 0); });
  await_waiting(pool, 1);
  EXPECT_EQ(mempool_curr_nr(pool), 0);
  std::thread single([&] { one = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 2);
  mempool_free(elements[1], pool);
  mempool_free(elements[2], pool);
  EXPECT_EQ(mempool_waiting_nr(pool), 2);
  EXPECT_EQ(mempool_free_bulk(pool, &elements[3], 2), 2u);
  bulk.join();
  single.join();
  EXPECT_EQ(std::set<void*>(many, many + 4),
            std::set<void*>(elements.begin(), elements.begin() + 4));
  EXPECT_EQ(one, elements[4]);
  EXPECT_EQ(mempool_free_bulk(pool, many, 4), 4u);
  mempool_free(one, pool);
  close(pool, source);
}

TEST_F(MempoolTest, AWaiterAsksTheSourceAgainAfterAWhile) {
  Mempool::set_retry_ms(20);
  Source source(2);
  mempool_t* pool = make(source, 2);
  std::vector<void*> elements = take_reserve(pool);
  void* got[2] = {};
  std::thread first([&] { got[0] = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 1);
  std::thread second([&] { got[1] = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 2);
  source.allow(2);  // memory was freed elsewhere; nobody frees an element
  first.join();
  second.join();
  EXPECT_NE(got[0], nullptr);
  EXPECT_NE(got[1], nullptr);
  for (void* element : {got[0], got[1], elements[0], elements[1]}) mempool_free(element, pool);
  close(pool, source);
}

TEST_F(MempoolTest, DestroyIsRefusedWhileThreadsWait) {
  Source source(1);
  mempool_t* pool = make(source, 1);
  std::vector<void*> elements = take_reserve(pool);
  void* got = nullptr;
  std::thread waiter([&] { got = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 1);
  ::testing::internal::CaptureStderr();
  errno = 0;
  mempool_destroy(pool);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "kmem: mempool_destroy: threads wait on the pool: it stays\n");
  mempool_free(elements[0], pool);
  waiter.join();
  mempool_free(got, pool);
  close(pool, source);
}

TEST_F(MempoolTest, GrowingServesWaitersFirst) {
  Source source(1);
  mempool_t* pool = make(source, 1);
  std::vector<void*> elements = take_reserve(pool);
  void* got = nullptr;
  std::thread waiter([&] { got = mempool_alloc(pool, GFP_KERNEL); });
  await_waiting(pool, 1);
  source.allow(3);
  EXPECT_EQ(mempool_resize(pool, 2), 0);
  waiter.join();
  EXPECT_NE(got, nullptr);
  mempool_free(got, pool);
  mempool_free(elements[0], pool);
  EXPECT_EQ(mempool_curr_nr(pool), 2);
  close(pool, source);
}

// ---- Traffic ----

// Each thread has at most one element when it waits, as a pool demands.
TEST_F(MempoolTest, ManyThreadsShareAReserveWithoutLosingOne) {
  constexpr int threads = 8, rounds = 3000;
  Source source(2);
  mempool_t* pool = make(source, 2);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      void* many[2];
      for (int round = 0; round < rounds; ++round) {
        if ((round + t) % 5 == 0) {
          many[0] = many[1] = nullptr;
          ASSERT_EQ(mempool_alloc_bulk(pool, many, 2, 0), 0);
          ASSERT_NE(many[0], many[1]);
          if (mempool_free_bulk(pool, many, 2) == 2) continue;
          ADD_FAILURE() << "the reserve had no room for its own";
        }
        void* element = mempool_alloc(pool, GFP_KERNEL);
        ASSERT_NE(element, nullptr);
        std::memset(element, t, 16);
        ASSERT_EQ(static_cast<unsigned char*>(element)[15], t);
        mempool_free(element, pool);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(mempool_curr_nr(pool), 2);
  EXPECT_EQ(mempool_waiting_nr(pool), 0);
  close(pool, source);
}

TEST_F(MempoolTest, ResizeUpAndDownUnderTraffic) {
  constexpr int threads = 4, rounds = 300;
  Source source(64);
  mempool_t* pool = make(source, 8);
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      while (!stop.load()) {
        std::vector<void*> held;
        while (void* element = mempool_alloc(pool, GFP_NOWAIT)) held.push_back(element);
        for (void* element : held) mempool_free(element, pool);
        void* element = mempool_alloc(pool, GFP_KERNEL);
        ASSERT_NE(element, nullptr);
        mempool_free(element, pool);
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    const int min_nr = 1 + (round * 7) % 40;
    ASSERT_EQ(mempool_resize(pool, min_nr), 0);
    ASSERT_EQ(mempool_min_nr(pool), min_nr);
    ASSERT_EQ(inside(pool)->validate(), nullptr);
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(mempool_resize(pool, 10), 0);
  EXPECT_EQ(mempool_curr_nr(pool), 10);
  close(pool, source);
}

void shrink_all() {
  Kmem::registry().for_each([](Kmem::Cache& cache) { cache.shrink(); });
  kmem::pages::release_free();
}

// The memory is gone: who may wait gets an element all the same, who may not is told so.
TEST_F(MempoolTest, ALimitOnMemoryStopsOnlyThoseWhoCannotWait) {
  constexpr int threads = 8, rounds = 200, reserve = 3;
  constexpr std::size_t object_bytes = 3000;
  kmem_cache* cache = kmem_cache_create("limited", object_bytes, 0, SLAB_NO_MERGE, nullptr);
  mempool_t* pool = mempool_create_slab_pool(reserve, cache);
  ASSERT_NE(pool, nullptr);
  kmem::pages::set_limit_bytes(kmem::pages::usage().allocated_bytes + (1u << 20));
  std::vector<void*> hogged;
  while (void* object = kmem_cache_alloc(cache, GFP_KERNEL)) hogged.push_back(object);
  std::atomic<int> refused{0}, granted{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        std::vector<void*> held;
        errno = 0;
        while (void* element = mempool_alloc(pool, round % 2 == 0 ? GFP_ATOMIC : GFP_NOWAIT)) {
          std::memset(element, t, object_bytes);
          held.push_back(element);
        }
        ASSERT_EQ(errno, ENOMEM);
        ++refused;
        for (void* element : held) {
          ASSERT_EQ(static_cast<unsigned char*>(element)[object_bytes - 1], t);
          mempool_free(element, pool);
        }
        void* element = mempool_alloc(pool, round % 2 == 0 ? GFP_KERNEL : GFP_NOIO);
        ASSERT_NE(element, nullptr);
        std::memset(element, t, object_bytes);
        std::this_thread::yield();
        ASSERT_EQ(static_cast<unsigned char*>(element)[0], t);
        ++granted;
        mempool_free(element, pool);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(refused, threads * rounds);
  EXPECT_EQ(granted, threads * rounds);
  EXPECT_EQ(mempool_curr_nr(pool), reserve);
  kmem::pages::set_limit_bytes(0);
  kmem_cache_free_bulk(cache, hogged.size(), hogged.data());
  mempool_destroy(pool);
  kmem_cache_destroy(cache);
}

// ---- Out of memory ----

// The k-th allocation of all that creating and growing pools makes fails, for every k.
TEST_F(MempoolTest, EveryFailureOfCreatingIsUndone) {
  kmem_cache* cache = kmem_cache_create("unlucky", 500, 0, SLAB_NO_MERGE, nullptr);
  const auto live_once = [&] {
    mempool_t placed;
    mempool_t* pools[] = {mempool_create_slab_pool(40, cache),
                          mempool_create_kmalloc_pool(30, 2000), mempool_create_page_pool(5, 2)};
    for (mempool_t* pool : pools) {
      if (pool == nullptr) {
        EXPECT_EQ(errno, ENOMEM);
        continue;
      }
      const int result = mempool_resize(pool, 600);
      EXPECT_EQ(mempool_min_nr(pool) == 600, result == 0);
      void* element = mempool_alloc(pool, GFP_KERNEL);
      EXPECT_NE(element, nullptr);
      mempool_free(element, pool);
      EXPECT_EQ(mempool_resize(pool, 3), 0);
      EXPECT_EQ(inside(pool)->validate(), nullptr);
      mempool_destroy(pool);
    }
    const int result = mempool_init_slab_pool(&placed, 700, cache);
    EXPECT_TRUE(result == 0 || result == -ENOMEM);
    EXPECT_EQ(mempool_initialized(&placed), result == 0);
    mempool_exit(&placed);
    shrink_all();
  };
  live_once();
  live_once();
  const std::size_t before = kmem::pages::usage().allocated_bytes;
  const auto attempts_before = kmem::pages::allocation_attempts();
  live_once();
  const auto attempts = kmem::pages::allocation_attempts() - attempts_before;
  ASSERT_EQ(kmem::pages::usage().allocated_bytes, before);
  // Most of the many are slabs; all of the first, then each hundredth.
  for (std::uint64_t k = 1; k <= attempts; k += k < 150 ? 1 : 97) {
    for (const bool all_after : {false, true}) {
      kmem::pages::fail_allocation(k, all_after);
      live_once();
      kmem::pages::fail_allocation(0);
      ASSERT_EQ(kmem::pages::usage().allocated_bytes, before) << k << " of " << attempts;
    }
  }
  kmem_cache_destroy(cache);
}

// ---- Signals and fork ----

// fork's own handlers hold every pool's lock, as an interrupted thread would hold one.
TEST_F(MempoolTest, WhoInterruptedAHolderOfTheLockFindsTheReserveEmpty) {
  Source source(3);
  mempool_t* pool = make(source, 2);
  Mempool::prepare_fork();
  void* from_source = mempool_alloc(pool, GFP_ATOMIC);
  void* from_reserve = mempool_alloc(pool, GFP_NOWAIT);
  void* preallocated = mempool_alloc_preallocated(pool);
  Mempool::after_fork(false);
  EXPECT_NE(from_source, nullptr);
  EXPECT_EQ(from_reserve, nullptr);
  EXPECT_EQ(preallocated, nullptr);
  from_reserve = mempool_alloc(pool, GFP_NOWAIT);
  EXPECT_NE(from_reserve, nullptr);
  mempool_free(from_source, pool);
  mempool_free(from_reserve, pool);
  close(pool, source);
}

struct HandlerWork {
  mempool_t* pool = nullptr;
  void* elements[400] = {};
  std::atomic<int> runs{0}, got{0}, refused{0};
};
HandlerWork handler_work;

void allocate_in_handler(int) {
  HandlerWork& work = handler_work;
  const int errno_before = errno;
  const int run = work.runs.fetch_add(1);
  if (run < 400) {
    errno = 0;
    void* element = run % 4 == 3 ? mempool_alloc_preallocated(work.pool)
                                 : mempool_alloc(work.pool, run % 2 == 0 ? GFP_ATOMIC : GFP_NOWAIT);
    work.elements[run] = element;
    if (element != nullptr) {
      ++work.got;
    } else if (errno == ENOMEM) {
      ++work.refused;
    }
  }
  errno = errno_before;
}

// Signals at a thread that is busy in the same pool and cache; each handler ends, with an element
// or with NULL.
TEST_F(MempoolTest, AHandlerAllocatesOverTrafficOfItsOwnThread) {
  constexpr int signals = 400;
  kmem_cache* cache = kmem_cache_create("interrupted", 256, 0, SLAB_NO_MERGE, nullptr);
  handler_work.pool = mempool_create_slab_pool(64, cache);
  ASSERT_NE(handler_work.pool, nullptr);
  struct sigaction action = {};
  struct sigaction old_action = {};
  action.sa_handler = allocate_in_handler;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old_action), 0);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load()) {
      void* reserved = mempool_alloc_preallocated(handler_work.pool);
      void* element = mempool_alloc(handler_work.pool, GFP_KERNEL);
      EXPECT_NE(element, nullptr);
      mempool_free(element, handler_work.pool);
      mempool_free(reserved, handler_work.pool);
    }
  });
  for (int i = 0; i < signals; ++i) {
    ASSERT_EQ(pthread_kill(busy.native_handle(), SIGUSR1), 0);
    while (handler_work.runs.load() <= i) std::this_thread::yield();
  }
  stop = true;
  busy.join();
  EXPECT_EQ(handler_work.got + handler_work.refused, signals);
  EXPECT_GT(handler_work.got, 0);
  for (void* element : handler_work.elements) mempool_free(element, handler_work.pool);
  EXPECT_EQ(sigaction(SIGUSR1, &old_action, nullptr), 0);
  EXPECT_EQ(mempool_curr_nr(handler_work.pool), 64);
  mempool_destroy(handler_work.pool);
  kmem_cache_destroy(cache);
}

// A child's use of a pool that was in traffic, and of one of its own; 0, or what was wrong.
int use_in_child(mempool_t* pool) {
  if (mempool_waiting_nr(pool) != 0) return 2;
  if (inside(pool)->validate() != nullptr) return 3;
  for (int i = 0; i < 100; ++i) {
    void* element = mempool_alloc(pool, GFP_KERNEL);
    if (element == nullptr) return 4;
    mempool_free(element, pool);
  }
  mempool_t* own = mempool_create_kmalloc_pool(4, 300);
  if (own == nullptr) return 5;
  void* element = mempool_alloc(own, GFP_KERNEL);
  mempool_free(element, own);
  mempool_destroy(own);
  if (mempool_resize(pool, 20) != 0) return 6;
  mempool_destroy(pool);
  return kmem_slab_errors() == 0 ? 0 : 7;
}

TEST_F(MempoolTest, AChildUsesPoolsThatWereInTraffic) {
  constexpr int forks = 30;
  kmem_cache* cache = kmem_cache_create("forked", 128, 0, SLAB_NO_MERGE, nullptr);
  mempool_t* pool = mempool_create_slab_pool(8, cache);
  Source empty(1);
  mempool_t* contended = make(empty, 1);  // always has waiters
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        void* element = mempool_alloc(pool, GFP_KERNEL);
        void* reserved = mempool_alloc_preallocated(pool);
        void* fought_for = mempool_alloc(contended, GFP_KERNEL);
        mempool_free(fought_for, contended);
        mempool_free(element, pool);
        mempool_free(reserved, pool);
      }
    });
  }
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a deadlock ends the child, and the test says so
      const int result = use_in_child(pool);
      _exit(result != 0 ? result : mempool_waiting_nr(contended) == 0 ? 0 : 8);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " at fork " << i;
    ASSERT_EQ(WEXITSTATUS(status), 0) << "at fork " << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  close(contended, empty);
  EXPECT_EQ(mempool_curr_nr(pool), 8);
  mempool_destroy(pool);
  kmem_cache_destroy(cache);
}

}  // namespace
