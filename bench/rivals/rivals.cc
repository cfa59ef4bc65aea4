#include "bench/rivals/rivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace kmem::bench {

namespace {

namespace fs = std::filesystem;

struct KnownMalloc {
  const char* name;
  const char* file;
};
// gperftools' smaller library has the same malloc: the first that is there.
constexpr KnownMalloc known_mallocs[] = {{"jemalloc", "libjemalloc.so.2"},
                                         {"tcmalloc", "libtcmalloc_minimal.so.4"},
                                         {"tcmalloc", "libtcmalloc.so.4"},
                                         {"mimalloc", "libmimalloc.so.2"},
                                         {"mimalloc", "libmimalloc.so.2.0"}};
constexpr const char* folders[] = {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                                   "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"};

struct KnownPool {
  const char* name;
  const char* program;
  BulkCalls bulk_calls;
};
constexpr KnownPool known_pools[] = {{"boost-pool", "kmem-bench-pools", BulkCalls::none},
                                     {"boost-singleton-pool", "kmem-bench-pools", BulkCalls::none},
                                     {"pmr", "kmem-bench-pools", BulkCalls::none},
                                     {"pmr-synchronized", "kmem-bench-pools", BulkCalls::none},
                                     {"rte_mempool", "kmem-bench-dpdk", BulkCalls::own}};

std::string find_library(const std::string& file) {
  std::error_code error;
  for (const char* folder : folders)
    if (fs::path path = fs::path(folder) / file; fs::exists(path, error)) return path.string();
  return "";
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

ChildProgram program_of(const Rival& rival) {
  if (rival.side == Side::pool) return {rival.file, rival.name, ""};
  return {beside_this_program("kmem-bench-malloc"), "", rival.file};
}

// The loader only warns of a preload that it cannot use: whose malloc runs is asked for.
void check_greeting(const Rival& rival, Child& child) {
  std::string greeting;
  try {
    greeting = child.ask({}).text;
  } catch (const std::runtime_error& error) {
    if (rival.side == Side::pool) throw BadRequest(fmt::format("rival {}", error.what()));
    throw BadRequest(fmt::format("rival {}; is {} a malloc to preload?", error.what(),
                                 rival.file.empty() ? "the libc's" : rival.file));
  }
  if (rival.side == Side::malloc && !rival.file.empty() && !same_file(greeting, rival.file))
    throw BadRequest(fmt::format("rival {}: malloc does not come from {} when that is preloaded",
                                 rival.name, rival.file));
}

std::unique_ptr<Contender> start(const Rival& rival, double patience_seconds) {
  auto child = std::make_shared<Child>(rival.name, program_of(rival), patience_seconds);
  check_greeting(rival, *child);
  return std::make_unique<ChildContender>(std::move(child), rival.side, rival.bulk_calls);
}

}  // namespace

std::vector<Rival> installed_rivals() {
  std::vector<Rival> found = {{"glibc", Side::malloc, ""}};
  for (const KnownMalloc& known : known_mallocs) {
    if (found.back().name == known.name) continue;
    if (std::string path = find_library(known.file); !path.empty())
      found.push_back({known.name, Side::malloc, std::move(path)});
  }
  for (const KnownPool& known : known_pools) {
    std::string program = beside_this_program(known.program);
    std::error_code error;
    if (fs::exists(program, error))
      found.push_back({known.name, Side::pool, std::move(program), known.bulk_calls});
  }
  return found;
}

std::vector<Rival> rivals_of(const Settings& settings) {
  const std::vector<Rival> installed = installed_rivals();
  std::vector<Rival> rivals;
  for (const std::string& name : settings.rivals) {
    if (name == "all") {
      rivals = installed;
      for (Rival& rival : rivals) rival.is_required = rival.side == Side::malloc;
      continue;
    }
    const auto found = std::find_if(installed.begin(), installed.end(),
                                    [&](const Rival& rival) { return rival.name == name; });
    if (found == installed.end()) {
      std::string there;
      for (const Rival& rival : installed) there += ", " + rival.name;
      throw BadRequest(fmt::format(
          "--rivals: '{}' is none of none, all{}; others by --rival NAME=FILE.so", name, there));
    }
    rivals.push_back(*found);
  }
  for (const auto& [name, path] : settings.rival_files)
    rivals.push_back({name, Side::malloc, path});
  return rivals;
}

std::vector<std::unique_ptr<Contender>> make_rivals(const Settings& settings, Report& report) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const Rival& rival : rivals_of(settings)) {
    try {
      contenders.push_back(start(rival, settings.patience_seconds));
    } catch (const BadRequest& error) {
      if (rival.is_required) throw;
      report.lines.push_back(fmt::format("left out: {}", error.what()));
    }
  }
  return contenders;
}

std::vector<std::unique_ptr<Contender>> make_abi_contenders(const Settings& settings) {
  std::vector<std::unique_ptr<Contender>> contenders;
  if (!settings.abi) return contenders;
  for (const std::string& backend : settings.backends) {
    auto child = std::make_shared<Child>(
        backend + " (C ABI)",
        ChildProgram{beside_this_program("kmem-bench-abi-" + backend), "", ""},
        settings.patience_seconds);
    const std::string greeting = child->ask({}).text;
    if (!greeting.starts_with(backend + " "))
      throw std::runtime_error(
          fmt::format("{}: the library that was loaded is '{}'", child->name(), greeting));
    contenders.push_back(
        std::make_unique<ChildContender>(std::move(child), Side::c_abi, BulkCalls::own));
  }
  return contenders;
}

}  // namespace kmem::bench
