// One event of a kernel memory trace, as every text format says it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "common/base/flags.h"

namespace kmem::bench::trace {

enum class EventKind : std::uint8_t { kmalloc, kfree, cache_alloc, cache_free };

// Text fields point into the line that was read: valid until the next one is.
struct TraceEvent {
  EventKind kind = EventKind::kfree;
  unsigned cpu = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t pointer = 0;  // hashed or real; 0: NULL
  std::uint64_t bytes_req = 0;
  std::uint64_t bytes_alloc = 0;
  gfp_t gfp = 0;
  int node = no_node;
  std::string_view name;  // of the cache; empty where the kernel did not print it (before 6.1)
};

// What a line was. Only the first kind carries an event.
enum class LineKind : std::uint8_t {
  event,
  other_event,  // of another tracepoint, or a function or marker line
  comment,      // headers, empty lines, "CPU 0 is empty"
  lost,         // a mark that the kernel or the tool dropped events
  malformed     // neither: garbage, or an event without the fields that it must have
};

// A file that cannot be read as a trace; what() is the line to print.
class TraceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace kmem::bench::trace
