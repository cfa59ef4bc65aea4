// The command line: what is understood, and the line that says why something is not.
#include "bench/options.h"

#include <gtest/gtest.h>

#include "bench/loop.h"

namespace kmem::bench {
namespace {

Settings parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kmem-bench");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data()).value();
}

std::string error_of(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const BadRequest& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Options, DefaultsAreAllBackendsAndATable) {
  const Settings settings = parse({"bulk"});
  EXPECT_EQ(settings.backends, (std::vector<std::string>{"slab", "slub", "slob", "slqb"}));
  EXPECT_EQ(settings.format, Format::table);
  EXPECT_EQ(settings.threads, 1u);
  EXPECT_TRUE(settings.output.empty());
}

TEST(Options, ValuesByEqualsSignAndByTheNextWord) {
  const Settings settings = parse({"bulk", "--backend=slqb,slab", "--size", "64,256", "--rounds",
                                   "7", "--seconds=1.5", "--format", "json", "--quiet"});
  EXPECT_EQ(settings.backends, (std::vector<std::string>{"slqb", "slab"}));
  EXPECT_EQ(settings.sizes, (std::vector<std::size_t>{64, 256}));
  EXPECT_EQ(settings.rounds, 7u);
  EXPECT_EQ(settings.seconds, 1.5);
  EXPECT_EQ(settings.format, Format::json);
  EXPECT_TRUE(settings.quiet);
}

TEST(Options, BatchesMayBeDrawn) {
  const Settings settings =
      parse({"bulk", "--bulk", "1,random,64", "--working-set", "32768,1048576"});
  EXPECT_EQ(settings.batches, (std::vector<std::size_t>{1, random_batch, 64}));
  EXPECT_EQ(settings.working_sets, (std::vector<std::size_t>{32768, 1048576}));
  EXPECT_TRUE(parse({"bulk"}).working_sets.empty());
  EXPECT_TRUE(parse({"fastpath", "--published"}).published);
}

TEST(Options, ReplayTakesFiles) {
  const Settings settings = parse({"replay", "a.txt", "--no-touch", "b.xz"});
  EXPECT_EQ(settings.files, (std::vector<std::string>{"a.txt", "b.xz"}));
  EXPECT_FALSE(settings.touch);
}

TEST(Options, FlagsByName) {
  EXPECT_EQ(parse({"geometry", "--flags", "SLAB_HWCACHE_ALIGN,typesafe_by_rcu"}).flags,
            slab_flag::hwcache_align | slab_flag::typesafe_by_rcu);
}

TEST(Options, BadRequestsSayWhatWouldBeRight) {
  const struct {
    std::vector<const char*> arguments;
    const char* says;
  } cases[] = {
      {{},
       "a subcommand is needed: list, bulk, replay, geometry, remote, fastpath, hackbench, socket, "
       "node, footprint; see --help"},
      {{"bluk"}, "no subcommand 'bluk': is 'bulk' meant?"},
      {{"nonsense"},
       "no subcommand 'nonsense': there are list, bulk, replay, geometry, remote, fastpath, "
       "hackbench, socket, node, footprint"},
      {{"bulk", "--rouns", "3"}, "no option '--rouns': is '--rounds' meant?"},
      {{"bulk", "--xyzzy"}, "no option '--xyzzy'; see kmem-bench bulk --help"},
      {{"bulk", "--check", "f"}, "--check does not apply to bulk; see kmem-bench bulk --help"},
      {{"bulk", "--backend", "slab,slup"},
       "--backend: 'slup' is none of all, slab, slub, slob, slqb"},
      {{"bulk", "--backend", "slab,slab"}, "--backend: 'slab' is named twice; name each once"},
      {{"bulk", "--size", "0"}, "--size: '0' is not a whole number from 1 to 4194304"},
      {{"bulk", "--size", "4194305"}, "--size: '4194305' is not a whole number from 1 to 4194304"},
      {{"bulk", "--size", "64,"}, "--size: '' is not a whole number from 1 to 4194304"},
      {{"bulk", "--bulk", "0"}, "--bulk: '0' is not a whole number from 1 to 65536"},
      {{"bulk", "--bulk", "1,1"}, "--bulk: '1' is named twice; name each once"},
      {{"remote", "--bulk", "random"}, "--bulk: 'random' is not a whole number from 1 to 65536"},
      {{"bulk", "--working-set", "0"},
       "--working-set: '0' is not a whole number from 1 to 1099511627776"},
      {{"remote", "--published"},
       "--published does not apply to remote; see kmem-bench remote --help"},
      {{"bulk", "--rounds", "-1"}, "--rounds: '-1' is not a whole number from 1 to 100000"},
      {{"bulk", "--rounds", "99999999999999999999999"},
       "--rounds: '99999999999999999999999' is not a whole number from 1 to 100000"},
      {{"bulk", "--threads", "2x"}, "--threads: '2x' is not a whole number from 1 to 1024"},
      {{"bulk", "--seconds", "0"},
       "--seconds: '0' is not a number of seconds above 0 and up to 86400"},
      {{"bulk", "--seconds", "nan"},
       "--seconds: 'nan' is not a number of seconds above 0 and up to 86400"},
      {{"bulk", "--format", "xml"}, "--format: 'xml' is none of table, csv, json"},
      {{"bulk", "--policy", "magic"}, "--policy: 'magic' is none of rseq, locked, virtual, atomic"},
      {{"bulk", "--policy", "atomic"}, "--policy: 'atomic' is SLUB's alone; add --backend slub"},
      {{"bulk", "trace.txt"}, "bulk takes no file names ('trace.txt'); see kmem-bench bulk --help"},
      {{"replay"}, "replay: at least one trace is needed: kmem-bench replay FILE..."},
      {{"replay", "f", "--threads", "2"},
       "--threads: replay is serial, in the order of the trace; only 1 is possible"},
      {{"geometry", "--align", "48"}, "--align: '48' is not a power of two from 1 to 4096"},
      {{"geometry", "--align", "8192"}, "--align: '8192' is not a power of two from 1 to 4096"},
  };
  for (const auto& bad : cases) EXPECT_EQ(error_of(bad.arguments), bad.says);
}

TEST(Options, AnOptionWithoutItsValueOrGivenTwiceIsRefused) {
  EXPECT_NE(error_of({"bulk", "--size"}), "accepted");
  EXPECT_NE(error_of({"bulk", "--size", "1", "--size", "2"}), "accepted");
  EXPECT_NE(error_of({"bulk", "--quiet=yes"}), "accepted");
}

TEST(Options, AbbreviationsAreNotGuessed) {
  EXPECT_NE(error_of({"bulk", "--round", "3"}), "accepted");
}

TEST(Options, HelpNamesEveryOptionOfTheSubcommand) {
  const std::string text = help("replay");
  for (const char* name : {"--backend", "--no-touch", "--slabinfo-out", "--format", "--help"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
  EXPECT_EQ(text.find("--check"), std::string::npos);
}

}  // namespace
}  // namespace kmem::bench
