// Other allocators: those that this machine and this build have, and those that --rival names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/loop.h"
#include "bench/options.h"
#include "bench/report/report.h"
#include "bench/rivals/child_contender.h"

namespace kmem::bench {

// A malloc to preload, or a pool of objects that has a program of its own.
struct Rival {
  std::string name;
  Side side = Side::malloc;
  std::string file;  // malloc: to preload, empty: the libc's own; pool: the program
  BulkCalls bulk_calls = BulkCalls::none;
  bool is_required = true;  // false: left out where it cannot start
};

// glibc first, then the mallocs that are installed, then the pools that are built.
std::vector<Rival> installed_rivals();
// Those that --rivals and --rival ask for. Throws BadRequest for one that is not there.
std::vector<Rival> rivals_of(const Settings& settings);

// With --abi: the same backends through the C interface of their shared libraries, each in a
// process of its own. Throws std::runtime_error when one cannot be started.
std::vector<std::unique_ptr<Contender>> make_abi_contenders(const Settings& settings);

// Each in a process of its own; the report tells who is left out. Throws BadRequest when a file is
// no malloc that can be preloaded, or a pool that was named cannot start.
std::vector<std::unique_ptr<Contender>> make_rivals(const Settings& settings, Report& report);

}  // namespace kmem::bench
