// fork() while other threads allocate, free and shrink: the child's lists are whole and its locks
// free. Built once for each library's own backend (KMEM_BACKEND_*).
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "api/chosen_backend.h"

namespace {

using Kmem = kmem::Kmem<kmem::Chosen>;
using Cache = Kmem::Cache;

constexpr int forks = 40;
constexpr int hammers = 4;

Cache* make_cache(const char* name) {
  kmem::CacheSpec spec;
  spec.name = name;
  spec.object_bytes = 192;
  spec.flags = kmem::slab_flag::no_merge;
  return Kmem::create(spec);
}

// Bulk and single, up to a few hundred objects, so that every list is in motion.
void hammer(Cache* cache, std::atomic<bool>& stop) {
  void* batch[64];
  while (!stop.load(std::memory_order_relaxed)) {
    std::vector<void*> held;
    for (int i = 0; i < 200; ++i) held.push_back(cache->alloc(0));
    if (cache->alloc_bulk(0, 64, batch)) cache->free_bulk(64, batch);
    void* block = Kmem::kmalloc(300, 0);
    for (void* object : held) cache->free(object);
    Kmem::kfree(block);
    cache->shrink();
  }
}

// Everything that a child may want; its exit status says what was wrong.
int use_everything(Cache* cache) {
  void* batch[64];
  for (int round = 0; round < 4; ++round) {
    if (!cache->alloc_bulk(0, 64, batch)) return 2;
    cache->free_bulk(64, batch);
    void* block = Kmem::kmalloc(5000, 0);
    if (block == nullptr) return 3;
    Kmem::kfree(block);
  }
  cache->shrink();
  Cache* own = make_cache("child");
  if (own == nullptr) return 4;
  void* object = own->alloc(0);
  own->free(object);
  Kmem::destroy(own);
  return kmem::debug::report_count() == 0 ? 0 : 5;
}

TEST(Fork, ChildUsesEveryCacheWhileThreadsWereInTraffic) {
  Cache* cache = make_cache("fork");
  ASSERT_NE(cache, nullptr);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < hammers; ++i) threads.emplace_back([&] { hammer(cache, stop); });
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a deadlock ends the child, and the test says so
      _exit(use_everything(cache));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " at fork " << i;
    ASSERT_EQ(WEXITSTATUS(status), 0) << "at fork " << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  cache->shrink();
  EXPECT_EQ(cache->backend().validate(), nullptr);
  Kmem::destroy(cache);
  EXPECT_EQ(kmem::debug::report_count(), 0u);
}

}  // namespace
