#include "common/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>

namespace kmem {
namespace {

constexpr std::size_t line_bytes_max = 1000;
constexpr char prefix[] = "kmem: ";

struct Hook {
  std::atomic<LogHook> function{nullptr};
  std::atomic<void*> context{nullptr};
};
constinit Hook hook;

void write_all(const char* text, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const ssize_t written = write(STDERR_FILENO, text, bytes);
    if (written <= 0) return;  // standard error is gone: there is nobody left to tell
    text += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

// line has room for one character more than its text: the newline.
void emit(char* line, std::size_t bytes) noexcept {
  // Acquire: pairs with the release in set_log_hook(), so that the hook's context is seen with it.
  if (LogHook function = hook.function.load(std::memory_order_acquire)) {
    function(hook.context.load(std::memory_order_relaxed), line);
    return;
  }
  line[bytes] = '\n';
  write_all(line, bytes + 1);  // one write, so that lines of several threads do not mix
}

void format_and_emit(const char* start, const char* format, std::va_list arguments) noexcept {
  char line[line_bytes_max + 2];
  std::size_t used = 0;
  for (; start[used] != '\0'; ++used) line[used] = start[used];
  const std::size_t room = line_bytes_max + 1 - used;
  const int wanted = vsnprintf(line + used, room, format, arguments);
  if (wanted < 0) return;
  const auto length = static_cast<std::size_t>(wanted);
  emit(line, used + (length < room ? length : room - 1));
}

}  // namespace

void format_line(char* out, std::size_t bytes, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  vsnprintf(out, bytes, format, arguments);
  va_end(arguments);
}

void warn(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  format_and_emit(prefix, format, arguments);
  va_end(arguments);
}

void log_line(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  format_and_emit("", format, arguments);
  va_end(arguments);
}

void set_log_hook(LogHook function, void* context) noexcept {
  hook.context.store(context, std::memory_order_relaxed);
  hook.function.store(function, std::memory_order_release);  // pairs with the acquire in emit()
}

}  // namespace kmem
