// Other allocators: those that this machine has, and those that --rival names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/loop.h"
#include "bench/options.h"

namespace kmem::bench {

struct RivalFile {
  std::string name;
  std::string path;  // empty: the libc's own
};

// glibc first, then what is installed.
std::vector<RivalFile> installed_rivals();
// Those that --rivals and --rival ask for. Throws BadRequest for one that is not there.
std::vector<RivalFile> rivals_of(const Settings& settings);

// With --abi: the same backends through the C interface of their shared libraries, each in a
// process of its own. Throws std::runtime_error when one cannot be started.
std::vector<std::unique_ptr<Contender>> make_abi_contenders(const Settings& settings);

// Each in a process of its own. Throws BadRequest when a file is no malloc that can be preloaded.
std::vector<std::unique_ptr<Contender>> make_rivals(const Settings& settings);

}  // namespace kmem::bench
