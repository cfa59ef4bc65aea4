#include "bench/trace/fields.h"

#include <charconv>

namespace kmem::bench::trace {

namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

std::string_view next_token(std::string_view& rest) noexcept {
  const std::size_t start = rest.find_first_not_of(" \t");
  if (start == std::string_view::npos) return rest = {};
  const std::size_t end = rest.find_first_of(" \t", start);
  const std::string_view token = rest.substr(start, end - start);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end);
  return token;
}

template <class T>
bool parse_number(std::string_view text, T& value, int base = 10) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

// "681.152645:" (any number of decimals up to nanoseconds) or "681:".
bool parse_time(std::string_view token, std::uint64_t& time_ns) noexcept {
  if (token.size() < 2 || token.back() != ':') return false;
  token.remove_suffix(1);
  const std::size_t dot = token.find('.');
  std::uint64_t seconds = 0;
  if (!parse_number(token.substr(0, dot), seconds)) return false;
  std::uint64_t fraction = 0;
  if (dot != std::string_view::npos) {
    const std::string_view digits = token.substr(dot + 1);
    if (digits.size() > 9 || !parse_number(digits, fraction)) return false;
    for (std::size_t n = digits.size(); n < 9; ++n) fraction *= 10;
  }
  time_ns = seconds * 1'000'000'000 + fraction;
  return true;
}

bool parse_after_cpu(std::string_view rest, Prefix& prefix) noexcept {
  // One column of flags may stand before the time ("d..1."), the time may not be missing.
  std::string_view token = next_token(rest);
  if (!parse_time(token, prefix.time_ns) && !parse_time(next_token(rest), prefix.time_ns))
    return false;
  prefix.system = prefix.event = {};
  prefix.body = rest;
  std::string_view body = rest;
  std::string_view name = next_token(body);
  if (name.size() < 2 || name.back() != ':') return true;  // "func <-caller"
  name.remove_suffix(1);
  if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) {
    prefix.system = name.substr(0, colon);
    name.remove_prefix(colon + 1);
  }
  prefix.event = name;
  prefix.body = body;
  return true;
}

// Real or hashed, with or without 0x; "(null)" and "(nil)" are 0.
bool parse_pointer(std::string_view text, std::uint64_t& pointer) noexcept {
  if (text == "(null)" || text == "(nil)") {
    pointer = 0;
    return true;
  }
  if (text.starts_with("0x")) text.remove_prefix(2);
  return parse_number(text, pointer, 16);
}

struct Seen {
  bool pointer = false, bytes_req = false, bytes_alloc = false;
};

// False: the field is there and is nonsense.
bool take_field(std::string_view key, std::string_view value, TraceEvent& event,
                Seen& seen) noexcept {
  if (key == "ptr") return seen.pointer = parse_pointer(value, event.pointer);
  if (key == "bytes_req") return seen.bytes_req = parse_number(value, event.bytes_req);
  if (key == "bytes_alloc") return seen.bytes_alloc = parse_number(value, event.bytes_alloc);
  if (key == "node") return parse_number(value, event.node);
  if (key == "gfp_flags") event.gfp = parse_gfp(value);
  return true;  // call_site, accounted and whatever later kernels add
}

// A cache's name may hold spaces: it goes on until the next field, or to the end of the line.
std::string_view take_name(std::string_view token, std::string_view& rest) noexcept {
  const char* start = token.data() + 5;  // behind "name="
  const std::size_t end = rest.find(" bytes_req=");
  const char* stop = end == std::string_view::npos ? rest.data() + rest.size() : rest.data() + end;
  if (rest.empty()) return token.substr(5);
  rest = rest.substr(static_cast<std::size_t>(stop - rest.data()));
  return trim({start, static_cast<std::size_t>(stop - start)});
}

struct GfpName {
  std::string_view name;
  gfp_t bits;
};

