// Who is served when, what a failure leaves behind, and what a held lock means.
#include "api/chosen_backend.h"
#include "tests/unit/api/mempool_fixture.h"

namespace kmem::test {
namespace {

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

// ---- Out of memory ----

void shrink_all() {
  Kmem<Chosen>::registry().for_each([](Kmem<Chosen>::Cache& cache) { cache.shrink(); });
  kmem::pages::release_free();
}

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

}  // namespace
}  // namespace kmem::test
