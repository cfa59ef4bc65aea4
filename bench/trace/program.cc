#include "bench/trace/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "common/pages/page.h"

namespace kmem::bench::trace {

namespace {

constexpr std::uint64_t zero_size_ptr = 16;
constexpr unsigned cpus_max = 4096;

std::string kmalloc_class_name(const TraceEvent& event) {
  const char* family = "kmalloc";
  if ((event.gfp & gfp::dma) != 0)
    family = "dma-kmalloc";
  else if ((event.gfp & gfp::reclaimable) != 0)
    family = "kmalloc-rcl";
  else if ((event.gfp & gfp::account) != 0)
    family = "kmalloc-cg";
  const std::uint64_t bytes = event.bytes_alloc;
  if (bytes >= 1024 && bytes % 1024 == 0) return fmt::format("{}-{}k", family, bytes / 1024);
  return fmt::format("{}-{}", family, bytes);
}

// An event on its own: the reader's views are gone by the time that a late one must be moved.
struct Record {
  std::uint64_t time_ns, pointer;
  std::uint32_t bytes;
  std::uint32_t cache;  // kfree: none
  gfp_t gfp;
  std::int16_t node;
  std::uint16_t cpu;
  EventKind kind;
};

constexpr std::uint32_t no_cache = std::numeric_limits<std::uint32_t>::max();

class Builder {
 public:
  explicit Builder(Program& program) : program_(program) {}

  void read(Reader& reader);
  void build();

 private:
  struct LiveObject {
    std::uint32_t number, bytes, cache;
    std::uint16_t site;
    bool by_kmalloc;
  };

  std::uint32_t cache_for(const TraceEvent& event);
  std::uint16_t site_for(std::uint32_t cache, gfp_t gfp, int node);
  void add_alloc(const Record& record);
  void add_free(const Record& record);
  void free_object(std::unordered_map<std::uint64_t, LiveObject>::iterator found, bool by_kfree,
                   std::uint16_t cpu);
  void emit(OpKind kind, const LiveObject& object, std::uint16_t cpu);

