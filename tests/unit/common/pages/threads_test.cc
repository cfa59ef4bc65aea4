// Eight threads allocate, fill, hand over and free blocks of random orders while others release and
// decay: no page is ever two threads', and at the end everything is accounted for.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "common/pages/arena.h"
#include "common/pages/pages.h"
#include "common/pages/zones.h"

namespace kmem::pages {
namespace {

constexpr int thread_count = 8;
constexpr int steps = 6000;

// Slots through which blocks change hands.
std::array<std::atomic<Page*>, 16> hand_over;

// The first word of each page names its block; a page that two blocks shared would be seen here.
void mark(Page* head) {
  for (std::size_t offset = 0; offset < block_bytes(head); offset += page_bytes)
    *reinterpret_cast<Page**>(address_of(head) + offset) = head;
}
bool marked(const Page* head) {
  for (std::size_t offset = 0; offset < block_bytes(head); offset += page_bytes)
    if (*reinterpret_cast<Page**>(address_of(head) + offset) != head) return false;
  return true;
}

void check_and_free(Page* head) {
  ASSERT_TRUE(marked(head));
  ASSERT_EQ(head->head, head);
  free(head);
}

unsigned random_order(std::mt19937_64& random) {
  if (random() % 4 != 0) return 0;
  return static_cast<unsigned>(random() % 100 == 0 ? random() % (max_order + 1) : random() % 5);
}

void work(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Page*> live;
  for (int step = 0; step < steps; ++step) {
    const auto dice = random() % 100;
    if (dice < 50 && live.size() < 150) {
      Page* head = alloc(random_order(random), no_node, gfp::kernel, PageKind::slab);
      ASSERT_NE(head, nullptr);
      mark(head);
      live.push_back(head);
    } else if (dice < 70 && !live.empty()) {
      // Acquire and release: the block's marks and descriptor change hands with the pointer.
      Page* other =
          hand_over[random() % hand_over.size()].exchange(live.back(), std::memory_order_acq_rel);
      live.pop_back();
      if (other != nullptr) live.push_back(other);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_NO_FATAL_FAILURE(check_and_free(live.back()));
      live.pop_back();
    }
    if (random() % 1000 == 0) release_free();
    if (random() % 500 == 0) static_cast<void>(usage());
  }
  for (Page* head : live) check_and_free(head);
}

TEST(PagesThreads, EverythingIsAccountedForAtTheEnd) {
  constexpr std::uint64_t seed = 77;
  SCOPED_TRACE("seed " + std::to_string(seed));
  ASSERT_TRUE(start());
  const std::size_t chunks = free_chunks();
  const Usage before = usage();
  std::vector<std::thread> workers;
  for (int i = 0; i < thread_count; ++i)
    workers.emplace_back(work, seed + static_cast<std::uint64_t>(i));
  for (std::thread& worker : workers) worker.join();
  for (std::atomic<Page*>& slot : hand_over)
    if (Page* head = slot.exchange(nullptr)) check_and_free(head);

  const Usage after = usage();
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.allocations - before.allocations, after.frees - before.frees);
  EXPECT_GT(after.allocations, before.allocations);
  release_free();
  EXPECT_EQ(validate_zones(), nullptr);
  EXPECT_EQ(usage().free_resident_bytes, 0u);
  EXPECT_EQ(free_chunks(), chunks);
}

TEST(PagesThreads, TheLimitHoldsUnderContention) {
  constexpr std::size_t limit_pages = 200;
  set_limit_bytes(limit_pages * page_bytes);
  std::atomic<std::size_t> live_pages{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < 4; ++worker) {
    workers.emplace_back([&, worker] {
      std::mt19937_64 random(worker);
      std::vector<Page*> live;
      for (int step = 0; step < 5000; ++step) {
        Page* head = random() % 100 < 55 ? alloc(static_cast<unsigned>(random() % 3), no_node,
                                                 gfp::kernel, PageKind::slab)
                                         : nullptr;
        if (head != nullptr) {
          const std::size_t pages = std::size_t{1} << head->order;
          if (live_pages.fetch_add(pages) + pages > limit_pages) exceeded = true;
          live.push_back(head);
        } else if (!live.empty()) {
          live_pages.fetch_sub(std::size_t{1} << live.back()->order);
          free(live.back());
          live.pop_back();
        }
      }
      for (Page* page : live) {
        live_pages.fetch_sub(std::size_t{1} << page->order);
        free(page);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  set_limit_bytes(0);
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(live_pages, 0u);
  EXPECT_EQ(usage().allocated_bytes, 0u);
}

// Locks that other threads hold at the moment of the fork must be free in the child.
TEST(PagesThreads, AForkedChildAllocatesAndFrees) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&stop, worker] {
      std::mt19937_64 random(worker);
      while (!stop.load(std::memory_order_relaxed)) {
        free(alloc(random_order(random), no_node, gfp::kernel, PageKind::slab));
        metadata_free(metadata_alloc(320), 320);
        if (random() % 64 == 0) release_free();
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    prepare_fork();
    const pid_t child = fork();
    after_fork();
    if (child == 0) {
      alarm(20);  // a lock left held would hang the child
      for (unsigned order = 0; order <= max_order; ++order)
        free(alloc(order, no_node, gfp::kernel, PageKind::slab));
      metadata_free(metadata_alloc(320), 320);
      release_free();
      _exit(validate_zones() == nullptr ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "round " << round;
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace kmem::pages
