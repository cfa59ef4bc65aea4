// The readers of traces: each format on lines as its tool prints them, and on lines that are not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/trace/cache_spec.h"
#include "bench/trace/fields.h"
#include "bench/trace/program.h"
#include "bench/trace/reader.h"
#include "bench/trace/zstd_frames.h"

namespace kmem::bench::trace {
namespace {

const char* const ftrace_lines =
    "# tracer: nop\n"
    "#\n"
    "# entries-in-buffer/entries-written: 4/9   #P:4\n"
    "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
    "     kworker/0:1-22240 [001] .....   681.152661: kmem_cache_alloc: "
    "call_site=getname+0x24/0x1f0 "
    "ptr=000000003305a6b8 name=names_cache bytes_req=4096 bytes_alloc=4096 gfp_flags=GFP_KERNEL "
    "node=-1 accounted=false\n"
    "          <...>-9     [003] d..2.   681.152662: kmalloc: call_site=x+0x1/0x2 ptr=00000000aa "
    "bytes_req=72 bytes_alloc=96 gfp_flags=GFP_KERNEL_ACCOUNT|__GFP_ZERO node=1 accounted=true\n"
    "          <...>-9     [003] d..2.   681.152663: kfree: call_site=x+0x1/0x2 ptr=00000000aa\n"
    "          <...>-9     [003] d..2.   681.152664: kmem_cache_free: call_site=x+0x1/0x2 "
    "ptr=000000003305a6b8 name=names_cache\n";

// A file of the test's own, gone when the test is.
class TraceFile {
 public:
  explicit TraceFile(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("kmem-trace-" + std::to_string(::getpid()) + "-" + std::to_string(count_++))) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  std::string path() const { return path_; }
  // By the tool of that name; false where the machine has none.
  bool compress(const std::string& tool) const {
    return std::system((tool + " -c " + path() + " > " + path() + ".z 2>/dev/null && mv " + path() +
                        ".z " + path())
                           .c_str()) == 0;
  }
  void cut(std::uintmax_t bytes) const {
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - bytes);
  }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

std::string error_of(const std::string& path) {
  try {
    load_program(path);
  } catch (const TraceError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TraceFields, PrefixIsFoundBehindATaskWithBrackets) {
  Prefix prefix;
  ASSERT_TRUE(parse_prefix("  [a]b [7] c-12  [002] d..1.  12.000000345: kmalloc: ptr=1", prefix));

  EXPECT_EQ(prefix.cpu, 2u);
  EXPECT_EQ(prefix.time_ns, 12'000'000'345u);
  EXPECT_EQ(prefix.event, "kmalloc");
  EXPECT_TRUE(ends_with_dashed_pid(prefix.task));
}

TEST(TraceFields, TimesMayHaveAnyNumberOfDecimals) {
  Prefix prefix;
  ASSERT_TRUE(parse_prefix("a-1 [0] 5.25: kfree: ptr=1", prefix));
  EXPECT_EQ(prefix.time_ns, 5'250'000'000u);
  ASSERT_TRUE(parse_prefix("a-1 [0] 5: kfree: ptr=1", prefix));
  EXPECT_EQ(prefix.time_ns, 5'000'000'000u);
  EXPECT_FALSE(parse_prefix("a-1 [0] 5.x: kfree: ptr=1", prefix));
  EXPECT_FALSE(parse_prefix("no cpu here", prefix));
  EXPECT_FALSE(parse_prefix("a-1 [0", prefix));
}

TEST(TraceFields, GfpFlagsAreNamedBitsAndUnknownNamesNone) {
  EXPECT_EQ(parse_gfp("GFP_KERNEL|__GFP_ZERO"), gfp::kernel | gfp::zero);
  EXPECT_EQ(parse_gfp("GFP_KERNEL_ACCOUNT"), gfp::kernel | gfp::account);
  EXPECT_EQ(parse_gfp("__GFP_OF_TOMORROW|0x80"), 0u);
  EXPECT_EQ(parse_gfp(""), 0u);
}

TEST(TraceFields, OldKernelsPrintNullPointersInWords) {
  Prefix prefix;
  TraceEvent event;
  ASSERT_TRUE(parse_prefix("a-1 [0] .... 5.1: kfree: call_site=f ptr=          (null)", prefix));
  EXPECT_EQ(parse_kmem_event(prefix, event), LineKind::event);
  EXPECT_EQ(event.pointer, 0u);
}

TEST(TraceFields, NamesOfCachesMayHoldSpaces) {
  Prefix prefix;
  TraceEvent event;
  ASSERT_TRUE(parse_prefix(
      "a-1 [0] 5.1: kmem_cache_alloc: ptr=1 name=my own cache bytes_req=8 bytes_alloc=8", prefix));
  ASSERT_EQ(parse_kmem_event(prefix, event), LineKind::event);
  EXPECT_EQ(event.name, "my own cache");
  EXPECT_EQ(event.bytes_alloc, 8u);
  ASSERT_TRUE(parse_prefix("a-1 [0] 5.1: kmem_cache_free: ptr=1 name=my own cache", prefix));
  ASSERT_EQ(parse_kmem_event(prefix, event), LineKind::event);
  EXPECT_EQ(event.name, "my own cache");
}

TEST(TraceReader, FtraceTraceWithItsHeader) {
  const TraceFile file(ftrace_lines);
  Reader reader(file.path());
  TraceEvent event;

  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.kind, EventKind::cache_alloc);
  EXPECT_EQ(event.cpu, 1u);
  EXPECT_EQ(event.pointer, 0x3305a6b8u);
  EXPECT_EQ(event.name, "names_cache");
  EXPECT_EQ(event.bytes_req, 4096u);
  EXPECT_EQ(event.node, no_node);
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.kind, EventKind::kmalloc);
  EXPECT_EQ(event.bytes_req, 72u);
  EXPECT_EQ(event.bytes_alloc, 96u);
  EXPECT_EQ(event.gfp, gfp::kernel | gfp::account | gfp::zero);
  EXPECT_EQ(event.node, 1);
  ASSERT_TRUE(reader.next(event));
  ASSERT_TRUE(reader.next(event));
  EXPECT_FALSE(reader.next(event));
  EXPECT_STREQ(reader.format(), "ftrace trace");
  EXPECT_STREQ(reader.compression(), "none");
  EXPECT_EQ(reader.recording().cpus, 4u);
  EXPECT_EQ(reader.recording().overwritten_events, 5u);
  EXPECT_EQ(reader.counts().comments, 4u);
  EXPECT_EQ(reader.counts().malformed, 0u);
}

TEST(TraceReader, TracePipeWithLostMarks) {
  const TraceFile file(
      "     other-1   [001] .....   735.436393: kfree: call_site=f+0x1/0x2 ptr=000000008e2c4ac2\n"
      "CPU:1 [LOST 211 EVENTS]\n"
      "     other-1   (   12) [001] .....   735.436394: kfree: call_site=f ptr=1\n");
  Reader reader(file.path());
  TraceEvent event;
  ASSERT_TRUE(reader.next(event));
  ASSERT_TRUE(reader.next(event));
  EXPECT_FALSE(reader.next(event));
  EXPECT_STREQ(reader.format(), "ftrace trace_pipe");
  EXPECT_EQ(reader.counts().lost_marks, 1u);
  EXPECT_EQ(reader.recording().lost_events, 211u);
}

TEST(TraceReader, TraceCmdReportWithAndWithoutThePlugin) {
  const TraceFile file(
      "cpus=8\n"
      "CPU 3 is empty\n"
      "          ls-812   [000]   100.123456789: kmalloc:              (alloc_pipe+0x57) "
      "call_site=f "
      "ptr=0xffff888102aef7e0 bytes_req=32 bytes_alloc=32 gfp_flags=GFP_KERNEL\n"
      "CPU:0 [17 EVENTS DROPPED]\n"
      "CPU:1 [EVENTS DROPPED]\n"
      "          ls-812   [000] d..2.   100.123456999: kfree:                call_site=ffffffff81 "
      "ptr=0xffff888102aef7e0\n"
      "          ls-812   [000]   100.2: sched_switch:         prev_comm=ls prev_pid=812\n");
  Reader reader(file.path());
  TraceEvent event;
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.time_ns, 100'123'456'789u);
  EXPECT_EQ(event.pointer, 0xffff888102aef7e0u);
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.kind, EventKind::kfree);
  EXPECT_FALSE(reader.next(event));
  EXPECT_STREQ(reader.format(), "trace-cmd report");
  EXPECT_EQ(reader.recording().cpus, 8u);
  EXPECT_EQ(reader.recording().lost_events, 17u);
  EXPECT_EQ(reader.counts().lost_marks, 2u);
  EXPECT_EQ(reader.counts().other_events, 1u);
  EXPECT_EQ(reader.counts().comments, 2u);
}

TEST(TraceReader, PerfScriptWithCallChains) {
  const TraceFile file(
      "# ========\n"
      "           a b 22591 [000]   692.265479:          kmem:kmalloc: call_site=f+0x10c "
      "ptr=0xffff888102aef7e0 bytes_req=32 bytes_alloc=32 gfp_flags=GFP_KERNEL node=-1\n"
      "\tffffffff8128f1e4 kmem_cache_alloc+0x1a4 ([kernel.kallsyms])\n"
      "\n"
      "           a b 22591 [001]   692.265480: PERF_RECORD_LOST lost 42\n"
      "           a b 22591 [001]   692.265481: sched:sched_switch: prev_comm=a\n"
      "           a b 22591 [001]   692.265568:            kmem:kfree: call_site=f+0x160 "
      "ptr=0xffff888102aef7e0\n");
  Reader reader(file.path());
  TraceEvent event;
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.kind, EventKind::kmalloc);
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.kind, EventKind::kfree);
  EXPECT_EQ(event.cpu, 1u);
  EXPECT_FALSE(reader.next(event));
  EXPECT_STREQ(reader.format(), "perf script");
  EXPECT_EQ(reader.recording().lost_events, 42u);
  EXPECT_EQ(reader.counts().other_events, 1u);
  EXPECT_EQ(reader.counts().malformed, 0u);
}

TEST(TraceReader, GarbageIsCountedAndPassedOver) {
  const std::string lines = ftrace_lines;
  const TraceFile file(lines +
                       "!!! not a line of any trace\n"
                       "other-1 [001] ..... 1.5: kmalloc: ptr=zzzz bytes_req=1 bytes_alloc=8\n"
                       "other-1 [001] ..... 1.5: kmalloc: ptr=12 bytes_req=1\n"
                       "other-1 [001] ..... 1.5: kfree: call_site=f\n"
                       "other-1 [001] ..... 1.5: mm_page_alloc: page=1 pfn=1\n"
                       "\xff\xfe\n\n");
  Reader reader(file.path());
  TraceEvent event;
  while (reader.next(event)) {
  }
  EXPECT_EQ(reader.counts().events, 4u);
  EXPECT_EQ(reader.counts().malformed, 5u);
  EXPECT_EQ(reader.counts().other_events, 1u);
}

TEST(TraceReader, ALineThatTheFileEndsInIsNotUsed) {
  const std::string lines = ftrace_lines;
  const TraceFile file(lines.substr(0, lines.size() - 6));
  Reader reader(file.path());
  TraceEvent event;
  while (reader.next(event)) {
  }
  EXPECT_EQ(reader.counts().events, 3u);
  EXPECT_TRUE(reader.counts().cut_line);
}

TEST(TraceReader, CarriageReturnsAreLineEndsToo) {
  std::string lines = ftrace_lines;
  for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 2)
    lines.insert(at, "\r");
  const TraceFile file(lines);
  Reader reader(file.path());
  TraceEvent event;
  while (reader.next(event)) {
  }
  EXPECT_EQ(reader.counts().events, 4u);
  EXPECT_EQ(reader.counts().malformed, 0u);
}

