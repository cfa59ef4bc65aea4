// kmalloc, krealloc, kvmalloc, ksize: sizes, alignment, limits, and objects of caches among them.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "common/debug/report.h"
#include "common/nodes/topology.h"
#include "tests/support/world_test.h"

namespace kmem::test {
namespace {

class Kmalloc : public WorldTest {
 protected:
  // A power of two: to itself, beyond a page to a page. Others: to their largest power-of-two
  // divisor; SLOB: to a word.
  std::size_t promised_align(std::size_t bytes) const {
    const std::size_t divisor = bytes & (~bytes + 1);
    if (divisor == bytes) return std::max<std::size_t>(8, std::min(bytes, pages::page_bytes));
    if (is_slob()) return 8;
    return std::max<std::size_t>(8, std::min(divisor, pages::page_bytes));
  }

  // What must hold of a block of bytes; frees it.
  void check_block(void* block, std::size_t bytes) {
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_TRUE(aligned(block, promised_align(bytes))) << bytes << " at " << block;
    const std::size_t usable = world().ksize(block);
    EXPECT_GE(usable, bytes);
    if (is_slob()) {  // its ksize counts units of 2 bytes, its roundup words
      EXPECT_LE(usable, world().size_roundup(bytes)) << bytes;
    } else {
      EXPECT_EQ(usable, world().size_roundup(bytes)) << bytes;
    }
    fill(block, usable, bytes);
    EXPECT_TRUE(holds(block, usable, bytes));
    world().kfree(block);
  }
};
KMEM_ALL_WORLDS(Kmalloc);

void* const size_zero = reinterpret_cast<void*>(16);

TEST_P(Kmalloc, EverySmallSizeIsAlignedAndAsLargeAsKsizeSays) {
  for (std::size_t bytes = 1; bytes <= 1100; ++bytes) check_block(world().kmalloc(bytes), bytes);
}

TEST_P(Kmalloc, LargeSizesUpToTheLimit) {
  for (std::size_t power = 1024; power <= pages::max_block_bytes; power *= 2) {
    for (const std::size_t bytes : {power - 1, power, power + 1, power + 8, power + power / 2}) {
      if (bytes <= pages::max_block_bytes) check_block(world().kmalloc(bytes), bytes);
    }
  }
}

TEST_P(Kmalloc, NeighboursDoNotOverlap) {
  Random random("kmalloc");
  struct Block {
    void* at;
    std::size_t bytes;
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < scaled(1500); ++i) {
    const std::size_t bytes = random.between(1, random.chance(90) ? 600 : 20000);
    void* block = world().kmalloc(bytes);
    ASSERT_NE(block, nullptr);
    fill(block, world().ksize(block), i);
    blocks.push_back({block, world().ksize(block)});
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_TRUE(holds(blocks[i].at, blocks[i].bytes, i)) << "block " << i;
    world().kfree(blocks[i].at);
  }
}

TEST_P(Kmalloc, ZeroBytesGiveTheZeroSizePointer) {
  EXPECT_EQ(world().kmalloc(0), size_zero);
  EXPECT_EQ(world().kvmalloc(0), size_zero);
  EXPECT_EQ(world().kmalloc_node(0, gfp::kernel, 0), size_zero);
  EXPECT_EQ(world().ksize(size_zero), 0u);
  EXPECT_EQ(world().ksize(nullptr), 0u);
  EXPECT_EQ(world().size_roundup(0), 0u);
  world().kfree(size_zero);
  world().kfree(nullptr);
}

TEST_P(Kmalloc, OverTheLimitIsRefusedWithOneLine) {
  const std::size_t limit = pages::max_block_bytes;
  for (const std::size_t bytes : {limit + 1, limit * 2, SIZE_MAX / 2, SIZE_MAX - 7, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(world().kmalloc(bytes), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(log_.take().size(), 1u) << bytes;
    errno = 0;
    EXPECT_EQ(world().kmalloc(bytes, gfp::kernel | gfp::nowarn), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(world().size_roundup(bytes), bytes);
  }
  EXPECT_EQ(world().kvmalloc(std::size_t{INT32_MAX} + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(log_.take().size(), 1u);
}

TEST_P(Kmalloc, ZeroedBlocksReadAsZeros) {
  for (const std::size_t bytes : {1u, 8u, 30u, 96u, 192u, 1000u, 4096u, 9000u, 70000u}) {
    for (int round = 0; round < 3; ++round) {
      void* blocks[8];
      for (void*& block : blocks) {
        block = world().kmalloc(bytes, gfp::kernel | gfp::zero);
        ASSERT_TRUE(all_zero(block, bytes)) << bytes;
        std::memset(block, 0xee, world().ksize(block));
      }
      for (void* block : blocks) world().kfree(block);
    }
  }
}

TEST_P(Kmalloc, NodeIsObeyedWithThisnode) {
  for (int node = 0; node < nodes::count(); ++node) {
    for (const std::size_t bytes : {8u, 100u, 2000u, 5000u, 40000u}) {
      void* block = world().kmalloc_node(bytes, gfp::kernel | gfp::thisnode, node);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(pages::page_of(block)->node, node) << bytes;
      check_block(block, bytes);
    }
  }
}

TEST_P(Kmalloc, FamiliesGiveBlocksAlike) {
  for (const gfp_t family : {gfp::reclaimable, gfp::account, gfp::dma}) {
    for (const std::size_t bytes : {8u, 96u, 192u, 1000u, 8192u, 20000u}) {
      check_block(world().kmalloc(bytes, gfp::kernel | family), bytes);
    }
  }
}

TEST_P(Kmalloc, KfreeAndKsizeTakeObjectsOfCaches) {
  for (const std::size_t bytes : {8u, 40u, 1000u, 4096u, 100000u}) {
    auto cache = make(bytes);
    void* objects[50];
    ASSERT_TRUE(cache->alloc_bulk(gfp::kernel, 50, objects));
    for (void* object : objects) {
      EXPECT_GE(world().ksize(object), bytes);
      EXPECT_TRUE(cache->owns(object));
      world().kfree(object);
    }
    cache->shrink();
    EXPECT_EQ(cache->live_count(), 0u);
    EXPECT_EQ(cache->validate(), nullptr);
  }
}

// ---- krealloc ----

TEST_P(Kmalloc, ReallocKeepsContentsBothWays) {
  std::size_t held = 10;
  void* block = world().krealloc(nullptr, held, gfp::kernel);
  ASSERT_NE(block, nullptr);
  fill(block, held, held);
  for (const std::size_t bytes :
       {11u, 60u, 96u, 97u, 500u, 4096u, 8192u, 8193u, 100000u, 4194304u, 3000u, 100u, 8u, 1u}) {
    block = world().krealloc(block, bytes, gfp::kernel);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_TRUE(holds(block, std::min(held, bytes), held)) << bytes;
    EXPECT_GE(world().ksize(block), bytes);
    held = bytes;
    fill(block, held, held);
  }
  world().kfree(block);
}

TEST_P(Kmalloc, ReallocStaysWhileTheSizeFits) {
  void* block = world().kmalloc(100);
  EXPECT_EQ(world().krealloc(block, world().ksize(block), gfp::kernel), block);
  EXPECT_EQ(world().krealloc(block, 1, gfp::kernel), block);
  world().kfree(block);
}

TEST_P(Kmalloc, ReallocToZeroFrees) {
  auto cache = make(64);
  EXPECT_EQ(world().krealloc(cache->alloc(), 0, gfp::kernel), size_zero);
  cache->shrink();
  EXPECT_EQ(cache->live_count(), 0u);
  EXPECT_EQ(world().krealloc(nullptr, 0, gfp::kernel), size_zero);
  void* block = world().krealloc(size_zero, 30, gfp::kernel);
  check_block(block, 30);
}

TEST_P(Kmalloc, ReallocMovesAnObjectOfACache) {
  auto cache = make(64);
  void* object = cache->alloc();
  fill(object, 64, 4);
  void* block = world().krealloc(object, 1000, gfp::kernel);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(holds(block, 64, 4));
  cache->shrink();
  EXPECT_EQ(cache->live_count(), 0u);
  world().kfree(block);
}

TEST_P(Kmalloc, ReallocZeroesWhatIsNew) {
  void* block = world().kmalloc(40, gfp::kernel | gfp::zero);
  std::memset(block, 0xee, 40);
  std::size_t held = 40;
  for (const std::size_t bytes : {50u, 64u, 65u, 300u, 5000u, 9000u}) {
    block = world().krealloc(block, bytes, gfp::kernel | gfp::zero);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(all_zero(static_cast<char*>(block) + held, bytes - held)) << bytes;
    EXPECT_EQ(static_cast<unsigned char*>(block)[held - 1], 0xee);
    std::memset(block, 0xee, bytes);
    held = bytes;
  }
  // Down, then up again within the slot: what was cut off must not come back.
  block = world().krealloc(block, 100, gfp::kernel | gfp::zero);
  block = world().krealloc(block, 120, gfp::kernel | gfp::zero);
  EXPECT_TRUE(all_zero(static_cast<char*>(block) + 100, 20));
  world().kfree(block);
}

TEST_P(Kmalloc, FailedReallocLeavesTheBlock) {
  void* block = world().kmalloc(5000);
  fill(block, 5000, 8);
  pages::fail_allocation(1, true);
  errno = 0;
  EXPECT_EQ(world().krealloc(block, std::size_t{3} << 20, gfp::kernel), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  pages::fail_allocation(0);
  EXPECT_TRUE(holds(block, 5000, 8));
  errno = 0;
  EXPECT_EQ(world().krealloc(block, pages::max_block_bytes + 1, gfp::kernel), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(log_.take().size(), 1u);
  EXPECT_TRUE(holds(block, 5000, 8));
  world().kfree(block);
}

TEST_P(Kmalloc, ReallocOfAStrangerIsReported) {
  int local = 0;
  const auto before = debug::report_count();
  EXPECT_EQ(world().krealloc(&local, 100, gfp::kernel), nullptr);
  EXPECT_EQ(debug::report_count(), before + 1);
  EXPECT_EQ(count_lines(log_.take(), "BUG "), 1u);
}

// ---- kvmalloc ----

TEST_P(Kmalloc, KvmallocGoesBeyondKmalloc) {
  const std::size_t limit = pages::max_block_bytes;
  for (const std::size_t bytes :
       {std::size_t{100}, std::size_t{5000}, limit, limit + 1, 2 * limit, 2 * limit + 4097}) {
    const std::size_t before = pages::usage().allocated_bytes;
    void* block = world().kvmalloc(bytes, gfp::kernel | gfp::zero);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_GE(world().ksize(block), bytes);
    if (bytes >= pages::page_bytes && bytes > limit) {
      EXPECT_TRUE(aligned(block, pages::page_bytes));
    }
    EXPECT_TRUE(all_zero(block, bytes));
    fill(block, bytes, 2);
    EXPECT_TRUE(holds(block, bytes, 2));
    world().kfree(block);
    if (bytes > limit) {
      EXPECT_EQ(pages::usage().allocated_bytes, before);
    }
  }
}

TEST_P(Kmalloc, ABlockBeyondKmallocShrinksByRealloc) {
  void* block = world().kvmalloc(pages::max_block_bytes + 1);
  ASSERT_NE(block, nullptr);
  fill(block, 3000, 6);
  block = world().krealloc(block, 3000, gfp::kernel);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(holds(block, 3000, 6));
  world().kfree(block);
}

}  // namespace
}  // namespace kmem::test
