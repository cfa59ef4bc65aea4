// Blocks for the library's own structures: zeroed, aligned, distinct, given back without a trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "common/pages/pages.h"
#include "common/pages/zones.h"

namespace kmem::pages {
namespace {

struct Block {
  unsigned char* base;
  std::size_t bytes;
  unsigned char mark;
};

bool holds(const Block& block, unsigned char value) {
  return std::all_of(block.base, block.base + block.bytes,
                     [value](unsigned char byte) { return byte == value; });
}

Block make_block(std::size_t bytes, unsigned char mark) {
  const Block block = {static_cast<unsigned char*>(metadata_alloc(bytes)), bytes, mark};
  EXPECT_NE(block.base, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.base) % 64, 0u);
  EXPECT_TRUE(holds(block, 0));
  std::memset(block.base, mark, bytes);
  return block;
}

TEST(Metadata, EverySizeIsZeroedAlignedAndReturned) {
  ASSERT_TRUE(start());
  const std::size_t before = usage().allocated_bytes;
  for (std::size_t bytes = 1; bytes <= 3 * page_bytes; bytes += bytes < 200 ? 1 : 61) {
    const Block block = make_block(bytes, 0xff);
    EXPECT_GE(usage().allocated_bytes, before + bytes);
    metadata_free(block.base, bytes);
  }
  for (const std::size_t bytes : {std::size_t{100'000}, max_block_bytes}) {
    const Block block = make_block(bytes, 0xff);
    metadata_free(block.base, bytes);
  }
  EXPECT_EQ(usage().allocated_bytes, before);
}

TEST(Metadata, ImpossibleSizesAreNoMemory) {
  EXPECT_EQ(metadata_alloc(0), nullptr);
  EXPECT_EQ(metadata_alloc(max_block_bytes + 1), nullptr);
  EXPECT_EQ(metadata_alloc(~std::size_t{0}), nullptr);
  metadata_free(nullptr, 64);
}

TEST(Metadata, PointersIntoItAreNoBlocks) {
  void* block = metadata_alloc(256);
  const Page* page = page_of(block);
  EXPECT_EQ(page->kind, PageKind::metadata);
  EXPECT_EQ(page->owner, nullptr);
  metadata_free(block, 256);
}

TEST(Metadata, RandomTrafficKeepsContentsAndGivesEveryPageBack) {
  constexpr std::uint64_t seed = 20261130;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  release_free();
  const std::size_t before = usage().allocated_bytes;
  std::vector<Block> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() < 300 && random() % 100 < (step % 2000 < 1000 ? 60u : 40u)) {
      const std::size_t bytes = 1 + random() % (random() % 10 == 0 ? 10000 : 600);
      live.push_back(make_block(bytes, static_cast<unsigned char>(1 + random() % 255)));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(holds(live.back(), live.back().mark)) << "step " << step;
      metadata_free(live.back().base, live.back().bytes);
      live.pop_back();
    }
  }
  for (const Block& block : live) metadata_free(block.base, block.bytes);
  EXPECT_EQ(usage().allocated_bytes, before);
  release_free();
  EXPECT_EQ(validate_zones(), nullptr);
  EXPECT_EQ(usage().free_resident_bytes, 0u);
}

TEST(Metadata, ThreadsShareIt) {
  const std::size_t before = usage().allocated_bytes;
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < 4; ++worker) {
    workers.emplace_back([worker] {
      std::mt19937_64 random(worker);
      std::vector<Block> live;
      for (int step = 0; step < 4000; ++step) {
        if (live.size() < 50 && random() % 2 == 0) {
          live.push_back(make_block(1 + random() % 700, static_cast<unsigned char>(worker + 1)));
        } else if (!live.empty()) {
          ASSERT_TRUE(holds(live.back(), live.back().mark));
          metadata_free(live.back().base, live.back().bytes);
          live.pop_back();
        }
      }
      for (const Block& block : live) metadata_free(block.base, block.bytes);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(usage().allocated_bytes, before);
}

}  // namespace
}  // namespace kmem::pages
