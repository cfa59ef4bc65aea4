// What the tests of the command line share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/run_program.h"

namespace kmem::bench {

using Json = nlohmann::json;

struct TestArguments {
  std::string source_root;
  std::string preloads;  // the folder of the mallocs to preload
};
inline TestArguments test_arguments;

inline std::string temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("kmem-cli-" + std::to_string(::getpid()) + "-" + name);
}

inline double median_of(const Json& document, const std::string& subject,
                        const std::string& metric) {
  for (const Json& result : document["results"])
    if (result["subject"] == subject && result["metric"] == metric) return result["median"];
  ADD_FAILURE() << "no " << metric << " of " << subject;
  return -1;
}

inline std::vector<std::string> figures_of(const Json& document) {
  std::vector<std::string> names;
  if (!document.contains("figures")) return names;
  for (const Json& figure : document["figures"]) {
    names.push_back(figure["figure"]);
    EXPECT_GT(figure["target"], 0);
    EXPECT_EQ(figure["verdict"], "cannot tell") << "of two rounds";
  }
  return names;
}

inline std::size_t count_with(const std::vector<std::string>& names, const std::string& part) {
  return static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(),
                    [&](const std::string& name) { return name.find(part) != std::string::npos; }));
}

}  // namespace kmem::bench
