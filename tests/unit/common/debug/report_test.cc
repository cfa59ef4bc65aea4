// The frame and wording of reports, their counters, and KMEM_ON_ERROR.
#include "common/debug/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "common/pages/pages.h"
#include "tests/unit/common/child.h"
#include "tests/unit/common/log_lines.h"

namespace kmem::debug {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

const std::string double_rule(77, '=');
const std::string single_rule(77, '-');

TEST(Report, HasTheFrameTheEvidenceAndTheFix) {
  pages::Page* head = pages::alloc(1, no_node, gfp::kernel, pages::PageKind::slab);
  kmem::testing::LogLines log;
  report(Fault::double_free, "dentry", pages::address_of(head) + 4200, "detail of it",
         "Object not freed");
  EXPECT_THAT(log.lines(),
              ElementsAre(double_rule, "BUG dentry (Not tainted): Object already free", single_rule,
                          "", MatchesRegex("Slab 0x[0-9a-f]+ order=1 node=[0-9]+"),
                          MatchesRegex("Object 0x[0-9a-f]+ @offset=4200"), "detail of it",
                          "FIX dentry: Object not freed"));
  pages::free(head);
}

TEST(Report, SaysOfForeignPointersThatTheyAreOutside) {
  kmem::testing::LogLines log;
  int local = 0;
  report(Fault::foreign_pointer, "", &local, nullptr, "Object not freed");
  EXPECT_TRUE(log.contains("BUG <no cache> (Not tainted): Not a valid slab page"));
  EXPECT_TRUE(log.contains(" is outside of the arena"));
  EXPECT_TRUE(log.contains("FIX <no cache>: Object not freed"));
}

TEST(Report, SaysOfFreePagesThatTheyAreNotInUse) {
  pages::Page* head = pages::alloc(0, no_node, gfp::kernel, pages::PageKind::slab);
  pages::free(head);
  kmem::testing::LogLines log;
  report(Fault::foreign_pointer, "x", pages::address_of(head), nullptr, "Object not freed");
  EXPECT_TRUE(log.contains(" is in a page that is not in use"));
}

TEST(Report, WithoutAnObjectThereIsNoPlace) {
  kmem::testing::LogLines log;
  report(Fault::live_objects, "inode", nullptr, nullptr, "Slabs kept");
  EXPECT_THAT(
      log.lines(),
      ElementsAre(double_rule, "BUG inode (Not tainted): Objects remaining on kmem_cache_destroy()",
                  single_rule, "", "FIX inode: Slabs kept"));
}

TEST(Report, CountsByFaultAndInAll) {
  kmem::testing::LogLines log;
  const std::uint64_t all = report_count();
  for (int i = 0; i < static_cast<int>(Fault::count); ++i) {
    const auto fault = static_cast<Fault>(i);
    const std::uint64_t before = report_count(fault);
    report(fault, "c", nullptr, nullptr, "Nothing");
    EXPECT_EQ(report_count(fault), before + 1) << name(fault);
  }
  EXPECT_EQ(report_count(), all + static_cast<std::uint64_t>(Fault::count));
}

TEST(ReportDeathTest, AbortsAfterTheReportWhenTold) {
  setenv("KMEM_ON_ERROR", "abort", 1);
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a process that has reported nothing
  EXPECT_EXIT(report(Fault::corrupt_link, "c", nullptr, nullptr, "Freelist cleared"),
              ::testing::KilledBySignal(SIGABRT), "FIX c: Freelist cleared\n");
  setenv("KMEM_ON_ERROR", "explode", 1);
  EXPECT_EXIT(
      {
        report(Fault::corrupt_link, "c", nullptr, nullptr, "Freelist cleared");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "kmem: KMEM_ON_ERROR=explode refused");
  unsetenv("KMEM_ON_ERROR");
}

}  // namespace
}  // namespace kmem::debug