  Program& program_;
  std::vector<Record> records_;
  std::unordered_map<std::string, std::uint32_t> caches_;
  std::unordered_map<std::uint64_t, std::uint16_t> sites_;
  std::unordered_map<std::uint64_t, LiveObject> live_;
  std::vector<std::uint32_t> free_numbers_;
  std::string key_;  // reused: one allocation for all look-ups
};

// Caches are told apart by name and sizes; where the kernel does not print names, by sizes alone.
std::uint32_t Builder::cache_for(const TraceEvent& event) {
  const bool is_kmalloc = event.kind == EventKind::kmalloc;
  key_.clear();
  if (is_kmalloc)
    key_ = kmalloc_class_name(event);
  else if (event.name.empty())
    fmt::format_to(std::back_inserter(key_), "cache-{}", event.bytes_alloc);
  else
    key_ = event.name;
  const std::size_t name_bytes = key_.size();
  if (!is_kmalloc)
    fmt::format_to(std::back_inserter(key_), " {}/{}", event.bytes_req, event.bytes_alloc);
  const auto [found, added] =
      caches_.try_emplace(key_, static_cast<std::uint32_t>(program_.caches.size()));
  if (added) {
    TracedCache cache;
    cache.name = key_.substr(0, name_bytes);
    cache.is_kmalloc = is_kmalloc;
    cache.bytes_req = event.bytes_req;
    cache.bytes_alloc = event.bytes_alloc;
    program_.caches.push_back(std::move(cache));
  }
  TracedCache& cache = program_.caches[found->second];
  cache.bytes_req = std::max(cache.bytes_req, event.bytes_req);
  return found->second;
}

std::uint16_t Builder::site_for(std::uint32_t cache, gfp_t gfp, int node) {
  const std::uint64_t key =
      std::uint64_t{cache} << 40 | std::uint64_t(static_cast<std::uint8_t>(node)) << 32 | gfp;
  const auto [found, added] =
      sites_.try_emplace(key, static_cast<std::uint16_t>(program_.sites.size()));
  if (!added) return found->second;
  if (program_.sites.size() > std::numeric_limits<std::uint16_t>::max())
    throw TraceError(fmt::format("{}: more than 65536 kinds of allocation", program_.file));
  program_.sites.push_back({cache, gfp, node});
  return found->second;
}

void Builder::read(Reader& reader) {
  TraceEvent event;
  unsigned cpus = 0;
  int node_max = 0;
  while (reader.next(event)) {
    if (event.cpu >= cpus_max)
      throw TraceError(fmt::format("{}: CPU {} is past the largest possible, {}", program_.file,
                                   event.cpu, cpus_max - 1));
    Record record{event.time_ns,
                  event.pointer,
                  static_cast<std::uint32_t>(event.bytes_req),
                  no_cache,
                  event.gfp,
                  static_cast<std::int16_t>(event.node),
                  static_cast<std::uint16_t>(event.cpu),
                  event.kind};
    if (event.node < no_node || event.node >= 64) record.node = no_node;
    const bool allocates = event.kind == EventKind::kmalloc || event.kind == EventKind::cache_alloc;
    if (allocates && std::max(event.bytes_req, event.bytes_alloc) > pages::max_block_bytes) {
      ++program_.oddities.too_large;
      continue;
    }
    if (allocates && event.pointer != 0 && event.bytes_req != 0)
      record.cache = cache_for(event);
    else if (event.kind == EventKind::cache_free && !event.name.empty()) {
      // Only to notice a free under another name: by name, as sizes are not printed here.
      record.bytes = static_cast<std::uint32_t>(std::hash<std::string_view>{}(event.name));
    }
    cpus = std::max(cpus, event.cpu + 1);
    node_max = std::max<int>(node_max, record.node);
    records_.push_back(record);
  }
  program_.cpus = std::min(std::max(cpus, reader.recording().cpus), cpus_max);
  program_.nodes = node_max + 1;
}

void Builder::emit(OpKind kind, const LiveObject& object, std::uint16_t cpu) {
  program_.ops.push_back({object.number, object.bytes, object.site, cpu, kind});
  ++program_.kinds[static_cast<std::size_t>(kind)];
}

void Builder::free_object(std::unordered_map<std::uint64_t, LiveObject>::iterator found,
                          bool by_kfree, std::uint16_t cpu) {
  const LiveObject object = found->second;
  live_.erase(found);
  emit(by_kfree || object.by_kmalloc ? OpKind::kfree : OpKind::cache_free, object, cpu);
  free_numbers_.push_back(object.number);
  TracedCache& cache = program_.caches[object.cache];
  ++cache.frees;
  --cache.live;
}

void Builder::add_alloc(const Record& record) {
  if (record.pointer == 0 || record.cache == no_cache) {
    ++program_.oddities.failed_allocs;
    return;
  }
  if (const auto found = live_.find(record.pointer); found != live_.end()) {
    ++program_.oddities.reallocated_live;
    free_object(found, found->second.by_kmalloc, record.cpu);
  }
  LiveObject object{};
  if (free_numbers_.empty())
    object.number = program_.objects++;
  else {
    object.number = free_numbers_.back();
    free_numbers_.pop_back();
  }
  object.bytes = record.bytes;
  object.cache = record.cache;
  object.site = site_for(record.cache, record.gfp, record.node);
  object.by_kmalloc = record.kind == EventKind::kmalloc;
  live_.emplace(record.pointer, object);
  emit(object.by_kmalloc ? OpKind::kmalloc : OpKind::cache_alloc, object, record.cpu);
  TracedCache& cache = program_.caches[record.cache];
  ++cache.allocs;
  cache.live_peak = std::max(cache.live_peak, ++cache.live);
}

void Builder::add_free(const Record& record) {
  if (record.pointer == 0 || record.pointer == zero_size_ptr) {
    ++program_.oddities.free_of_null;
    return;
  }
  const auto found = live_.find(record.pointer);
  if (found == live_.end()) {
    ++program_.oddities.free_of_unknown;
    return;
  }
  if (record.kind == EventKind::cache_free && record.bytes != 0) {
    const std::string& name = program_.caches[found->second.cache].name;
    const auto hash = static_cast<std::uint32_t>(std::hash<std::string_view>{}(name));
    if (hash != record.bytes) ++program_.oddities.freed_by_other_name;
  }
  free_object(found, record.kind == EventKind::kfree, record.cpu);
}

void Builder::build() {
  const auto by_time = [](const Record& a, const Record& b) { return a.time_ns < b.time_ns; };
  for (std::size_t i = 1; i < records_.size(); ++i)
    if (by_time(records_[i], records_[i - 1])) ++program_.oddities.out_of_order;
  // Stable: events of one instant stay as the kernel wrote them.
  if (program_.oddities.out_of_order > 0)
    std::stable_sort(records_.begin(), records_.end(), by_time);
  if (!records_.empty())
    program_.seconds_traced =
        static_cast<double>(records_.back().time_ns - records_.front().time_ns) / 1e9;
  program_.ops.reserve(records_.size());
  for (const Record& record : records_) {
    const bool frees = record.kind == EventKind::kfree || record.kind == EventKind::cache_free;
    if (frees)
      add_free(record);
    else
      add_alloc(record);
  }
  program_.live_at_end = static_cast<std::uint32_t>(live_.size());
}

}  // namespace

Program load_program(const std::string& path) {
  Program program;
  program.file = path;
  Reader reader(path);
  Builder builder(program);
  builder.read(reader);
  program.lines = reader.counts();
  program.recording = reader.recording();
  program.format = reader.format();
  program.compression = reader.compression();
  if (program.lines.events == 0)
    throw TraceError(fmt::format("no kmem events found in {}: is it a trace?", path));
  builder.build();
  return program;
}

}  // namespace kmem::bench::trace
