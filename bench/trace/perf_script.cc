// perf script: "comm pid [cpu] time: kmem:event: fields"; the lines of call chains are indented
// addresses, and lost records show as PERF_RECORD_LOST.
#include "bench/trace/fields.h"
#include "bench/trace/formats.h"

namespace kmem::bench::trace {

namespace {

constexpr std::string_view lost_record = "PERF_RECORD_LOST";

bool claims(std::string_view line) noexcept {
  Prefix prefix;
  return parse_prefix(line, prefix) && !prefix.system.empty();
}

// "\tffffffff8128f1e4 kmem_cache_alloc+0x1a4 ([kernel.kallsyms])"
bool is_call_chain(std::string_view line) noexcept {
  if (!line.starts_with(' ') && !line.starts_with('\t')) return false;
  const std::string_view text = trim(line);
  const std::size_t end = text.find(' ');
  return end != std::string_view::npos && end >= 4 &&
         text.substr(0, end).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

LineKind read(std::string_view line, TraceEvent& event, Recording& recording) noexcept {
  if (line.starts_with("#") || trim(line).empty()) return LineKind::comment;
  if (const std::size_t at = line.find(lost_record); at != std::string_view::npos) {
    recording.lost_events += first_number(line.substr(at + lost_record.size()));
    return LineKind::lost;
  }
  Prefix prefix;
  if (!parse_prefix(line, prefix))
    return is_call_chain(line) ? LineKind::comment : LineKind::malformed;
  if (prefix.system != "kmem") return LineKind::other_event;
  return parse_kmem_event(prefix, event);
}

}  // namespace

const Format perf_script{"perf script", claims, read};

}  // namespace kmem::bench::trace
