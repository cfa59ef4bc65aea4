// Numbers from the environment, lines to standard error, assertions, arithmetic, lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/base/bits.h"
#include "common/base/environment.h"
#include "common/base/intrusive_list.h"
#include "common/base/log.h"
#include "tests/unit/common/log_lines.h"

namespace kmem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::uint64_t number_of(const char* text, const char* name = "KMEM_TEST_BYTES") {
  setenv(name, text, 1);
  return environment_number(name, 7, {1, std::uint64_t{1} << 50});
}

TEST(Environment, UnsetVariableGivesTheDefaultWithoutAWord) {
  kmem::testing::LogLines log;
  unsetenv("KMEM_TEST_BYTES");
  EXPECT_EQ(environment_number("KMEM_TEST_BYTES", 7, {1, 100}), 7u);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Environment, SizesMayHaveASuffix) {
  kmem::testing::LogLines log;
  EXPECT_EQ(number_of("1"), 1u);
  EXPECT_EQ(number_of("4096"), 4096u);
  EXPECT_EQ(number_of("3k"), 3u << 10);
  EXPECT_EQ(number_of("3M"), 3u << 20);
  EXPECT_EQ(number_of("64G"), std::uint64_t{64} << 30);
  EXPECT_EQ(number_of("1T"), std::uint64_t{1} << 40);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Environment, MalformedAndOutOfRangeValuesAreRefusedWithOneLine) {
  const char* const refused[] = {"",
                                 "x",
                                 "1x",
                                 "1kk",
                                 "-1",
                                 "+1",
                                 " 1",
                                 "1 ",
                                 "0x10",
                                 "1.5",
                                 "0",  // below the range
                                 "2048T",
                                 "18446744073709551616",
                                 "99999999999999999999T",
                                 "18446744073709551615K"};
  for (const char* text : refused) {
    kmem::testing::LogLines log;
    EXPECT_EQ(number_of(text), 7u) << text;
    ASSERT_EQ(log.lines().size(), 1u) << text;
    EXPECT_THAT(log.lines()[0], HasSubstr(std::string("kmem: KMEM_TEST_BYTES=") + text));
  }
}

TEST(Environment, OnlySizesMayHaveASuffix) {
  kmem::testing::LogLines log;
  EXPECT_EQ(number_of("3k", "KMEM_TEST_COUNT"), 7u);
  EXPECT_EQ(number_of("3", "KMEM_TEST_COUNT"), 3u);
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(Log, WarningsHaveAPrefixAndLinesHaveNone) {
  kmem::testing::LogLines log;
  warn("%s %d", "value", 3);
  log_line("%s", "");
  log_line("plain %c", 'x');
  EXPECT_THAT(log.lines(), ElementsAre("kmem: value 3", "", "plain x"));
}

TEST(Log, LongLinesAreCutAtAThousandBytes) {
  kmem::testing::LogLines log;
  const std::string text(5000, 'a');
  warn("%s", text.c_str());
  log_line("%s", text.c_str());
  log_line("%s", std::string(1000, 'b').c_str());
  ASSERT_EQ(log.lines().size(), 3u);
  EXPECT_EQ(log.lines()[0], "kmem: " + std::string(994, 'a'));
  EXPECT_EQ(log.lines()[1], std::string(1000, 'a'));
  EXPECT_EQ(log.lines()[2], std::string(1000, 'b'));
}

TEST(Log, WithoutAHookLinesGoToStandardError) {
  ::testing::internal::CaptureStderr();
  warn("to %s", "stderr");
  log_line("%s", std::string(3000, 'c').c_str());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "kmem: to stderr\n" + std::string(1000, 'c') + "\n");
}

TEST(Bits, RoundingAndLogarithms) {
  static_assert(align_up(0, 8) == 0 && align_up(1, 8) == 8 && align_up(8, 8) == 8);
  static_assert(align_down(7, 8) == 0 && align_down(15, 8) == 8);
  static_assert(divide_up(0, 3) == 0 && divide_up(1, 3) == 1 && divide_up(4, 3) == 2);
  static_assert(log2_floor(1) == 0 && log2_floor(4095) == 11 && log2_floor(4096) == 12);
}

TEST(List, KeepsOrderAndRotates) {
  List list;
  ListNode a, b, c;
  list.push_back(&a);
  list.push_back(&b);
  list.push_front(&c);  // c a b
  EXPECT_EQ(list.front(), &c);
  EXPECT_EQ(list.back(), &b);
  EXPECT_EQ(list.after(&c), &a);
  EXPECT_EQ(list.after(&b), nullptr);
  list.rotate_to_front(&b);  // b c a
  EXPECT_EQ(list.front(), &b);
  EXPECT_EQ(list.after(&b), &c);
  EXPECT_EQ(list.back(), &a);
  EXPECT_EQ(list.pop_front(), &b);
  EXPECT_FALSE(b.linked());
  List::remove(&a);
  List::remove(&c);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop_front(), nullptr);
}

#ifndef NDEBUG
TEST(AssertDeathTest, PrintsTheExpressionAndBothOperands) {
  EXPECT_DEATH(KMEM_ASSERT(1 + 1 == 3), "base_test.cc:[0-9]+: assertion failed: 1 \\+ 1 == 3");
  EXPECT_DEATH(KMEM_ASSERT_EQ(2 * 2, 5), "assertion failed: 2 \\* 2 == 5 \\(4 against 5\\)");
}
#endif

}  // namespace
}  // namespace kmem
