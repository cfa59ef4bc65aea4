#include "bench/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>

#include "bench/options.h"
#include "common/base/bits.h"
#include "common/pages/page.h"

namespace kmem::bench {

namespace {

void keep_state(void*) {}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.emplace_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

class Columns {
 public:
  Columns(const std::string& path, std::vector<std::string> names)
      : path_(path), names_(std::move(names)) {}

  std::size_t count() const { return names_.size(); }
  bool has(const char* name) const { return index(name) < names_.size(); }
  const std::string& text(const std::vector<std::string>& cells, const char* name) const {
    return cells[index(name)];
  }
  std::uint64_t number(const std::vector<std::string>& cells, const char* name,
                       std::size_t line) const {
    const std::string& cell = cells[index(name)];
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size())
      throw BadRequest(
          fmt::format("{}:{}: '{}' in column {} is not a number", path_, line, cell, name));
    return value;
  }
  bool flag(const std::vector<std::string>& cells, const char* name, std::size_t line) const {
    return has(name) && number(cells, name, line) != 0;
  }

 private:
  std::size_t index(const char* name) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  const std::string& path_;
  std::vector<std::string> names_;
};

constexpr const char* required[] = {"cache", "object_size",   "slab_size",   "align",
                                    "order", "objs_per_slab", "min_partial", "cpu_partial"};

void check_range(const KernelRow& row, const std::string& path) {
  const auto refuse = [&](const char* column, std::uint64_t value) {
    throw BadRequest(fmt::format("{}:{}: {} cannot be {}", path, row.line, column, value));
  };
  if (row.object_size == 0 || row.object_size > pages::max_block_bytes)
    refuse("object_size", row.object_size);
  if (!std::has_single_bit(row.align) || row.align > pages::max_block_bytes)
    refuse("align", row.align);
  if (row.slab_size < row.object_size) refuse("slab_size", row.slab_size);
}

KernelRow parse_row(const Columns& columns, const std::string& text, std::size_t line,
                    const std::string& path) {
  const std::vector<std::string> cells = split(text);
  if (cells.size() != columns.count())
    throw BadRequest(fmt::format("{}:{}: {} columns where the header has {}", path, line,
                                 cells.size(), columns.count()));
  KernelRow row;
  row.line = line;
  row.cache = columns.text(cells, "cache");
  row.object_size = columns.number(cells, "object_size", line);
  row.slab_size = columns.number(cells, "slab_size", line);
  row.align = columns.number(cells, "align", line);
  row.order = columns.number(cells, "order", line);
  row.objects = columns.number(cells, "objs_per_slab", line);
  row.min_partial = columns.number(cells, "min_partial", line);
  row.cpu_partial = columns.number(cells, "cpu_partial", line);
  row.hwcache_align = columns.flag(cells, "hwcache_align", line);
  row.reclaim_account = columns.flag(cells, "reclaim_account", line);
  row.typesafe_by_rcu = columns.flag(cells, "destroy_by_rcu", line);
  row.ctor = columns.flag(cells, "ctor", line);
  check_range(row, path);
  return row;
}

bool next_line(std::ifstream& file, std::string& text) {
  if (!std::getline(file, text)) return false;
  if (text.ends_with('\r')) text.pop_back();
  return true;
}

}  // namespace

std::vector<KernelRow> read_kernel_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw BadRequest(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::string text;
  if (!next_line(file, text)) throw BadRequest(fmt::format("{} is empty or cannot be read", path));
  const Columns columns(path, split(text));
  for (const char* name : required)
    if (!columns.has(name))
      throw BadRequest(
          fmt::format("{}:1: no column '{}': the first line must name the columns", path, name));
  std::vector<KernelRow> rows;
  for (std::size_t line = 2; next_line(file, text); ++line)
    if (!text.empty()) rows.push_back(parse_row(columns, text, line, path));
  if (rows.empty()) throw BadRequest(fmt::format("{} has no rows below its header", path));
  return rows;
}

CacheSpec spec_of(const KernelRow& row) noexcept {
  CacheSpec spec;
  spec.name = row.cache.c_str();
  spec.object_bytes = row.object_size;
  spec.align = row.align;
  if (row.hwcache_align) spec.flags |= slab_flag::hwcache_align;
  if (row.reclaim_account) spec.flags |= slab_flag::reclaim_account;
  if (row.typesafe_by_rcu) spec.flags |= slab_flag::typesafe_by_rcu;
  if (row.ctor) spec.ctor = keep_state;
  const std::size_t outside = align_up(row.object_size, sizeof(void*)) + sizeof(void*);
  if (row.typesafe_by_rcu && row.slab_size < outside) spec.has_freeptr_offset = true;
  return spec;
}

unsigned cpus_in_name(const std::string& path) noexcept {
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t at = name.rfind("cpu");
  if (at == std::string::npos) return 0;
  std::size_t start = at;
  while (start > 0 && std::isdigit(static_cast<unsigned char>(name[start - 1])) != 0) --start;
  unsigned cpus = 0;
  std::from_chars(name.data() + start, name.data() + at, cpus);
  return cpus <= 4096 ? cpus : 0;
}

}  // namespace kmem::bench
