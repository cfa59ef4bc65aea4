// What the environment says about pages, each in a child: KMEM_ARENA_BYTES, KMEM_LIMIT_BYTES,
// KMEM_DECAY_MS, KMEM_FAKE_NODES; and what happens when the arena is exhausted.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "common/nodes/topology.h"
#include "common/pages/arena.h"
#include "common/pages/pages.h"
#include "common/pages/zones.h"
#include "tests/unit/common/child.h"

namespace kmem::pages {
namespace {

using kmem::testing::expect_in_child;

Page* alloc_on(int node, unsigned order, gfp_t gfp) {
  return alloc(order, node, gfp, PageKind::slab);
}

TEST(Start, TheArenaIsAsLargeAsAsked) {
  expect_in_child({{"KMEM_ARENA_BYTES", "100M"}}, [] {
    return start() && arena.page_count * page_bytes == std::size_t{100} << 20 &&
           arena.base % max_block_bytes == 0 && free_chunks() == 24;
  });
}

TEST(Start, RefusedSizesGiveTheDefaultAndOneLine) {
  for (const char* refused : {"1M", "huge", "17T", ""}) {
    expect_in_child(
        {{"KMEM_ARENA_BYTES", refused}}, [] { return start() && arena.page_count > 4096; },
        "^kmem: KMEM_ARENA_BYTES=.* refused: .*\n");
  }
}

// What this process has mapped, in bytes.
std::size_t mapped_bytes() {
  std::size_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  return mapped_pages * page_bytes;
}

TEST(Start, AnArenaThatCannotBeHadIsHalved) {
  expect_in_child(
      {{"KMEM_ARENA_BYTES", "4G"}},
      [] {
        // 1 GiB and the tables for it fit, 2 GiB do not.
        const rlim_t address_space = mapped_bytes() + (std::size_t{1536} << 20);
        const rlimit limit = {address_space, address_space};
        if (setrlimit(RLIMIT_AS, &limit) != 0 || !start()) return false;
        Page* head = alloc_on(no_node, max_order, gfp::kernel);
        return head != nullptr && arena.page_count * page_bytes == std::size_t{1} << 30;
      },
      "^kmem: arena: 1024 MiB instead of 4096 MiB could be reserved\n$");
}

TEST(Start, WithoutAnyAddressSpaceThereIsNoMemory) {
  expect_in_child({}, [] {
    const rlim_t address_space = mapped_bytes() + (std::size_t{8} << 20);
    const rlimit limit = {address_space, address_space};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    return !start() && alloc_on(no_node, 0, gfp::kernel) == nullptr &&
           metadata_alloc(64) == nullptr && alloc_run(5 << 20, no_node, gfp::kernel) == nullptr &&
           release_free() == 0 && usage().allocated_bytes == 0 && is_null_page(page_of(&limit));
  });
}

TEST(Start, AnExhaustedArenaIsNoMemoryAndRecovers) {
  expect_in_child({{"KMEM_ARENA_BYTES", "32M"}}, [] {
    std::vector<Page*> live;
    while (Page* head = alloc_on(no_node, 3, gfp::kernel)) live.push_back(head);
    if (live.size() != 7 * 128) return false;  // chunk 0 is never given out
    if (alloc_on(no_node, 0, gfp::kernel) != nullptr) return false;
    if (metadata_alloc(64) != nullptr) return false;
    for (Page* head : live) free(head);
    // All chunks are with the node, wholly free: a run must still find them.
    Page* run = alloc_run(std::size_t{28} << 20, no_node, gfp::kernel);
    if (run == nullptr || alloc_on(no_node, 0, gfp::kernel) != nullptr) return false;
    free_run(run);
    return usage().allocated_bytes == 0 && validate_zones() == nullptr;
  });
}

TEST(Start, TheLimitComesFromTheEnvironment) {
  expect_in_child({{"KMEM_LIMIT_BYTES", "40k"}}, [] {
    int count = 0;
    while (alloc_on(no_node, 0, gfp::kernel) != nullptr) ++count;
    return count == 10;
  });
}

// Whether the mapping that holds address has the flag, as the kernel tells it: "hg" where huge
// pages are asked for, "nh" where they are not wanted.
bool has_vm_flag(std::uintptr_t address, const std::string& flag) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2)
      inside = first <= address && address < end;
    if (inside && line.rfind("VmFlags:", 0) == 0)
      return (line + " ").find(" " + flag + " ") != std::string::npos;
  }
  return false;
}

