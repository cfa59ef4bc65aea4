// Gathers what the library would print, while it lives.
#pragma once

#include <string>
#include <vector>

#include "common/base/log.h"

namespace kmem::testing {

class LogLines {
 public:
  LogLines() {
    set_log_hook([](void* self,
                    const char* line) { static_cast<LogLines*>(self)->lines_.emplace_back(line); },
                 this);
  }
  ~LogLines() { set_log_hook(nullptr, nullptr); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }
  bool contains(const std::string& part) const {
    for (const std::string& line : lines_)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }
  void clear() { lines_.clear(); }

 private:
  std::vector<std::string> lines_;
};

}  // namespace kmem::testing
