#include "bench/option_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "bench/options.h"
#include "common/pages/page.h"

namespace kmem::bench {

namespace {

struct FlagName {
  const char* name;
  slab_flags_t bit;
};
constexpr FlagName flag_names[] = {{"HWCACHE_ALIGN", slab_flag::hwcache_align},
                                   {"TYPESAFE_BY_RCU", slab_flag::typesafe_by_rcu},
                                   {"RECLAIM_ACCOUNT", slab_flag::reclaim_account},
                                   {"ACCOUNT", slab_flag::account},
                                   {"CACHE_DMA", slab_flag::cache_dma},
                                   {"CACHE_DMA32", slab_flag::cache_dma32},
                                   {"NO_MERGE", slab_flag::no_merge},
                                   {"PANIC", slab_flag::panic}};

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view text, std::span<const std::string> choices) {
  std::string best;
  std::size_t best_distance = 3;  // beyond two slips it is another word
  for (const std::string& choice : choices) {
    const std::size_t distance = edit_distance(text, choice);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = choice;
  }
  return best;
}

std::uint64_t parse_unsigned(const std::string& option, std::string_view text, std::uint64_t min,
                             std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error != std::errc::invalid_argument && end == text.data() + text.size();
  if (!is_number || error != std::errc{} || value < min || value > max)
    throw BadRequest(
        fmt::format("{}: '{}' is not a whole number from {} to {}", option, text, min, max));
  return value;
}

std::vector<std::size_t> parse_unsigned_list(const std::string& option, std::string_view text,
                                             std::uint64_t min, std::uint64_t max) {
  std::vector<std::size_t> values;
  for (const std::string_view part : split(text, ","))
    values.push_back(parse_unsigned(option, part, min, max));
  return values;
}

double parse_seconds(const std::string& option, std::string_view text) {
  constexpr double seconds_max = 86400;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0) ||
      value > seconds_max)
    throw BadRequest(fmt::format("{}: '{}' is not a number of seconds above 0 and up to {}", option,
                                 text, seconds_max));
  return value;
}

std::string parse_choice(const std::string& option, std::string_view text,
                         std::span<const char* const> choices) {
  for (const char* choice : choices)
    if (text == choice) return choice;
  throw BadRequest(fmt::format("{}: '{}' is none of {}", option, text, fmt::join(choices, ", ")));
}

std::vector<std::string> parse_choices(const std::string& option, std::string_view text,
                                       std::span<const char* const> choices) {
  std::vector<std::string> names;
  if (text == "all") {
    names.assign(choices.begin(), choices.end());
    return names;
  }
  for (const std::string_view part : split(text, ",")) {
    const bool known = std::any_of(choices.begin(), choices.end(),
                                   [&](const char* choice) { return part == choice; });
    if (!known)
      throw BadRequest(
          fmt::format("{}: '{}' is none of all, {}", option, part, fmt::join(choices, ", ")));
    if (std::find(names.begin(), names.end(), part) != names.end())
      throw BadRequest(fmt::format("{}: '{}' is named twice; name each once", option, part));
    names.emplace_back(part);
  }
  return names;
}

std::size_t parse_align(const std::string& option, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::has_single_bit(value) ||
      value > pages::page_bytes)
    throw BadRequest(fmt::format("{}: '{}' is not a power of two from 1 to {}", option, text,
                                 pages::page_bytes));
  return value;
}

slab_flags_t parse_flags(const std::string& option, std::string_view text) {
  slab_flags_t flags = 0;
  for (const std::string_view part : split(text, ",|")) {
    std::string name = upper(part);
    if (name.starts_with("SLAB_")) name.erase(0, 5);
    const auto found = std::find_if(std::begin(flag_names), std::end(flag_names),
                                    [&](const FlagName& flag) { return name == flag.name; });
    if (found == std::end(flag_names)) {
      std::vector<std::string> names;
      for (const FlagName& flag : flag_names) names.emplace_back(flag.name);
      throw BadRequest(fmt::format("{}: '{}' is none of {}", option, part, fmt::join(names, ", ")));
    }
    flags |= found->bit;
  }
  return flags;
}

std::vector<std::string> parse_names(const std::string& option, std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view part : split(text, ",")) {
    if (part.empty()) throw BadRequest(fmt::format("{}: '{}' has an empty name", option, text));
    if (std::find(names.begin(), names.end(), part) != names.end())
      throw BadRequest(fmt::format("{}: '{}' is named twice; name each once", option, part));
    names.emplace_back(part);
  }
  return names;
}

}  // namespace kmem::bench
