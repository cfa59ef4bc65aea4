#include "bench/rivals/rivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "bench/rivals/child_contender.h"

namespace kmem::bench {

namespace {

namespace fs = std::filesystem;

struct Known {
  const char* name;
  const char* file;
};
// gperftools' smaller library has the same malloc: the first that is there.
constexpr Known known[] = {{"jemalloc", "libjemalloc.so.2"},
                           {"tcmalloc", "libtcmalloc_minimal.so.4"},
                           {"tcmalloc", "libtcmalloc.so.4"},
                           {"mimalloc", "libmimalloc.so.2"},
                           {"mimalloc", "libmimalloc.so.2.0"}};
constexpr const char* folders[] = {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu",
                                   "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"};

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

// The loader only warns of a preload that it cannot use: whose malloc runs is asked for.
std::shared_ptr<Child> start(const RivalFile& rival, double patience_seconds) {
  auto child = std::make_shared<Child>(rival.name, beside_this_program("kmem-bench-malloc"),
                                       rival.path, patience_seconds);
  std::string file;
  try {
    file = child->ask({}).text;
  } catch (const std::runtime_error& error) {
    throw BadRequest(fmt::format("rival {}; is {} a malloc to preload?", error.what(),
                                 rival.path.empty() ? "the libc's" : rival.path));
  }
  if (!rival.path.empty() && !same_file(file, rival.path))
    throw BadRequest(fmt::format("rival {}: malloc does not come from {} when that is preloaded",
                                 rival.name, rival.path));
  return child;
}

}  // namespace

std::vector<RivalFile> installed_rivals() {
  std::vector<RivalFile> found = {{"glibc", ""}};
  for (const Known& rival : known) {
    if (found.back().name == rival.name) continue;
    if (std::string path = find_library(rival.file); !path.empty())
      found.push_back({rival.name, std::move(path)});
  }
  return found;
}

std::vector<RivalFile> rivals_of(const Settings& settings) {
  const std::vector<RivalFile> installed = installed_rivals();
  std::vector<RivalFile> rivals;
  for (const std::string& name : settings.rivals) {
    if (name == "all") {
      rivals = installed;
      continue;
    }
    const auto found = std::find_if(installed.begin(), installed.end(),
                                    [&](const RivalFile& rival) { return rival.name == name; });
    if (found == installed.end()) {
      std::string there;
      for (const RivalFile& rival : installed) there += ", " + rival.name;
      throw BadRequest(fmt::format(
          "--rivals: '{}' is none of none, all{}; others by --rival NAME=FILE.so", name, there));
    }
    rivals.push_back(*found);
  }
  for (const auto& [name, path] : settings.rival_files) rivals.push_back({name, path});
  return rivals;
}

std::vector<std::unique_ptr<Contender>> make_rivals(const Settings& settings) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const RivalFile& rival : rivals_of(settings))
    contenders.push_back(
        std::make_unique<ChildContender>(start(rival, settings.patience_seconds), "rival", false));
  return contenders;
}

std::vector<std::unique_ptr<Contender>> make_abi_contenders(const Settings& settings) {
  std::vector<std::unique_ptr<Contender>> contenders;
  if (!settings.abi) return contenders;
  for (const std::string& backend : settings.backends) {
    auto child = std::make_shared<Child>(backend + " (C ABI)",
                                         beside_this_program("kmem-bench-abi-" + backend), "",
                                         settings.patience_seconds);
    const std::string greeting = child->ask({}).text;
    if (!greeting.starts_with(backend + " "))
      throw std::runtime_error(
          fmt::format("{}: the library that was loaded is '{}'", child->name(), greeting));
    contenders.push_back(std::make_unique<ChildContender>(std::move(child), "backend", true));
  }
  return contenders;
}

}  // namespace kmem::bench
