#include "tests/support/log_capture.h"

#include <algorithm>

#include "common/base/log.h"

namespace kmem::test {

LogCapture::LogCapture() { set_log_hook(&LogCapture::hook, this); }
LogCapture::~LogCapture() { set_log_hook(nullptr, nullptr); }

void LogCapture::hook(void* context, const char* line) {
  auto& self = *static_cast<LogCapture*>(context);
  std::lock_guard guard(self.mutex_);
  self.lines_.emplace_back(line);
  auto& last = self.lines_.back();
  while (!last.empty() && last.back() == '\n') last.pop_back();
}

std::vector<std::string> LogCapture::take() {
  std::lock_guard guard(mutex_);
  std::vector<std::string> lines;
  lines.swap(lines_);
  return lines;
}

std::size_t count_lines(const std::vector<std::string>& lines, const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(),
                    [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}

}  // namespace kmem::test
