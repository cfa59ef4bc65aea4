// Tables for people.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bench/report/report.h"

namespace kmem::bench {

namespace {

// Columns on a terminal, not bytes: names of caches are the kernel's and may be UTF-8.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::size_t have = width_of(text);
  const std::string space(width > have ? width - have : 0, ' ');
  return left ? text + space : space + text;
}

std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (const std::string& column : table.columns) widths.push_back(width_of(column));
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  return widths;
}

// A column is text, and left aligned, if it is the first or any cell begins with a letter.
std::vector<bool> left_aligned(const Table& table) {
  std::vector<bool> left(table.columns.size(), false);
  if (!left.empty()) left[0] = true;
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size() && i < left.size(); ++i)
      if (!row[i].empty() && std::isalpha(static_cast<unsigned char>(row[i][0])) != 0)
        left[i] = true;
  return left;
}

std::string one_line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                     const std::vector<bool>& left) {
  std::string line;
  for (std::size_t i = 0; i < cells.size() && i < widths.size(); ++i) {
    if (i > 0) line += "  ";
    line += padded(cells[i], widths[i], left[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string one_table(const Table& table) {
  const std::vector<std::size_t> widths = column_widths(table);
  const std::vector<bool> left = left_aligned(table);
  std::size_t total = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  std::string text = table.title.empty() ? "" : table.title + "\n";
  text += one_line(table.columns, widths, left) + std::string(total, '-') + "\n";
  for (const auto& row : table.rows) text += one_line(row, widths, left);
  if (!table.note.empty()) text += table.note + "\n";
  return text;
}

}  // namespace

std::string to_string(const ParamValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<std::string>(value);
}

std::string as_table(const Report& report) {
  std::string text;
  for (const std::string& line : summary(report.provenance)) text += line + "\n";
  for (const std::string& line : report.lines) text += line + "\n";
  for (const Table& table : report.tables) text += "\n" + one_table(table);
  if (!report.closing.empty()) text += "\n";
  for (const std::string& line : report.closing) text += line + "\n";
  return text;
}

}  // namespace kmem::bench
