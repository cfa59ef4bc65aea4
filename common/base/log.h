// One line to standard error (or to a hook that a test set), formatted on the stack and written by
// write(2): usable with locks held and out of memory. At most 1,000 bytes; longer lines are cut.
#pragma once

#include <cstdarg>
#include <cstddef>

namespace kmem {

// Prefixes "kmem: " and ends the line. For refused requests (one line each) and notes at start.
[[gnu::format(printf, 1, 2)]] void warn(const char* format, ...) noexcept;

// Without a prefix: the lines of a report.
[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...) noexcept;

// vsnprintf without <cstdio>: at most bytes - 1 characters and a zero.
[[gnu::format(printf, 3, 4)]] void format_line(char* out, std::size_t bytes, const char* format,
                                               ...) noexcept;

// Every line goes to hook(context, line) instead of standard error; nullptr restores it. The hook
// is called with whatever locks the reporter holds: it must not call this library.
using LogHook = void (*)(void* context, const char* line);
void set_log_hook(LogHook hook, void* context) noexcept;

}  // namespace kmem
