// tracefs: "comm-pid [cpu] flags time: event: fields". The files trace and trace_pipe differ in the
// header, which only the former has.
#include "bench/trace/fields.h"
#include "bench/trace/formats.h"

namespace kmem::bench::trace {

namespace {

bool claims_header(std::string_view line) noexcept { return line.starts_with("# tracer:"); }

bool is_lost_mark(std::string_view line) noexcept {
  return line.starts_with("CPU:") && line.find("[LOST ") != std::string_view::npos;
}

bool claims_event(std::string_view line) noexcept {
  Prefix prefix;
  if (is_lost_mark(line)) return true;
  return parse_prefix(line, prefix) && prefix.system.empty() && ends_with_dashed_pid(prefix.task);
}

// "# entries-in-buffer/entries-written: 155765/155765   #P:2"
void read_header(std::string_view line, Recording& recording) noexcept {
  const std::size_t at = line.find("entries-written: ");
  if (at == std::string_view::npos) return;
  const std::string_view figures = line.substr(at);
  const std::uint64_t in_buffer = first_number(figures);
  const std::size_t slash = figures.find('/');
  if (slash == std::string_view::npos) return;
  const std::uint64_t written = first_number(figures.substr(slash));
  recording.overwritten_events = written > in_buffer ? written - in_buffer : 0;
  if (const std::size_t cpus = line.find("#P:"); cpus != std::string_view::npos)
    recording.cpus = static_cast<unsigned>(first_number(line.substr(cpus)));
}

LineKind read(std::string_view line, TraceEvent& event, Recording& recording) noexcept {
  if (line.starts_with("#")) {
    read_header(line, recording);
    return LineKind::comment;
  }
  if (is_lost_mark(line)) {
    recording.lost_events += first_number(line.substr(line.find("[LOST ")));
    return LineKind::lost;
  }
  if (trim(line).empty()) return LineKind::comment;
  Prefix prefix;
  if (!parse_prefix(line, prefix) || !ends_with_dashed_pid(prefix.task)) return LineKind::malformed;
  return parse_kmem_event(prefix, event);
}

}  // namespace

const Format ftrace_trace{"ftrace trace", claims_header, read};
const Format ftrace_trace_pipe{"ftrace trace_pipe", claims_event, read};

}  // namespace kmem::bench::trace
