// The parts of a line that the text formats share: "[cpu] flags time: system:event:" and the
// key=value fields behind it.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/trace/event.h"

namespace kmem::bench::trace {

struct Prefix {
  std::string_view task;  // what stands before the CPU: "comm-pid" or "comm pid"
  unsigned cpu = 0;
  std::uint64_t time_ns = 0;
  std::string_view system;  // "kmem" in "kmem:kmalloc:", else empty
  std::string_view event;   // empty: a function or marker line
  std::string_view body;
};

// False: the line is not of this shape.
bool parse_prefix(std::string_view line, Prefix& prefix) noexcept;

// The kmem event that prefix announces; its fields into event.
LineKind parse_kmem_event(const Prefix& prefix, TraceEvent& event) noexcept;

// "GFP_KERNEL|__GFP_ZERO", also with hexadecimal rests of unnamed bits; unknown names count as 0.
gfp_t parse_gfp(std::string_view text) noexcept;

// The first unsigned number in text, or 0.
std::uint64_t first_number(std::string_view text) noexcept;

// "comm-123", also with a "(tgid)" behind it.
bool ends_with_dashed_pid(std::string_view task) noexcept;

std::string_view trim(std::string_view text) noexcept;

}  // namespace kmem::bench::trace
