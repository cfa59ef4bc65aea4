// A bar on standard error while a run measures; nothing where that is no terminal, or with --quiet.
#pragma once

#include <cstddef>
#include <string>

namespace kmem::bench {

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A new bar; steps is how many step() calls fill it.
  void start(const std::string& what, std::size_t steps);
  void step();
  void finish();

 private:
  void draw();

  bool visible_;
  bool drawn_ = false;
  std::string what_;
  std::size_t steps_ = 1, done_ = 0;
};

}  // namespace kmem::bench
