// One JSON document a run, the same for all subcommands.
#include <nlohmann/json.hpp>

#include "bench/report/report.h"

namespace kmem::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr int schema_version = 1;

Json params_json(const Params& params) {
  Json json = Json::object();
  for (const auto& [name, value] : params)
    std::visit([&, &key = name](const auto& held) { json[key] = held; }, value);
  return json;
}

void add_estimate(Json& json, const Estimate& value) {
  json["median"] = value.median;
  json["low"] = value.low;
  json["high"] = value.high;
  json["rounds"] = value.rounds;
  json["coverage"] = value.coverage;
  json["scatter"] = value.scatter;
  json["drift"] = value.drift;
}

Json result_json(const Result& result) {
  Json json{{"subject", result.subject}, {"kind", result.kind}};
  json["params"] = params_json(result.params);
  json["metric"] = result.metric;
  add_estimate(json, result.value);
  return json;
}

Json ratio_json(const Ratio& ratio) {
  Json json{{"of", ratio.of}, {"to", ratio.to}};
  json["params"] = params_json(ratio.params);
  add_estimate(json, ratio.value);
  json["verdict"] = text(verdict(ratio.value));
  return json;
}

Json figure_json(const Figure& figure) {
  Json json{{"figure", figure.name}};
  json["params"] = params_json(figure.params);
  add_estimate(json, figure.value);
  json["target"] = figure.target;
  json["verdict"] = text(reached(figure.value, figure.target));
  return json;
}

Json series_json(const Series& series) {
  Json json{{"subject", series.subject}, {"kind", series.kind}};
  json["params"] = params_json(series.params);
  json["columns"] = series.columns;
  json["rows"] = Json::array();
  for (const std::vector<ParamValue>& row : series.rows) {
    Json cells = Json::array();
    for (const ParamValue& cell : row)
      std::visit([&](const auto& held) { cells.push_back(held); }, cell);
    json["rows"].push_back(std::move(cells));
  }
  return json;
}

Json provenance_json(const Provenance& provenance) {
  Json json = Json::object();
  for (const auto& [name, value] : provenance.facts) json[name] = value;
  json["policies"] = Json::array();
  for (const PolicyFact& fact : provenance.policies)
    json["policies"].push_back(
        {{"asked", fact.asked}, {"running", fact.running}, {"reason", fact.reason}});
  return json;
}

}  // namespace

std::string as_json(const Report& report) {
  Json json{{"schema", schema_version}, {"workload", report.workload}};
  json["provenance"] = provenance_json(report.provenance);
  json["results"] = Json::array();
  for (const Result& result : report.results) json["results"].push_back(result_json(result));
  json["ratios"] = Json::array();
  for (const Ratio& ratio : report.ratios) json["ratios"].push_back(ratio_json(ratio));
  // Only where there are any: most subcommands have no figures to reach.
  for (const Figure& figure : report.figures) json["figures"].push_back(figure_json(figure));
  json["series"] = Json::array();
  for (const Series& series : report.series) json["series"].push_back(series_json(series));
  json["notes"] = Json::array();
  for (const auto* lines : {&report.lines, &report.closing})
    for (const std::string& line : *lines) json["notes"].push_back(line);
  json["failed"] = report.failed;
  // Names of caches come from files: bytes that are not UTF-8 must not stop the report.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kmem::bench
