// kmem-bench from outside: exit statuses, the one line of an error, and documents that parse. The
// program's path is the first argument, the source tree's the second, that of the folder of mallocs
// to preload the third.
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

namespace {

using kmem::bench::Outcome;
using kmem::bench::run;
using kmem::bench::test_program;
using Json = nlohmann::json;

std::string source_root;
std::string preloads;  // the folder of the mallocs to preload

std::string bundled_trace() { return source_root + "/bench/data/redis.ftrace.txt.xz"; }

std::string temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("kmem-cli-" + std::to_string(::getpid()) + "-" + name);
}

double median_of(const Json& document, const std::string& subject, const std::string& metric) {
  for (const Json& result : document["results"])
    if (result["subject"] == subject && result["metric"] == metric) return result["median"];
  ADD_FAILURE() << "no " << metric << " of " << subject;
  return -1;
}

TEST(Cli, ListNamesTheFourBackends) {
  const Outcome list = run("list --format json");
  ASSERT_EQ(list.status, 0) << list.output;
  const Json document = Json::parse(list.output);
  EXPECT_EQ(document["workload"], "list");
  for (const char* backend : {"slab", "slub", "slob", "slqb"})
    EXPECT_EQ(median_of(document, backend, "available"), 1);
  EXPECT_TRUE(document["provenance"].contains("cpu"));
}

TEST(Cli, BulkMeasuresEachBackendBatchAndPath) {
  const Outcome bulk = run("bulk --rounds 2 --bulk 1,16 --format json");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  const Json document = Json::parse(bulk.output);
  EXPECT_EQ(document["schema"], 1);
  int improved = 0, floors = 0;
  for (const Json& ratio : document["ratios"])
    if (ratio["of"] == ratio["to"] && ratio["params"]["to_path"] == "generic") ++improved;
  for (const Json& result : document["results"]) floors += result["kind"] == "floor" ? 1 : 0;
  EXPECT_EQ(improved, 4 * 2);
  EXPECT_EQ(floors, 3 * 2 * 2);
}

std::vector<std::string> figures_of(const Json& document) {
  std::vector<std::string> names;
  if (!document.contains("figures")) return names;
  for (const Json& figure : document["figures"]) {
    names.push_back(figure["figure"]);
    EXPECT_GT(figure["target"], 0);
    EXPECT_EQ(figure["verdict"], "cannot tell") << "of two rounds";
  }
  return names;
}

std::size_t count_with(const std::vector<std::string>& names, const std::string& part) {
  return static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(),
                    [&](const std::string& name) { return name.find(part) != std::string::npos; }));
}

TEST(Cli, BulkHasARowForEachFigureThatWasMeasured) {
  const Outcome bulk = run("bulk --rounds 2 --bulk 1,16,64 --steps --rivals glibc --format json");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  const std::vector<std::string> names = figures_of(Json::parse(bulk.output));
  EXPECT_EQ(count_with(names, "single, best backend"), 1u);
  EXPECT_EQ(count_with(names, "bulk(64), slab to pointer copy"), 1u);
  EXPECT_EQ(count_with(names, "to fastest malloc (glibc)"), 3u);  // single, slub, slqb
  EXPECT_EQ(count_with(names, "bulk(16), "), 3u);
  EXPECT_EQ(count_with(names, "to a single call"), 4u);
  EXPECT_EQ(count_with(names, "largest step, "), 4u);
}

TEST(Cli, BulkHasNoFigureThatWasNotMeasured) {
  const Outcome bulk = run("bulk --rounds 2 --bulk 8 --format json");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  EXPECT_TRUE(figures_of(Json::parse(bulk.output)).empty());
}

TEST(Cli, BulkOnTwoThreadsUnderALock) {
  const Outcome bulk =
      run("bulk --rounds 1 --bulk 8 --threads 2 --policy locked --backend slab,slub --format csv");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  EXPECT_NE(bulk.output.find("row,subject,to,kind,bulk,path,size,threads"), std::string::npos);
}

TEST(Cli, RemoteMeasuresEachBackendBatchAndPathBesideTheRing) {
  const Outcome remote = run("remote --rounds 1 --bulk 1,32 --format json");
  ASSERT_EQ(remote.status, 0) << remote.output;
  const Json document = Json::parse(remote.output);
  int to_ring = 0;
  for (const Json& ratio : document["ratios"]) to_ring += ratio["to"] == "ring alone" ? 1 : 0;
  EXPECT_EQ(to_ring, 4 * 2 * 2);
  EXPECT_GT(median_of(document, "ring alone", "cycles_per_object"), 0);
}