TEST(Start, HugePagesAreAskedForOrRefused) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  const auto page_array = [] { return reinterpret_cast<std::uintptr_t>(arena.map); };
  expect_in_child({{"KMEM_HUGE_PAGES", "1"}}, [=] {
    return start() && has_vm_flag(arena.base, "hg") && has_vm_flag(page_array(), "hg");
  });
  expect_in_child({{"KMEM_HUGE_PAGES", "0"}},
                  [] { return start() && has_vm_flag(arena.base, "nh"); });
  expect_in_child({}, [=] {
    return start() && !has_vm_flag(arena.base, "hg") && !has_vm_flag(arena.base, "nh") &&
           has_vm_flag(page_array(), "nh");
  });
  expect_in_child(
      {{"KMEM_HUGE_PAGES", "2"}}, [] { return start(); },
      "^kmem: KMEM_HUGE_PAGES=.* refused: .*\n");
}

TEST(Start, ADecayOfNothingGivesBackWithTheTraffic) {
  expect_in_child({{"KMEM_DECAY_MS", "0"}}, [] {
    Page* block = alloc_on(no_node, 8, gfp::kernel);
    std::memset(address_of(block), 1, block_bytes(block));
    free(block);
    for (int i = 0; i < 1000; ++i) free(alloc_on(no_node, 0, gfp::kernel));
    return usage().free_resident_bytes < 128 * page_bytes && usage().releases >= 200;
  });
}

TEST(FakeNodes, AllocationsComeFromTheNodeThatWasAsked) {
  for (const char* nodes : {"1", "2", "3"}) {
    expect_in_child({{"KMEM_FAKE_NODES", nodes}}, [] {
      for (const gfp_t gfp : {gfp::kernel, gfp::kernel | gfp::thisnode}) {
        for (unsigned order = 0; order <= max_order; ++order) {
          for (int node = 0; node < nodes::count(); ++node) {
            Page* head = alloc_on(node, order, gfp);
            for (const Page* page = head; page < head + (std::size_t{1} << order); ++page)
              if (page->node != node) return false;
            free(head);
          }
        }
      }
      release_free();
      return validate_zones() == nullptr && usage().allocated_bytes == 0;
    });
  }
}

TEST(FakeNodes, AnExhaustedNodeFallsBackToItsNearestUnlessStrict) {
  expect_in_child({{"KMEM_FAKE_NODES", "3"}, {"KMEM_ARENA_BYTES", "16M"}}, [] {
    // Three chunks, one a node: each node takes a page, and with it its chunk.
    Page* first[3];
    for (int node = 0; node < 3; ++node) first[node] = alloc_on(node, 9, gfp::kernel);
    Page* strict = alloc_on(1, 9, gfp::kernel | gfp::thisnode);
    if (strict == nullptr || strict->node != 1) return false;
    if (alloc_on(1, 9, gfp::kernel | gfp::thisnode) != nullptr) return false;
    Page* fallback = alloc_on(1, 9, gfp::kernel);
    if (fallback == nullptr || fallback->node != 2) return false;  // the nearest to node 1
    for (Page* head : {first[0], first[1], first[2], strict, fallback}) free(head);
    // Wholly free chunks of the others can be had by one node, even when it is strict.
    for (int i = 0; i < 3; ++i)
      if (alloc_on(0, max_order, gfp::kernel | gfp::thisnode) == nullptr) return false;
    return alloc_on(0, 0, gfp::kernel) == nullptr;
  });
}

TEST(FakeNodes, NodesOutOfRangeMeanAnyNode) {
  expect_in_child({{"KMEM_FAKE_NODES", "2"}}, [] {
    for (const int node : {-1, 2, 64, 1 << 20})
      if (alloc_on(node, 0, gfp::kernel) == nullptr) return false;
    return true;
  });
}

}  // namespace
}  // namespace kmem::pages
