// kmem-bench from outside: exit statuses, the one line of an error, and documents that parse.
#include "tests/bench/cli.h"

namespace kmem::bench {
namespace {

std::string bundled_trace() {
  return test_arguments.source_root + "/bench/data/redis.ftrace.txt.xz";
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
}  // namespace kmem::bench
