// A trace file as one stream of events, whatever its format and compression; what is not an event
// is counted, never fatal.
#pragma once

#include <cstdint>
#include <string>

#include "bench/trace/event.h"
#include "bench/trace/formats.h"
#include "bench/trace/lines.h"

namespace kmem::bench::trace {

struct LineCounts {
  std::uint64_t lines = 0, events = 0, other_events = 0, comments = 0, lost_marks = 0;
  std::uint64_t malformed = 0;
  std::uint64_t unrecognised = 0;  // before any line that told the format
  bool cut_line = false;           // the file ends in the middle of a line, which is not used
};

class Reader {
 public:
  explicit Reader(const std::string& path) : lines_(path) {}

  // False at the end. Throws TraceError.
  bool next(TraceEvent& event);

  const LineCounts& counts() const noexcept { return counts_; }
  const Recording& recording() const noexcept { return recording_; }
  const char* format() const noexcept { return format_ != nullptr ? format_->name : "unknown"; }
  const char* compression() const noexcept { return lines_.compression(); }

 private:
  LineKind classify(std::string_view line, TraceEvent& event);

  LineSource lines_;
  const Format* format_ = nullptr;
  LineCounts counts_;
  Recording recording_;
};

}  // namespace kmem::bench::trace
