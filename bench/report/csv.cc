// One CSV table a run (RFC 4180): a row a result and a ratio; a column for each parameter that any
// of them has.
#include <fmt/format.h>

#include <algorithm>

#include "bench/report/report.h"

namespace kmem::bench {

namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

void collect_names(const Params& params, std::vector<std::string>& names) {
  for (const auto& [name, value] : params)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::string param_cells(const Params& params, const std::vector<std::string>& names) {
  std::string cells;
  for (const std::string& name : names) {
    const auto found = std::find_if(params.begin(), params.end(),
                                    [&](const auto& param) { return param.first == name; });
    cells += found == params.end() ? "," : "," + quoted(to_string(found->second));
  }
  return cells;
}

std::string estimate_cells(const Estimate& value) {
  return fmt::format(",{},{},{},{}\n", value.median, value.low, value.high, value.rounds);
}

}  // namespace

std::string as_csv(const Report& report) {
  std::vector<std::string> names;
  for (const Result& result : report.results) collect_names(result.params, names);
  for (const Ratio& ratio : report.ratios) collect_names(ratio.params, names);
  std::string text = "row,subject,to,kind";
  for (const std::string& name : names) text += "," + quoted(name);
  text += ",metric,median,low,high,rounds\n";
  for (const Result& result : report.results)
    text += "result," + quoted(result.subject) + ",," + result.kind +
            param_cells(result.params, names) + "," + quoted(result.metric) +
            estimate_cells(result.value);
  for (const Ratio& ratio : report.ratios)
    text += "ratio," + quoted(ratio.of) + "," + quoted(ratio.to) + "," +
            param_cells(ratio.params, names) + ",ratio" + estimate_cells(ratio.value);
  return text;
}

}  // namespace kmem::bench
