#include "bench/trace/reader.h"

namespace kmem::bench::trace {

namespace {

// In this order: a header decides before the lines behind it can.
const Format* const formats[] = {&ftrace_trace, &trace_cmd_report, &perf_script,
                                 &ftrace_trace_pipe};

const Format* detect(std::string_view line) noexcept {
  for (const Format* format : formats)
    if (format->claims(line)) return format;
  return nullptr;
}

}  // namespace

LineKind Reader::classify(std::string_view line, TraceEvent& event) {
  if (format_ == nullptr) format_ = detect(line);
  if (format_ != nullptr) return format_->read(line, event, recording_);
  if (line.empty() || line.starts_with('#')) return LineKind::comment;
  ++counts_.unrecognised;
  return LineKind::malformed;
}

bool Reader::next(TraceEvent& event) {
  std::string_view line;
  bool complete = true;
  while (lines_.next(line, complete)) {
    ++counts_.lines;
    if (!complete) {
      // Even if it reads as an event: its last field may have lost digits or letters.
      counts_.cut_line = true;
      return false;
    }
    switch (classify(line, event)) {
      case LineKind::event:
        ++counts_.events;
        return true;
      case LineKind::other_event:
        ++counts_.other_events;
        break;
      case LineKind::comment:
        ++counts_.comments;
        break;
      case LineKind::lost:
        ++counts_.lost_marks;
        break;
      case LineKind::malformed:
        ++counts_.malformed;
        break;
    }
  }
  return false;
}

}  // namespace kmem::bench::trace
