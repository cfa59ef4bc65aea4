// The text formats. Each reader says whether a line can only be its own, and what a line holds.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/trace/event.h"

namespace kmem::bench::trace {

// Facts about the recording that header lines and marks tell.
struct Recording {
  unsigned cpus = 0;                     // of the traced machine; 0: not said
  std::uint64_t lost_events = 0;         // as far as the marks say how many
  std::uint64_t overwritten_events = 0;  // fell out of the buffer before it was read
};

struct Format {
  const char* name;
  bool (*claims)(std::string_view line) noexcept;
  LineKind (*read)(std::string_view line, TraceEvent& event, Recording& recording) noexcept;
};

extern const Format ftrace_trace;       // the file "trace": with its header of # lines
extern const Format ftrace_trace_pipe;  // the file "trace_pipe": the same lines without it
extern const Format trace_cmd_report;
extern const Format perf_script;

}  // namespace kmem::bench::trace
