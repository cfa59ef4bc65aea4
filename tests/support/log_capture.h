// Takes the library's lines (warnings, reports) instead of standard error.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace kmem::test {

class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<std::string> take();  // all lines since the last take()

 private:
  static void hook(void* context, const char* line);

  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Lines that contain text.
std::size_t count_lines(const std::vector<std::string>& lines, const std::string& text);
std::string joined(const std::vector<std::string>& lines);

}  // namespace kmem::test
