// Values of options: text to number, list or flags, with a line that says what would be right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/flags.h"

namespace kmem::bench {

// All throw BadRequest, naming option.
std::uint64_t parse_unsigned(const std::string& option, std::string_view text, std::uint64_t min,
                             std::uint64_t max);
std::vector<std::size_t> parse_unsigned_list(const std::string& option, std::string_view text,
                                             std::uint64_t min, std::uint64_t max);
double parse_seconds(const std::string& option, std::string_view text);
std::string parse_choice(const std::string& option, std::string_view text,
                         std::span<const char* const> choices);
// "all" or names, each once.
std::vector<std::string> parse_choices(const std::string& option, std::string_view text,
                                       std::span<const char* const> choices);
std::size_t parse_align(const std::string& option, std::string_view text);
// SLAB_* names, with or without the prefix, any case, by comma or bar.
slab_flags_t parse_flags(const std::string& option, std::string_view text);

// The choice that text most likely meant; empty if none is near.
std::string nearest(std::string_view text, std::span<const std::string> choices);

// Names between commas: none empty, none twice.
std::vector<std::string> parse_names(const std::string& option, std::string_view text);

}  // namespace kmem::bench
