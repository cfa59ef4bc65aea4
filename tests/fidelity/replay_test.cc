// Does SLUB do here what it did in a kernel? Needs recorded traces: KMEM_TRACE_DIR names a
// directory with traces of any load (each is replayed on all four designs) and, for the growth of
// caches, grow.ftrace.txt.xz with the kernel's state before and after it (grow.before.csv,
// grow.after.csv) and the names of merged caches (aliases.csv). Without it all tests are skipped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/run_program.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using kmem::bench::Outcome;
using kmem::bench::run;

std::string trace_directory() {
  const char* directory = std::getenv("KMEM_TRACE_DIR");
  return directory != nullptr ? directory : "";
}

using Row = std::map<std::string, std::string>;

// A CSV file as rows by column name.
std::vector<Row> read_csv(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  const auto cells_of = [](const std::string& text) {
    std::vector<std::string> cells;
    std::istringstream stream(text);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::getline(file, line);
  const std::vector<std::string> names = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    Row row;
    for (std::size_t i = 0; i < names.size() && i < cells.size(); ++i) row[names[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

struct State {
  double slabs = 0, partial = 0;
};

std::map<std::string, State> read_state(const fs::path& path) {
  std::map<std::string, State> state;
  for (const Row& row : read_csv(path))
    state[row.at("cache")] = {std::stod(row.at("slabs")), std::stod(row.at("partial"))};
  return state;
}

// Slabs by the name of the kernel's cache: merged caches are one there.
std::map<std::string, double> replayed_slabs(const fs::path& slabinfo, const fs::path& aliases) {
  std::map<std::string, std::string> serves;
  for (const Row& row : read_csv(aliases)) serves[row.at("name")] = row.at("cache");
  std::map<std::string, double> slabs;
  std::ifstream file(slabinfo);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::vector<std::string> word;
    for (std::string text; words >> text;) word.push_back(text);
    if (word.size() != 16 || word[0].starts_with('#')) continue;
    const auto alias = serves.find(word[0]);
    slabs[alias == serves.end() ? word[0] : alias->second] += std::stod(word[14]);
  }
  return slabs;
}

class Fidelity : public testing::Test {
 protected:
  void SetUp() override {
    if (trace_directory().empty()) GTEST_SKIP() << "KMEM_TRACE_DIR is not set";
  }
};

TEST_F(Fidelity, CachesGrowAsTheKernelsDid) {
  const fs::path directory = trace_directory();
  if (!fs::exists(directory / "grow.ftrace.txt.xz")) GTEST_SKIP() << "no grow.ftrace.txt.xz there";
  const fs::path slabinfo =
      fs::temp_directory_path() / ("kmem-growth-" + std::to_string(::getpid()));
  const Outcome replay = run("replay --backend slub --rounds 1 --quiet --slabinfo-out " +
                             slabinfo.string() + " " + (directory / "grow.ftrace.txt.xz").string());
  ASSERT_EQ(replay.status, 0) << replay.output;
  const auto before = read_state(directory / "grow.before.csv");
  const auto after = read_state(directory / "grow.after.csv");
  const auto ours = replayed_slabs(slabinfo, directory / "aliases.csv");
  fs::remove(slabinfo);

  int compared = 0;
  for (const auto& [cache, state] : after) {
    const auto was = before.find(cache);
    const double grown = state.slabs - (was == before.end() ? 0 : was->second.slabs);
    const bool from_full = was == before.end() || was->second.partial < 20;
    // Size classes of kmalloc began with free objects in the kernel, and with none here.
    const bool named = cache.find("kmalloc-") == std::string::npos;
    if (grown < 25 || !from_full || !named) continue;
    ++compared;
    const double here = ours.count(cache) != 0 ? ours.at(cache) : 0;
    EXPECT_LE(std::abs(here - grown), 0.05 * grown)
        << cache << " grew by " << grown << " slabs in the kernel, by " << here << " here";
  }
  EXPECT_GE(compared, 7);
}

TEST_F(Fidelity, EveryTraceRunsOnAllFourDesigns) {
  int replayed = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(trace_directory())) {
    const std::string name = entry.path().filename();
    if (name.find(".txt") == std::string::npos) continue;
    const Outcome replay = run("replay --rounds 1 --quiet --format json " + entry.path().string());
    ASSERT_EQ(replay.status, 0) << name << ": " << replay.output;
    const Json document = Json::parse(replay.output);
    double slob_peak = 0, lowest_peak = INFINITY;
    for (const Json& result : document["results"]) {
      if (result["metric"] == "failed_allocations") {
        EXPECT_EQ(result["median"], 0) << name;
      }
      if (result["metric"] != "peak_slab_bytes") continue;
      const double peak = result["median"];
      if (result["subject"] == "slob") slob_peak = peak;
      lowest_peak = std::min(lowest_peak, peak);
    }
    const bool explained =
        document["notes"].dump().find("SLOB is not the lowest") != std::string::npos;
    EXPECT_EQ(slob_peak > lowest_peak, explained) << name;
    ++replayed;
  }
  if (replayed == 0) GTEST_SKIP() << "no traces (*.txt*) there";
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return std::fputs("usage: replay_test KMEM-BENCH\n", stderr), 2;
  kmem::bench::test_program = argv[1];
  return RUN_ALL_TESTS();
}
