// trace-cmd report: ftrace's columns behind "cpus=N" or "version = N"; its kmem plugin puts the
// call site's symbol in parentheses before the fields, and drops are told as "[n EVENTS DROPPED]".
#include "bench/trace/fields.h"
#include "bench/trace/formats.h"

namespace kmem::bench::trace {

namespace {

bool is_dropped_mark(std::string_view line) noexcept {
  return line.find("EVENTS DROPPED]") != std::string_view::npos && line.starts_with("CPU:");
}

bool claims(std::string_view line) noexcept {
  return line.starts_with("cpus=") || line.starts_with("version = ") || is_dropped_mark(line);
}

bool is_header(std::string_view line) noexcept {
  return line.starts_with("cpus=") || line.starts_with("version = ") || line.starts_with("CPU ") ||
         line.starts_with("#") || line.starts_with("trace.dat:");
}

LineKind read(std::string_view line, TraceEvent& event, Recording& recording) noexcept {
  if (is_dropped_mark(line)) {
    const std::size_t bracket = line.find('[');  // "[EVENTS DROPPED]" does not say how many
    recording.lost_events += first_number(line.substr(bracket));
    return LineKind::lost;
  }
  if (is_header(line) || trim(line).empty()) {
    if (line.starts_with("cpus=")) recording.cpus = static_cast<unsigned>(first_number(line));
    return LineKind::comment;
  }
  Prefix prefix;
  if (!parse_prefix(line, prefix) || !ends_with_dashed_pid(prefix.task)) return LineKind::malformed;
  return parse_kmem_event(prefix, event);
}

}  // namespace

const Format trace_cmd_report{"trace-cmd report", claims, read};

}  // namespace kmem::bench::trace
