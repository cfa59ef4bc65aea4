// SLUB's choices against a real kernel's: some rows of Linux 6.18 with 2 CPUs inline, and every row
// of a file of them when KMEM_TRUTH_DIR says where it is.
#include "backends/slub/geometry.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace kmem::slub {
namespace {

void do_nothing(void*) {}

// One row of /sys/kernel/slab: what was asked, then what the kernel chose.
struct Row {
  std::string cache;
  std::size_t object_bytes, slot_bytes, align;
  unsigned order, objects, min_partial, cpu_partial;
  bool hwcache_align, typesafe_by_rcu, ctor;
};

CacheSpec spec_of(const Row& row) {
  CacheSpec spec;
  spec.name = row.cache.c_str();
  spec.object_bytes = row.object_bytes;
  spec.align = row.align;
  if (row.hwcache_align) spec.flags |= slab_flag::hwcache_align;
  if (row.typesafe_by_rcu) spec.flags |= slab_flag::typesafe_by_rcu;
  if (row.ctor) spec.ctor = do_nothing;
  // The one cache that is created with its free pointer inside the object.
  if (row.cache == "vm_area_struct") spec.has_freeptr_offset = true;
  return spec;
}

void expect_row(const Row& row, unsigned cpus) {
  SCOPED_TRACE(row.cache);
  const Geometry g = geometry(spec_of(row), cpus);
  EXPECT_EQ(g.slot_bytes, row.slot_bytes);
  EXPECT_EQ(g.order, row.order);
  EXPECT_EQ(g.objects, row.objects);
  EXPECT_EQ(g.min_partial, row.min_partial);
  EXPECT_EQ(g.cpu_partial, row.cpu_partial);
}

TEST(SlubGeometry, AgreesWithAKernelOfTwoCpus) {
  // clang-format off
  const Row rows[] = {
    // cache             object   slot  align order objects min cpu   line   rcu    ctor
    {"msg_msg-8",             8,     8,    8, 0,   512,  5, 120, false, false, false},
    {":0000104",            104,   104,    8, 0,    39,  5, 120, false, false, false},
    {"anon_vma",             96,   104,    8, 0,    39,  5, 120, false, true,  true},
    {"vm_area_struct",      192,   192,   64, 0,    21,  5, 120, true,  true,  false},
    {"radix_tree_node",     576,   584,    8, 1,    14,  5,  52, false, false, true},
    {"TCP",                2304,  2368,   64, 3,    13,  5,  24, true,  true,  false},
    {"sighand_cache",      2080,  2112,   64, 3,    15,  5,  24, true,  true,  true},
    {"kmalloc-rcl-4k",     4096,  4096, 4096, 3,     8,  6,   6, false, false, false},
    {"kvm_vcpu",          51472, 51472,   16, 4,     1,  7,   6, false, false, false},
  };
  // clang-format on
  for (const Row& row : rows) expect_row(row, 2);
}

TEST(SlubGeometry, MoreCpusWantMoreObjects) {
  CacheSpec spec;
  spec.object_bytes = 512;
  EXPECT_EQ(geometry(spec, 1).objects, 8u);
  EXPECT_EQ(geometry(spec, 4).objects, 16u);
  EXPECT_EQ(geometry(spec, 16).objects, 32u);  // 24 wanted: order 1 holds 16 only
  EXPECT_EQ(geometry(spec, 64).objects, 32u);
}

TEST(SlubGeometry, LinkLiesInTheMiddleOrOutside) {
  CacheSpec spec;
  spec.object_bytes = 100;
  EXPECT_EQ(geometry(spec, 2).link_offset, 48u);
  EXPECT_EQ(geometry(spec, 2).slot_bytes, 104u);
  spec.ctor = do_nothing;
  EXPECT_EQ(geometry(spec, 2).link_offset, 104u);
  EXPECT_EQ(geometry(spec, 2).slot_bytes, 112u);
  spec.has_freeptr_offset = true;
  spec.freeptr_offset = 8;
  EXPECT_EQ(geometry(spec, 2).link_offset, 8u);
  EXPECT_EQ(geometry(spec, 2).slot_bytes, 104u);
}

TEST(SlubGeometry, HoldsForEverySizeAndAlignment) {
  for (std::size_t align = 8; align <= 4096; align *= 2) {
    for (std::size_t bytes = 1; bytes <= pages::max_block_bytes; bytes += 1 + bytes / 7) {
      CacheSpec spec;
      spec.object_bytes = bytes;
      spec.align = align;
      const Geometry g = geometry(spec, 8);
      ASSERT_GE(g.objects, 1u) << bytes;
      ASSERT_LE(g.objects, max_objects);
      ASSERT_EQ(g.slot_bytes % align, 0u);
      ASSERT_GE(g.slot_bytes, bytes);
      ASSERT_LE(g.objects * g.slot_bytes + g.waste_bytes, pages::page_bytes << g.order);
      ASSERT_LE(g.order_min, g.order);
      ASSERT_LE(g.link_offset + sizeof(void*), g.slot_bytes);
      ASSERT_GE(g.cpu_partial_slabs, 1u);
    }
  }
}

TEST(SlubGeometry, AnObjectPastTheLargestBlockIsImpossible) {
  CacheSpec spec;
  spec.object_bytes = pages::max_block_bytes;
  EXPECT_EQ(geometry(spec, 2).objects, 1u);
  spec.ctor = do_nothing;  // its free pointer needs a word more
  EXPECT_EQ(geometry(spec, 2).objects, 0u);
}

using Columns = std::map<std::string, std::string>;

std::vector<Columns> read_csv(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  std::vector<Columns> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    if (names.empty()) {
      names = cells;
    } else {
      Columns row;
      for (std::size_t i = 0; i < names.size() && i < cells.size(); ++i) row[names[i]] = cells[i];
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(SlubGeometry, AgreesWithEveryRowOfTheFile) {
  const char* dir = std::getenv("KMEM_TRUTH_DIR");
  if (dir == nullptr) GTEST_SKIP() << "KMEM_TRUTH_DIR is not set";
  const auto rows = read_csv(std::string(dir) + "/slub-geometry-linux-6.18-2cpu.csv");
  ASSERT_GT(rows.size(), 50u);
  for (Columns row : rows) {
    auto number = [&row](const char* column) { return std::stoul(row[column]); };
    expect_row(
        {row["cache"], number("object_size"), number("slab_size"), number("align"),
         static_cast<unsigned>(number("order")), static_cast<unsigned>(number("objs_per_slab")),
         static_cast<unsigned>(number("min_partial")), static_cast<unsigned>(number("cpu_partial")),
         number("hwcache_align") != 0, number("destroy_by_rcu") != 0, number("ctor") != 0},
        2);
  }
}

}  // namespace
}  // namespace kmem::slub
