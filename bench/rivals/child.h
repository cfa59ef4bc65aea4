// A rival's process, from kmem-bench's side.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bench/rivals/wire.h"

namespace kmem::bench {

struct ChildProgram {
  std::string path;
  std::string argument;  // empty: none
  std::string preload;   // a file; empty: none
};

// Ends with this object. Not for several threads at once.
class Child {
 public:
  // Throws std::runtime_error when it cannot be started.
  Child(std::string name, const ChildProgram& program, double patience_seconds);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Throws std::runtime_error: the child died, was silent for too long, or says why it failed.
  wire::Reply ask(const wire::Request& request);

  const std::string& name() const noexcept { return name_; }

 private:
  [[noreturn]] void give_up(const std::string& why);
  int reap(bool kill_first) noexcept;

  std::string name_;
  std::uint64_t patience_ns_;
  pid_t pid_ = -1;
  int fd_ = -1;
};

// Beside the running program, where both the build and an installation put it.
std::string beside_this_program(const std::string& name);

}  // namespace kmem::bench