TEST(Cli, FastpathHasAColumnAPolicy) {
  const Outcome fastpath = run("fastpath --rounds 1 --size 8,64 --format json");
  ASSERT_EQ(fastpath.status, 0) << fastpath.output;
  const Json document = Json::parse(fastpath.output);
  int to_atomic = 0, to_locked = 0;
  for (const Json& ratio : document["ratios"]) {
    EXPECT_EQ(ratio["params"]["policy"], "rseq");
    (ratio["params"]["to_policy"] == "atomic" ? to_atomic : to_locked) += 1;
  }
  EXPECT_EQ(to_atomic, 2 * 2);      // slub: sizes, shapes
  EXPECT_EQ(to_locked, 2 * 2 * 2);  // slab and slqb
  EXPECT_GT(median_of(document, "slob", "cycles_per_object"), 0);
}

TEST(Cli, FastpathPrintsTheTableOf2007BesideOurs) {
  const Outcome fastpath = run("fastpath --rounds 1 --size 8 --backend slub");
  ASSERT_EQ(fastpath.status, 0) << fastpath.output;
  EXPECT_NE(fastpath.output.find("190 to 201"), std::string::npos) << fastpath.output;
}

TEST(Cli, HackbenchMeasuresMessagesOverBothTransports) {
  for (const char* transport : {"queue", "socket"}) {
    const Outcome hackbench =
        run("hackbench --rounds 1 --groups 2 --pairs 2 --loops 20 --format json --transport " +
            std::string(transport));
    ASSERT_EQ(hackbench.status, 0) << hackbench.output;
    const Json document = Json::parse(hackbench.output);
    EXPECT_EQ(document["ratios"].size(), 3u);
    for (const char* backend : {"slab", "slub", "slob", "slqb"})
      EXPECT_GT(median_of(document, backend, "ns_per_message"), 0);
  }
}

TEST(Cli, SocketMeasuresEachNumberOfWorkers) {
  const Outcome socket = run("socket --rounds 1 --threads 1,3 --format json --rivals glibc");
  ASSERT_EQ(socket.status, 0) << socket.output;
  const Json document = Json::parse(socket.output);
  EXPECT_EQ(document["ratios"].size(), 2u * 4);
  for (const char* subject : {"slab", "slub", "slob", "slqb", "glibc"})
    EXPECT_GT(median_of(document, subject, "ns_per_open"), 0);
}

TEST(Cli, OnlySocketTakesSeveralNumbersOfThreads) {
  const Outcome bulk = run("bulk --threads 1,2");
  EXPECT_EQ(bulk.status, 2);
  EXPECT_NE(bulk.output.find("--threads: bulk takes one number"), std::string::npos);
  EXPECT_NE(run("socket --threads 2,2").output.find("--threads: 2 stands twice"),
            std::string::npos);
}

TEST(Cli, NodeComparesTheTwoPlacements) {
  const Outcome node = run("node --rounds 1 --loops 50 --format json");
  ASSERT_EQ(node.status, 0) << node.output;
  const Json document = Json::parse(node.output);
  ASSERT_EQ(document["ratios"].size(), 3u);
  for (const Json& ratio : document["ratios"]) EXPECT_EQ(ratio["to"], "slub (embedded node)");
  EXPECT_EQ(run("node --backend slab").status, 2);
}

TEST(Cli, FootprintTellsMemoryByPhase) {
  const Outcome footprint = run("footprint --objects 20000 --format json --rivals glibc");
  ASSERT_EQ(footprint.status, 0) << footprint.output;
  const Json document = Json::parse(footprint.output);
  ASSERT_EQ(document["series"].size(), 5u);
  for (const Json& series : document["series"]) {
    EXPECT_EQ(series["rows"].front()[0], "start");
    EXPECT_EQ(series["rows"].back()[0], "passing");
  }
  for (const char* subject : {"slab", "slub", "slob", "slqb", "glibc"})
    EXPECT_GT(median_of(document, subject, "peak_rss_bytes"),
              median_of(document, subject, "start_rss_bytes"));
}

TEST(Cli, FootprintFailsWhereMemoryIsShort) {
  ::setenv("KMEM_LIMIT_BYTES", "4194304", 1);
  const Outcome limited = run("footprint --objects 1000000 --backend slub");
  ::unsetenv("KMEM_LIMIT_BYTES");
  EXPECT_EQ(limited.status, 1) << limited.output;
  EXPECT_NE(limited.output.find("failed: slub: no memory"), std::string::npos) << limited.output;
}

TEST(Cli, HackbenchRefusesMoreThreadsThanItCanStart) {
  const Outcome hackbench = run("hackbench --groups 64 --pairs 64");
  EXPECT_EQ(hackbench.status, 2);
  EXPECT_NE(hackbench.output.find("8192 threads; at most 1024"), std::string::npos);
}