class Compressed : public testing::TestWithParam<const char*> {
 protected:
  // Long enough that a cut falls into the data.
  static std::string many_lines() {
    std::string lines = ftrace_lines;
    for (int i = 0; i < 5000; ++i)
      lines += "a-1 [000] ..... 700." + std::to_string(100000 + i) +
               ": kfree: call_site=f ptr=" + std::to_string(i * 7919 % 10007 + 1) + "\n";
    return lines;
  }
};

TEST_P(Compressed, ReadsTheSameEvents) {
  const TraceFile file(many_lines());
  if (!file.compress(GetParam())) GTEST_SKIP() << "no " << GetParam() << " on this machine";
  Reader reader(file.path());
  TraceEvent event;
  while (reader.next(event)) {
  }
  EXPECT_EQ(reader.counts().events, 5004u);
  EXPECT_STREQ(reader.compression(), GetParam());
}

TEST_P(Compressed, CutDataIsAnErrorThatSaysSo) {
  for (const std::uintmax_t bytes : {3u, 700u}) {
    const TraceFile file(many_lines());
    if (!file.compress(GetParam())) GTEST_SKIP() << "no " << GetParam() << " on this machine";
    file.cut(bytes);
    EXPECT_NE(error_of(file.path()).find("cut short"), std::string::npos) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Tools, Compressed, testing::Values("xz", "gzip", "zstd"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ZstdFrames, OnlyBetweenFramesMayAStreamEnd) {
  // A frame of one raw block "ab": magic, single segment with a size byte, last raw block of 2.
  const std::string frame(
      "\x28\xB5\x2F\xFD\x20\x02\x11\x00\x00"
      "ab",
      11);
  const std::string skippable("\x53\x2A\x4D\x18\x03\x00\x00\x00xyz", 11);
  const std::string stream = frame + skippable + frame;
  ZstdFrames frames;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    EXPECT_EQ(frames.between_frames(), i % 11 == 0) << i;
    frames.feed(&stream[i], 1);
  }
  EXPECT_TRUE(frames.between_frames());
}

TEST(TraceErrors, FilesThatAreNoTraces) {
  EXPECT_NE(error_of("/nowhere/at/all").find("cannot open /nowhere/at/all"), std::string::npos);
  EXPECT_NE(error_of("/").find("is a directory"), std::string::npos);
  const TraceFile empty("");
  EXPECT_NE(error_of(empty.path()).find("is empty"), std::string::npos);
  const TraceFile prose("To be, or not to be:\nthat is the question.\n");
  EXPECT_NE(error_of(prose.path()).find("no kmem events found"), std::string::npos);
  const TraceFile binary(std::string(3 << 20, '\x7f'));
  EXPECT_NE(error_of(binary.path()).find("is it a trace?"), std::string::npos);
}

std::string line(const char* time, unsigned cpu, const std::string& event) {
  return "a-1 [00" + std::to_string(cpu) + "] ..... " + time + ": " + event + "\n";
}
std::string alloc(const char* pointer, const char* name = "c", int req = 40, int slot = 40) {
  return std::string("kmem_cache_alloc: call_site=f ptr=") + pointer + " name=" + name +
         " bytes_req=" + std::to_string(req) + " bytes_alloc=" + std::to_string(slot) +
         " gfp_flags=GFP_KERNEL node=-1 accounted=false";
}
std::string kmalloc(const char* pointer, int req, int slot, const char* gfp = "GFP_KERNEL") {
  return std::string("kmalloc: call_site=f ptr=") + pointer + " bytes_req=" + std::to_string(req) +
         " bytes_alloc=" + std::to_string(slot) + " gfp_flags=" + gfp + " node=-1 accounted=false";
}

TEST(Program, NumbersOfFreedObjectsAreUsedAgain) {
  const TraceFile file(line("1.1", 0, alloc("aa")) +
                       line("1.2", 1, "kmem_cache_free: call_site=f ptr=aa name=c") +
                       line("1.3", 1, alloc("bb")) + line("1.4", 0, alloc("cc")));
  const Program program = load_program(file.path());

  ASSERT_EQ(program.ops.size(), 4u);
  EXPECT_EQ(program.ops[1].kind, OpKind::cache_free);
  EXPECT_EQ(program.ops[2].object, program.ops[0].object);
  EXPECT_EQ(program.objects, 2u);
  EXPECT_EQ(program.live_at_end, 2u);
  EXPECT_EQ(program.cpus, 2u);
  ASSERT_EQ(program.caches.size(), 1u);
  EXPECT_EQ(program.caches[0].allocs, 3u);
  EXPECT_EQ(program.caches[0].live_peak, 2u);
}

TEST(Program, WhatCannotBeReplayedIsCounted) {
  const TraceFile file(line("1.0", 0, "kfree: call_site=f ptr=dead") +
                       line("1.1", 0, "kfree: call_site=f ptr=0000000000000000") +
                       line("1.2", 0, "kfree: call_site=f ptr=(null)") +
                       line("1.3", 0, kmalloc("(null)", 8, 8)) + line("1.4", 0, alloc("aa")) +
                       line("1.5", 0, alloc("aa")) +
                       line("1.6", 0, "kmem_cache_free: call_site=f ptr=aa name=other"));
  const Program program = load_program(file.path());

  EXPECT_EQ(program.oddities.free_of_unknown, 1u);
  EXPECT_EQ(program.oddities.free_of_null, 2u);
  EXPECT_EQ(program.oddities.failed_allocs, 1u);
  EXPECT_EQ(program.oddities.reallocated_live, 1u);
  EXPECT_EQ(program.oddities.freed_by_other_name, 1u);
  ASSERT_EQ(program.ops.size(), 4u);  // alloc, the free that was lost, alloc, free
  EXPECT_EQ(program.ops[1].kind, OpKind::cache_free);
  EXPECT_EQ(program.live_at_end, 0u);
}

TEST(Program, EventsAreReplayedInTheOrderOfTheirTimes) {
  const TraceFile file(line("1.3", 1, "kfree: call_site=f ptr=aa") +
                       line("1.1", 0, kmalloc("aa", 100, 128)) +
                       line("1.2", 0, kmalloc("bb", 100, 128)));
  const Program program = load_program(file.path());

  EXPECT_EQ(program.oddities.out_of_order, 1u);
  EXPECT_EQ(program.oddities.free_of_unknown, 0u);
  ASSERT_EQ(program.ops.size(), 3u);
  EXPECT_EQ(program.ops[2].kind, OpKind::kfree);
  EXPECT_EQ(program.ops[2].cpu, 1u);
  EXPECT_EQ(program.ops[2].bytes, 100u);
}

TEST(Program, KmallocIsToldByClassAndFamily) {
  const TraceFile file(line("1.1", 0, kmalloc("a1", 100, 128)) +
                       line("1.2", 0, kmalloc("a2", 110, 128, "GFP_KERNEL_ACCOUNT")) +
                       line("1.3", 0, kmalloc("a3", 1000, 1024, "GFP_KERNEL|__GFP_RECLAIMABLE")) +
                       line("1.4", 0, kmalloc("a4", 120, 128, "GFP_ATOMIC")));
  const Program program = load_program(file.path());

  ASSERT_EQ(program.caches.size(), 3u);
  EXPECT_EQ(program.caches[0].name, "kmalloc-128");
  EXPECT_EQ(program.caches[0].allocs, 2u);
  EXPECT_EQ(program.caches[1].name, "kmalloc-cg-128");
  EXPECT_EQ(program.caches[2].name, "kmalloc-rcl-1k");
}

TEST(Program, AKmallocFreedThroughACacheIsKfreed) {
  const TraceFile file(line("1.1", 0, kmalloc("a1", 100, 128)) +
                       line("1.2", 0, "kmem_cache_free: call_site=f ptr=a1 name=kmalloc-128"));
  const Program program = load_program(file.path());
  ASSERT_EQ(program.ops.size(), 2u);
  EXPECT_EQ(program.ops[1].kind, OpKind::kfree);
}

TracedCache traced(std::uint64_t req, std::uint64_t slot) {
  TracedCache cache;
  cache.name = "c";
  cache.bytes_req = req;
  cache.bytes_alloc = slot;
  return cache;
}

TEST(CacheSpec, TheRequestReproducesTheKernelsSlot) {
  EXPECT_EQ(spec_for(traced(192, 192)).flags, slab_flag::no_merge);
  EXPECT_EQ(spec_for(traced(184, 192)).flags, slab_flag::no_merge | slab_flag::hwcache_align);
  const CacheSpec inode = spec_for(traced(1120, 1128));
  EXPECT_NE(inode.ctor, nullptr);
  EXPECT_EQ(inode.flags, slab_flag::no_merge);
  const CacheSpec tcp = spec_for(traced(2304, 2368));
  EXPECT_NE(tcp.ctor, nullptr);
  EXPECT_EQ(tcp.flags, slab_flag::no_merge | slab_flag::hwcache_align);
  EXPECT_EQ(spec_for(traced(24, 32)).align, 0u);  // cache-line aligned: the half line that fits
  EXPECT_EQ(spec_for(traced(100, 256)).align, 256u);
  EXPECT_EQ(spec_for(traced(100, 1000)).object_bytes, 1000u);
}

}  // namespace
}  // namespace kmem::bench::trace
