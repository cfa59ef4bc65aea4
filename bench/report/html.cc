// The tables as one web page: no scripts, nothing fetched from elsewhere.
#include <fmt/format.h>

#include "bench/report/report.h"

namespace kmem::bench {

namespace {

constexpr const char* style =
    "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:72em;padding:0 1em}"
    "table{border-collapse:collapse;margin:.5em 0 1.5em}"
    "th,td{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,td:first-child{text-align:left}"
    "p.note{color:#555}";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

std::string html_row(const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return row + "</tr>\n";
}

std::string html_table(const Table& table) {
  std::string text = fmt::format("<h2>{}</h2>\n<table>\n", escaped(table.title));
  text += html_row(table.columns, "th");
  for (const auto& row : table.rows) text += html_row(row, "td");
  text += "</table>\n";
  if (!table.note.empty()) text += fmt::format("<p class=note>{}</p>\n", escaped(table.note));
  return text;
}

std::string paragraphs(const std::vector<std::string>& lines, const char* attributes) {
  std::string text;
  for (const std::string& line : lines)
    text += fmt::format("<p{}>{}</p>\n", attributes, escaped(line));
  return text;
}

}  // namespace

std::string as_html(const Report& report) {
  std::string text = fmt::format(
      "<!doctype html>\n<meta charset=utf-8>\n<title>kmem-bench {0}</title>\n<style>{1}</style>\n"
      "<h1>kmem-bench {0}</h1>\n",
      escaped(report.workload), style);
  text += paragraphs(summary(report.provenance), " class=note");
  text += paragraphs(report.lines, "");
  for (const Table& table : report.tables) text += html_table(table);
  return text + paragraphs(report.closing, "");
}

}  // namespace kmem::bench
