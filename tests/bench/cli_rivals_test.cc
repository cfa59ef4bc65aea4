// kmem-bench's rivals from outside: mallocs that are preloaded, pools, and the backends through
// their shared libraries, each in a process of its own; and those that cannot be had.
#include "tests/bench/cli.h"

namespace kmem::bench {
namespace {

TEST(CliRivals, RivalsTakePartBesideTheBackends) {
  const Outcome bulk =
      run("bulk --rounds 2 --bulk 1,16 --backend slub --format json --rivals glibc --rival mine=" +
          test_arguments.preloads + "/libgood_malloc.so");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  const Json document = Json::parse(bulk.output);
  int to_rival = 0, rivals = 0;
  for (const Json& ratio : document["ratios"])
    to_rival += ratio["to"] == "mine" || ratio["to"] == "glibc" ? 1 : 0;
  for (const Json& result : document["results"]) rivals += result["kind"] == "rival" ? 1 : 0;
  EXPECT_EQ(to_rival, 2 * (2 + 1));    // batches, and the single calls once
  EXPECT_EQ(rivals, 2 * 2 * (2 + 2));  // metrics; batches, and single and stored once
  EXPECT_GT(median_of(document, "mine", "cycles_per_object"), 0);
}

TEST(CliRivals, BackendsTakePartThroughTheirSharedLibraries) {
  const Outcome bulk = run("bulk --rounds 1 --bulk 1,16 --abi --format json --rivals glibc");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  const Json document = Json::parse(bulk.output);
  for (const char* backend : {"slab", "slub", "slob", "slqb"})
    EXPECT_GT(median_of(document, std::string(backend) + " (C ABI)", "cycles_per_object"), 0);
  EXPECT_GT(median_of(document, "rseq array pair, called", "cycles_per_object"), 0);
  const std::string figures = document["figures"].dump();
  EXPECT_NE(figures.find("(C ABI)) to fastest malloc (glibc)"), std::string::npos) << figures;
  EXPECT_NE(figures.find("(C ABI)) to the called floor"), std::string::npos) << figures;
  EXPECT_EQ(run("hackbench --rounds 1 --loops 20 --abi --backend slub").status, 0);
}

// Those that every build has.
const std::string all_pools = "boost-pool,boost-singleton-pool,pmr,pmr-synchronized";

TEST(CliRivals, PoolsTakePartInBulkBesideTheMallocs) {
  const Outcome bulk =
      run("bulk --rounds 2 --bulk 1,16 --backend slub --format json --rivals glibc," + all_pools);
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  const Json document = Json::parse(bulk.output);
  std::vector<std::string> subjects;
  for (const Json& result : document["results"]) {
    if (result["kind"] == "rival") subjects.push_back(result["subject"]);
    EXPECT_GT(result["median"], 0) << result;
  }
  for (const char* pool : {"boost-pool", "boost-singleton-pool", "pmr", "pmr-synchronized"})
    EXPECT_EQ(std::count(subjects.begin(), subjects.end(), pool), 2 * (2 + 2)) << pool;
  const std::vector<std::string> figures = figures_of(document);
  EXPECT_EQ(count_with(figures, "to fastest malloc (glibc)"), 1u);
  EXPECT_EQ(count_with(figures, "boost"), 0u) << "a pool counts as a malloc";
}

TEST(CliRivals, PoolsOfOneThreadAreLeftOutWhereThreadsShareObjects) {
  const struct {
    const char* work;
    const char* options;
    const char* synchronized;
  } cases[] = {{"remote", "--rounds 1 --bulk 8", "boost-singleton-pool"},
               {"footprint", "--objects 2000", "boost-singleton-pool"},
               {"bulk", "--rounds 1 --bulk 8 --threads 2", "pmr-synchronized"}};
  for (const auto& [work, options, synchronized] : cases) {
    const Outcome outcome = run(std::string(work)
                                    .append(" --backend slub ")
                                    .append(options)
                                    .append(" --rivals boost-pool,pmr,")
                                    .append(synchronized));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    for (const char* pool : {"boost-pool", "pmr"})
      EXPECT_NE(outcome.output.find(
                    std::string("left out: ").append(pool).append(" does not do ").append(work)),
                std::string::npos)
          << outcome.output;
    EXPECT_NE(outcome.output.find(std::string(synchronized) + "  "), std::string::npos)
        << outcome.output;
  }
}

// A free on another thread takes it 100 microseconds.
TEST(CliRivals, ASlowPoolDeclinesWhatIsHandedOver) {
  const Outcome remote = run("remote --rounds 1 --bulk 8 --backend slub --rivals pmr-synchronized");
  ASSERT_EQ(remote.status, 0) << remote.output;
  EXPECT_NE(remote.output.find("left out: pmr-synchronized does not do remote"), std::string::npos)
      << remote.output;
}

TEST(CliRivals, PoolsServeAWorkerAloneAndHaveNoKmalloc) {
  const Outcome socket =
      run("socket --rounds 1 --threads 1 --backend slub --format json --rivals " + all_pools);
  ASSERT_EQ(socket.status, 0) << socket.output;
  const Json document = Json::parse(socket.output);
  EXPECT_EQ(document["ratios"].size(), 4u);
  const Outcome hackbench =
      run("hackbench --rounds 1 --loops 20 --backend slub --rivals pmr-synchronized");
  ASSERT_EQ(hackbench.status, 0) << hackbench.output;
  EXPECT_NE(hackbench.output.find("left out: pmr-synchronized does not do hackbench"),
            std::string::npos)
      << hackbench.output;
}

TEST(CliRivals, APoolIsLeftOutForASizeThatItDoesNotHave) {
  const Outcome bulk =
      run("bulk --rounds 1 --bulk 1 --size 100,64 --backend slub --rivals boost-singleton-pool");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  EXPECT_NE(bulk.output.find("left out: boost-singleton-pool does not do bulk of 100 bytes"),
            std::string::npos)
      << bulk.output;
  EXPECT_EQ(bulk.output.find("does not do bulk of 64 bytes"), std::string::npos) << bulk.output;
}

TEST(CliRivals, RteMempoolHasBulkCallsOfItsOwn) {
  if (run("list").output.find("rte_mempool") == std::string::npos)
    GTEST_SKIP() << "built without DPDK";
  const Outcome bulk =
      run("bulk --rounds 1 --bulk 1,16 --backend slub --format json --rivals rte_mempool");
  if (bulk.output.find("EAL cannot start") != std::string::npos) GTEST_SKIP() << bulk.output;
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  int paths = 0, improved = 0;
  const Json document = Json::parse(bulk.output);
  for (const Json& result : document["results"]) {
    paths += result["subject"] == "rte_mempool" ? 1 : 0;
    EXPECT_GT(result["median"], 0) << result;
  }
  for (const Json& ratio : document["ratios"])
    if (ratio["of"] == "rte_mempool" && ratio["params"]["to_path"] == "generic") ++improved;
  EXPECT_EQ(paths, 2 * (2 * 2 + 2));  // metrics; generic and optimized by batch, two singles
  EXPECT_EQ(improved, 2);
  const Outcome remote = run("remote --rounds 1 --bulk 8 --backend slub --rivals rte_mempool");
  EXPECT_EQ(remote.status, 0) << remote.output;
  EXPECT_NE(remote.output.find("left out: rte_mempool"), std::string::npos) << remote.output;
}

// A copy of the program with a pool's program beside it that fails.
TEST(CliRivals, APoolThatCannotStartIsLeftOutOfAllAndAnErrorByName) {
  namespace fs = std::filesystem;
  const fs::path folder = temporary("programs");
  fs::create_directory(folder);
  for (const char* name : {"kmem-bench", "kmem-bench-malloc"})
    fs::copy_file(fs::path(test_program).parent_path() / name, folder / name);
  std::ofstream(folder / "kmem-bench-dpdk") << "#!/bin/sh\nexit 3\n";
  fs::permissions(folder / "kmem-bench-dpdk", fs::perms::owner_all);
  const std::string built = std::exchange(test_program, folder / "kmem-bench");
  const Outcome all = run("bulk --rounds 1 --bulk 1 --backend slub --rivals all");
  const Outcome named = run("bulk --rounds 1 --bulk 1 --backend slub --rivals rte_mempool");
  test_program = built;
  fs::remove_all(folder);
  const std::string why = "rival rte_mempool: its process ended with status 3";
  EXPECT_EQ(all.status, 0) << all.output;
  EXPECT_NE(all.output.find("left out: " + why), std::string::npos) << all.output;
  EXPECT_EQ(named.status, 2);
  EXPECT_EQ(named.output, "kmem-bench: " + why + "\n");
}

TEST(CliRivals, RivalsPassObjectsBetweenThreads) {
  const Outcome remote = run("remote --rounds 1 --bulk 8 --backend slab --rivals glibc");
  ASSERT_EQ(remote.status, 0) << remote.output;
  EXPECT_NE(remote.output.find("slab costs"), std::string::npos) << remote.output;
  const Outcome hackbench = run("hackbench --rounds 1 --loops 20 --backend slab --rivals glibc");
  ASSERT_EQ(hackbench.status, 0) << hackbench.output;
  EXPECT_NE(hackbench.output.find("glibc"), std::string::npos) << hackbench.output;
}

TEST(CliRivals, ARivalThatIsNoMallocIsRefused) {
  const std::string garbage = temporary("garbage.so");
  std::ofstream(garbage) << "no library";
  for (const std::string& path : {garbage, std::string("/nonexistent/libnone.so"),
                                  test_arguments.preloads + "/libexit_malloc.so"}) {
    const Outcome bulk = run("bulk --rounds 1 --bulk 1 --rival bad=" + path);
    EXPECT_EQ(bulk.status, 2) << bulk.output;
    EXPECT_NE(bulk.output.find("rival bad: "), std::string::npos) << bulk.output;
  }
  std::filesystem::remove(garbage);
}

TEST(CliRivals, ARivalThatDoesNotAnswerIsNotWaitedForForEver) {
  const Outcome bulk =
      run("bulk --rounds 1 --bulk 1 --patience 0.2 --rival slow=" + test_arguments.preloads +
          "/libhang_malloc.so");
  EXPECT_EQ(bulk.status, 2) << bulk.output;
  EXPECT_NE(bulk.output.find("--patience"), std::string::npos) << bulk.output;
}

TEST(CliRivals, RivalsByNamesThatAreNotThere) {
  const struct {
    const char* options;
    const char* says;
  } cases[] = {{"--rivals nomalloc", "'nomalloc' is none of none, all, glibc"},
               {"--rivals glibc,glibc", "'glibc' is named twice"},
               {"--rivals ''", "has an empty name"},
               {"--rival libx.so", "'libx.so' is not NAME=FILE.so"},
               {"--rival 'a=b c'", "neither space nor colon"}};
  for (const auto& [options, says] : cases) {
    const Outcome bulk = run(std::string("bulk --rounds 1 --bulk 1 ") + options);
    EXPECT_EQ(bulk.status, 2) << options;
    EXPECT_NE(bulk.output.find(says), std::string::npos) << bulk.output;
  }
}

}  // namespace
}  // namespace kmem::bench