TEST(Cli, RivalsTakePartBesideTheBackends) {
  const Outcome bulk =
      run("bulk --rounds 2 --bulk 1,16 --backend slub --format json --rivals glibc --rival mine=" +
          preloads + "/libgood_malloc.so");
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

TEST(Cli, DrawnBatchesAndWorkingSets) {
  const Outcome bulk =
      run("bulk --rounds 1 --bulk 8,random --backend slab,slqb --working-set 16384,1000000 "
          "--rivals glibc --format json");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  const Json document = Json::parse(bulk.output);
  std::map<std::string, int> seen;
  for (const Json& result : document["results"]) {
    if (result["kind"] == "floor" || result["metric"] != "cycles_per_object") continue;
    EXPECT_GT(result["median"].get<double>(), 0);
    ++seen[result["params"]["bulk"].dump() + " of " + result["params"]["working_set"].dump()];
  }
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen["\"random\" of 16384"],
            seen["8 of 1000000"] - 3);         // single: the first batch alone
  EXPECT_FALSE(document.contains("figures"));  // they are of what is hot
}

TEST(Cli, PublishedTablesWhole) {
  const Outcome bulk = run("bulk --rounds 1 --bulk 1 --backend slob --published");
  EXPECT_EQ(bulk.status, 0);
  EXPECT_NE(bulk.output.find("250       102         98         3.9"), std::string::npos)
      << bulk.output;
  const Outcome fastpath = run("fastpath --rounds 1 --backend slob --size 8 --published");
  EXPECT_EQ(fastpath.status, 0);
  EXPECT_NE(fastpath.output.find("190 to 201"), std::string::npos) << fastpath.output;
}

