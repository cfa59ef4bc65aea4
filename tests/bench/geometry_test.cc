// Files of what a kernel chose: read by column names, refused with the place and the reason.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/kernel_rows.h"
#include "bench/options.h"

namespace kmem::bench {
namespace {

class KernelRows : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::vector<KernelRow> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_kernel_rows(path_);
  }
  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const BadRequest& error) {
      const std::string line = error.what();
      return line.substr(line.rfind(path_) == std::string::npos ? 0
                                                                : line.rfind(path_) + path_.size());
    }
    return "accepted";
  }
  const std::string header_ =
      "cache,object_size,slab_size,align,order,objs_per_slab,min_partial,cpu_partial,"
      "hwcache_align,reclaim_account,destroy_by_rcu,ctor\n";
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("kmem-rows-" + std::to_string(::getpid()) + ".csv");
};

TEST_F(KernelRows, ColumnsAreFoundByNameInAnyOrder) {
  const auto rows = read(
      "cpu_partial,x,cache,object_size,slab_size,align,order,objs_per_slab,min_partial\n"
      "120,?,filp,184,192,64,0,21,5\n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].cache, "filp");
  EXPECT_EQ(rows[0].object_size, 184u);
  EXPECT_EQ(rows[0].objects, 21u);
  EXPECT_EQ(rows[0].cpu_partial, 120u);
  EXPECT_FALSE(rows[0].ctor);
}

TEST_F(KernelRows, FlagsBecomeTheRequest) {
  const auto rows = read(header_ +
                         "sighand,2080,2112,64,3,15,5,24,1,0,1,1\n"
                         "vm_area_struct,192,192,64,0,21,5,120,1,0,1,0\n");
  const CacheSpec sighand = spec_of(rows[0]);
  EXPECT_EQ(sighand.flags, slab_flag::hwcache_align | slab_flag::typesafe_by_rcu);
  EXPECT_NE(sighand.ctor, nullptr);
  EXPECT_FALSE(sighand.has_freeptr_offset);
  EXPECT_TRUE(spec_of(rows[1]).has_freeptr_offset);  // no room behind the object
}

TEST_F(KernelRows, BadFilesAreRefusedWithTheirLine) {
  EXPECT_NE(error_of("").find("is empty"), std::string::npos);
  EXPECT_NE(error_of("a,b\n1,2\n").find(":1: no column 'cache'"), std::string::npos);
  EXPECT_NE(error_of(header_).find("has no rows"), std::string::npos);
  EXPECT_EQ(error_of(header_ + "x,8,8,8,0,512,5,120,0,0,0\n"),
            ":2: 11 columns where the header has 12");
  EXPECT_EQ(error_of(header_ + "x,8,8,8,0,many,5,120,0,0,0,0\n"),
            ":2: 'many' in column objs_per_slab is not a number");
  EXPECT_EQ(error_of(header_ + "x,0,8,8,0,512,5,120,0,0,0,0\n"), ":2: object_size cannot be 0");
  EXPECT_EQ(error_of(header_ + "x,8,8,48,0,512,5,120,0,0,0,0\n"), ":2: align cannot be 48");
  EXPECT_EQ(error_of(header_ + "x,16,8,8,0,512,5,120,0,0,0,0\n"), ":2: slab_size cannot be 8");
}

TEST(CpusInName, IsWhatStandsBeforeCpu) {
  EXPECT_EQ(cpus_in_name("/a-9cpu/slub-geometry-linux-6.18-2cpu.csv"), 2u);
  EXPECT_EQ(cpus_in_name("rows-16cpus.csv"), 16u);
  EXPECT_EQ(cpus_in_name("rows.csv"), 0u);
  EXPECT_EQ(cpus_in_name("cpu.csv"), 0u);
}

}  // namespace
}  // namespace kmem::bench