// clang-format off
constexpr GfpName gfp_names[] = {
  {"GFP_KERNEL", gfp::kernel}, {"__GFP_ZERO", gfp::zero}, {"GFP_ATOMIC", gfp::atomic},
  {"GFP_NOWAIT", gfp::nowait}, {"GFP_KERNEL_ACCOUNT", gfp::kernel | gfp::account},
  {"__GFP_ACCOUNT", gfp::account}, {"GFP_NOFS", gfp::reclaim | gfp::io}, {"GFP_NOIO", gfp::reclaim},
  {"GFP_USER", gfp::kernel | gfp::hardwall}, {"GFP_DMA", gfp::dma}, {"__GFP_DMA", gfp::dma},
  {"GFP_DMA32", gfp::dma32}, {"__GFP_DMA32", gfp::dma32}, {"__GFP_RECLAIMABLE", gfp::reclaimable},
  {"__GFP_HIGHMEM", gfp::highmem}, {"__GFP_MOVABLE", gfp::movable}, {"__GFP_HIGH", gfp::high},
  {"__GFP_IO", gfp::io}, {"__GFP_FS", gfp::fs}, {"__GFP_NOWARN", gfp::nowarn},
  {"__GFP_RETRY_MAYFAIL", gfp::retry_mayfail}, {"__GFP_NOFAIL", gfp::nofail},
  {"__GFP_NORETRY", gfp::noretry}, {"__GFP_MEMALLOC", gfp::memalloc}, {"__GFP_COMP", gfp::comp},
  {"__GFP_NOMEMALLOC", gfp::nomemalloc}, {"__GFP_HARDWALL", gfp::hardwall},
  {"__GFP_THISNODE", gfp::thisnode}, {"__GFP_DIRECT_RECLAIM", gfp::direct_reclaim},
  {"__GFP_KSWAPD_RECLAIM", gfp::kswapd_reclaim}, {"__GFP_RECLAIM", gfp::reclaim},
  {"__GFP_WRITE", gfp::write},
};
// clang-format on

gfp_t gfp_named(std::string_view name) noexcept {
  for (const GfpName& entry : gfp_names)
    if (entry.name == name) return entry.bits;
  return 0;
}

struct EventName {
  std::string_view name;
  EventKind kind;
};

// The _node forms are those of kernels before 6.1.
constexpr EventName event_names[] = {{"kmem_cache_alloc", EventKind::cache_alloc},
                                     {"kmem_cache_free", EventKind::cache_free},
                                     {"kmalloc", EventKind::kmalloc},
                                     {"kfree", EventKind::kfree},
                                     {"kmem_cache_alloc_node", EventKind::cache_alloc},
                                     {"kmalloc_node", EventKind::kmalloc}};

bool find_kind(std::string_view name, EventKind& kind) noexcept {
  for (const EventName& entry : event_names) {
    if (entry.name != name) continue;
    kind = entry.kind;
    return true;
  }
  return false;
}

}  // namespace

std::string_view trim(std::string_view text) noexcept {
  const std::size_t start = text.find_first_not_of(" \t\r");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t\r") - start + 1);
}

std::uint64_t first_number(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size() && !is_digit(text[at])) ++at;
  std::uint64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

bool ends_with_dashed_pid(std::string_view task) noexcept {
  task = trim(task);
  if (task.ends_with(')')) task = trim(task.substr(0, task.rfind('(')));
  const std::size_t dash = task.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == task.size()) return false;
  return task.find_first_not_of("0123456789", dash + 1) == std::string_view::npos;
}

bool parse_prefix(std::string_view line, Prefix& prefix) noexcept {
  // A task may have brackets in its name: the CPU is the first pair that makes sense of the rest.
  for (std::size_t open = line.find('['); open != std::string_view::npos;
       open = line.find('[', open + 1)) {
    const std::size_t close = line.find(']', open);
    if (close == std::string_view::npos) return false;
    if (!parse_number(line.substr(open + 1, close - open - 1), prefix.cpu)) continue;
    prefix.task = line.substr(0, open);
    if (parse_after_cpu(line.substr(close + 1), prefix)) return true;
  }
  return false;
}

gfp_t parse_gfp(std::string_view text) noexcept {
  gfp_t bits = 0;
  while (!text.empty()) {
    const std::size_t bar = text.find('|');
    bits |= gfp_named(text.substr(0, bar));
    text = bar == std::string_view::npos ? std::string_view{} : text.substr(bar + 1);
  }
  return bits;
}

LineKind parse_kmem_event(const Prefix& prefix, TraceEvent& event) noexcept {
  event = TraceEvent{};
  if (!find_kind(prefix.event, event.kind)) return LineKind::other_event;
  event.cpu = prefix.cpu;
  event.time_ns = prefix.time_ns;
  Seen seen;
  std::string_view rest = prefix.body;
  for (std::string_view token = next_token(rest); !token.empty(); token = next_token(rest)) {
    const std::size_t equals = token.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = token.substr(0, equals);
    if (key == "name") {
      event.name = take_name(token, rest);
      continue;
    }
    std::string_view value = token.substr(equals + 1);
    if (value.empty()) value = next_token(rest);  // "ptr=          (null)" of old kernels
    if (!take_field(key, value, event, seen)) return LineKind::malformed;
  }
  const bool allocates = event.kind == EventKind::kmalloc || event.kind == EventKind::cache_alloc;
  if (!seen.pointer) return LineKind::malformed;
  if (allocates && !(seen.bytes_req && seen.bytes_alloc)) return LineKind::malformed;
  return LineKind::event;
}

}  // namespace kmem::bench::trace