TEST(Cli, BackendsTakePartThroughTheirSharedLibraries) {
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

TEST(Cli, PoolsTakePartInBulkBesideTheMallocs) {
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

TEST(Cli, PoolsOfOneThreadAreLeftOutWhereThreadsShareObjects) {
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
TEST(Cli, ASlowPoolDeclinesWhatIsHandedOver) {
  const Outcome remote = run("remote --rounds 1 --bulk 8 --backend slub --rivals pmr-synchronized");
  ASSERT_EQ(remote.status, 0) << remote.output;
  EXPECT_NE(remote.output.find("left out: pmr-synchronized does not do remote"), std::string::npos)
      << remote.output;
}

TEST(Cli, PoolsServeAWorkerAloneAndHaveNoKmalloc) {
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

TEST(Cli, APoolIsLeftOutForASizeThatItDoesNotHave) {
  const Outcome bulk =
      run("bulk --rounds 1 --bulk 1 --size 100,64 --backend slub --rivals boost-singleton-pool");
  ASSERT_EQ(bulk.status, 0) << bulk.output;
  EXPECT_NE(bulk.output.find("left out: boost-singleton-pool does not do bulk of 100 bytes"),
            std::string::npos)
      << bulk.output;
  EXPECT_EQ(bulk.output.find("does not do bulk of 64 bytes"), std::string::npos) << bulk.output;
}

TEST(Cli, RteMempoolHasBulkCallsOfItsOwn) {
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
TEST(Cli, APoolThatCannotStartIsLeftOutOfAllAndAnErrorByName) {
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

TEST(Cli, RivalsPassObjectsBetweenThreads) {
  const Outcome remote = run("remote --rounds 1 --bulk 8 --backend slab --rivals glibc");
  ASSERT_EQ(remote.status, 0) << remote.output;
  EXPECT_NE(remote.output.find("slab costs"), std::string::npos) << remote.output;
  const Outcome hackbench = run("hackbench --rounds 1 --loops 20 --backend slab --rivals glibc");
  ASSERT_EQ(hackbench.status, 0) << hackbench.output;
  EXPECT_NE(hackbench.output.find("glibc"), std::string::npos) << hackbench.output;
}

TEST(Cli, ARivalThatIsNoMallocIsRefused) {
  const std::string garbage = temporary("garbage.so");
  std::ofstream(garbage) << "no library";
  for (const std::string& path :
       {garbage, std::string("/nonexistent/libnone.so"), preloads + "/libexit_malloc.so"}) {
    const Outcome bulk = run("bulk --rounds 1 --bulk 1 --rival bad=" + path);
    EXPECT_EQ(bulk.status, 2) << bulk.output;
    EXPECT_NE(bulk.output.find("rival bad: "), std::string::npos) << bulk.output;
  }
  std::filesystem::remove(garbage);
}

TEST(Cli, ARivalThatDoesNotAnswerIsNotWaitedForForEver) {
  const Outcome bulk = run("bulk --rounds 1 --bulk 1 --patience 0.2 --rival slow=" + preloads +
                           "/libhang_malloc.so");
  EXPECT_EQ(bulk.status, 2) << bulk.output;
  EXPECT_NE(bulk.output.find("--patience"), std::string::npos) << bulk.output;
}

TEST(Cli, RivalsByNamesThatAreNotThere) {
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

TEST(Cli, ReplayOfTheBundledTraceServesEveryEvent) {
  const Outcome replay = run("replay --rounds 1 --format json " + bundled_trace());
  ASSERT_EQ(replay.status, 0) << replay.output;
  const Json document = Json::parse(replay.output);
  for (const char* backend : {"slab", "slub", "slob", "slqb"}) {
    EXPECT_EQ(median_of(document, backend, "failed_allocations"), 0) << backend;
    const double slabs = median_of(document, backend, "peak_slab_bytes");
    EXPECT_GE(slabs, median_of(document, backend, "peak_requested_bytes")) << backend;
  }
}

TEST(Cli, ReplayIsTheSameEachTime) {
  const std::string arguments = "replay --rounds 1 --backend slub --format json " + bundled_trace();
  const Json first = Json::parse(run(arguments).output),
             second = Json::parse(run(arguments).output);
  for (const char* metric : {"peak_slab_bytes", "final_slab_bytes", "alloc_slow", "free_slow",
                             "locks", "remote_frees", "slabs_created"})
    EXPECT_EQ(median_of(first, "slub", metric), median_of(second, "slub", metric)) << metric;
}

TEST(Cli, SlabinfoIsVersion21) {
  const std::string path = temporary("slabinfo");
  const Outcome replay = run("replay --rounds 1 --backend slqb --quiet --slabinfo-out " + path +
                             " " + bundled_trace());
  ASSERT_EQ(replay.status, 0) << replay.output;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "slabinfo - version: 2.1");
  std::filesystem::remove(path);
}

TEST(Cli, GeometryCheckTellsDifferencesByItsStatus) {
  const std::string path = temporary("rows-2cpu.csv");
  const std::string header =
      "cache,object_size,slab_size,align,order,objs_per_slab,min_partial,cpu_partial\n";
  std::ofstream(path) << header << "dentry,192,192,8,0,21,5,120\n";
  EXPECT_EQ(run("geometry --check " + path).status, 0);
  std::ofstream(path) << header << "dentry,192,192,8,1,42,5,120\n";
  const Outcome differs = run("geometry --check " + path);
  EXPECT_EQ(differs.status, 1);
  EXPECT_NE(differs.output.find("line 2, dentry: order is 0 here, 1 in the file"),
            std::string::npos);
  std::ofstream(path) << header << "dentry,192\n";
  EXPECT_EQ(run("geometry --check " + path).status, 2);
  std::filesystem::remove(path);
}

TEST(Cli, GeometryOfEachDesign) {
  const Outcome geometry = run("geometry --size 192,2304 --flags HWCACHE_ALIGN --cpus 16");
  EXPECT_EQ(geometry.status, 0);
  for (const char* backend : {"slab", "slub", "slob", "slqb"})
    EXPECT_NE(geometry.output.find(backend), std::string::npos);
}

TEST(Cli, BadRequestsAreOneLineAndStatusTwo) {
  for (const char* arguments : {"", "bluk", "bulk --size 0", "bulk --nonsense", "replay",
                                "geometry --check /nowhere.csv", "list --output /nowhere/file"}) {
    const Outcome bad = run(arguments);
    EXPECT_EQ(bad.status, 2) << arguments;
    EXPECT_EQ(std::count(bad.output.begin(), bad.output.end(), '\n'), 1) << bad.output;
    EXPECT_EQ(bad.output.rfind("kmem-bench: ", 0), 0u) << bad.output;
  }
}

TEST(Cli, AFileThatIsNoTraceIsOneLineAndStatusOne) {
  const std::string path = temporary("prose");
  std::ofstream(path) << "Nothing of the kind.\n";
  const Outcome prose = run("replay " + path);
  EXPECT_EQ(prose.status, 1);
  EXPECT_EQ(prose.output, "kmem-bench: no kmem events found in " + path + ": is it a trace?\n");
  std::filesystem::remove(path);
}

TEST(Cli, OutputGoesToAFile) {
  const std::string path = temporary("out.json"), page = temporary("out.html");
  const Outcome list = run("list --format json --output " + path + " --report " + page);
  EXPECT_EQ(list.status, 0);
  EXPECT_TRUE(list.output.empty());
  std::ifstream file(path);
  EXPECT_EQ(Json::parse(file)["schema"], 1);
  EXPECT_GT(std::filesystem::file_size(page), 0u);
  std::filesystem::remove(path);
  std::filesystem::remove(page);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 4) return std::fputs("usage: cli_test KMEM-BENCH SOURCE-ROOT PRELOADS\n", stderr), 2;
  test_program = argv[1];
  source_root = argv[2];
  preloads = argv[3];
  return RUN_ALL_TESTS();
}
