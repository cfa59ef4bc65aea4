// Runs a piece of code in a forked child, for what is read once in a process (the environment) and
// for what ends it. The test's own process must not have used that part of the library before.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace kmem::testing {

using Environment = std::vector<std::pair<const char*, const char*>>;

// Does what body says with these variables set; exits with 0 if it returned true. For EXPECT_EXIT.
template <class Body>
[[noreturn]] void run_and_exit(const Environment& environment, Body body) {
  for (const auto& [name, value] : environment) setenv(name, value, 1);
  std::_Exit(body() ? 0 : 1);
}

// A child with these variables says true, and its standard error matches the regular expression.
template <class Body>
void expect_in_child(const Environment& environment, Body body, const char* stderr_regex = "") {
  EXPECT_EXIT(run_and_exit(environment, body), ::testing::ExitedWithCode(0), stderr_regex);
}

}  // namespace kmem::testing
