// Pools under traffic: of many threads, with the memory gone, through resizes, signals and forks.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "tests/unit/api/mempool_fixture.h"

namespace kmem::test {
namespace {

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
}  // namespace kmem::test
