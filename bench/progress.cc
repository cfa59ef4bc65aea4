#include "bench/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace kmem::bench {

namespace {
constexpr std::size_t bar_columns = 30;
}

Progress::Progress(bool quiet) : visible_(!quiet && ::isatty(STDERR_FILENO) == 1) {}

void Progress::start(const std::string& what, std::size_t steps) {
  finish();
  what_ = what;
  steps_ = std::max<std::size_t>(steps, 1);
  done_ = 0;
  draw();
}

void Progress::step() {
  const std::size_t before = done_ * bar_columns / steps_;
  done_ = std::min(done_ + 1, steps_);
  if (done_ * bar_columns / steps_ != before) draw();
}

void Progress::draw() {
  if (!visible_) return;
  const std::size_t filled = done_ * bar_columns / steps_;
  fmt::print(stderr, "\r\033[K{} [{}{}] {}%", what_, std::string(filled, '#'),
             std::string(bar_columns - filled, '.'), done_ * 100 / steps_);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::finish() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace kmem::bench
