// Reports: JSON as the contract has it, CSV that any program reads, tables that line up.
#include "bench/report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kmem::bench {
namespace {

Report sample_report() {
  Report report;
  report.workload = "bulk";
  report.provenance.facts = {{"cpu", "a CPU"}, {"kernel", "a kernel"}};
  report.provenance.policies = {{"rseq", "locked", "no rseq"}};
  report.results.push_back({"slub",
                            "backend",
                            {{"bulk", std::int64_t{16}}, {"path", std::string("optimized")}},
                            "cycles_per_object",
                            {4.1, 4.0, 4.4, 0.96, 31}});
  report.ratios.push_back(
      {"slub", "slab", {{"bulk", std::int64_t{16}}}, {0.41, 0.39, 0.44, 0.96, 31}});
  report.tables.push_back({"a title", {"name", "n"}, {{"x", "1"}, {"longer", "1000"}}, "a note"});
  report.closing.push_back("the end");
  return report;
}

TEST(Report, TellsWhatIsTooNoisyForAVerdict) {
  Report report = sample_report();
  tell_noise(report);
  EXPECT_EQ(report.closing.size(), 1u);
  report.ratios.push_back(report.ratios[0]);
  report.ratios[1].value.scatter = 0.5;
  tell_noise(report);
  ASSERT_EQ(report.closing.size(), 2u);
  EXPECT_EQ(report.closing[1].rfind("too noisy: 1 of 2 comparisons", 0), 0u);
  EXPECT_EQ(nlohmann::json::parse(as_json(report))["ratios"][1]["verdict"], "too noisy");
}

TEST(ReportJson, IsTheContractsDocument) {
  const auto json = nlohmann::json::parse(as_json(sample_report()));

  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["workload"], "bulk");
  EXPECT_EQ(json["provenance"]["cpu"], "a CPU");
  EXPECT_EQ(json["provenance"]["policies"][0]["reason"], "no rseq");
  const auto& result = json["results"][0];
  EXPECT_EQ(result["subject"], "slub");
  EXPECT_EQ(result["kind"], "backend");
  EXPECT_EQ(result["params"]["bulk"], 16);
  EXPECT_EQ(result["params"]["path"], "optimized");
  EXPECT_EQ(result["metric"], "cycles_per_object");
  EXPECT_EQ(result["median"], 4.1);
  EXPECT_EQ(result["low"], 4.0);
  EXPECT_EQ(result["high"], 4.4);
  EXPECT_EQ(result["rounds"], 31);
  const auto& ratio = json["ratios"][0];
  EXPECT_EQ(ratio["of"], "slub");
  EXPECT_EQ(ratio["to"], "slab");
  EXPECT_EQ(ratio["median"], 0.41);
  EXPECT_EQ(ratio["verdict"], "faster");
  EXPECT_FALSE(json.contains("figures"));
}

TEST(ReportJson, FiguresStandBesideTheirTargets) {
  Report report = sample_report();
  report.figures.push_back(
      {"slub to slab", {{"size", std::int64_t{256}}}, {0.41, 0.39, 0.44, 0.96, 31}, 0.45});
  const auto json = nlohmann::json::parse(as_json(report));
  const auto& figure = json["figures"][0];
  EXPECT_EQ(figure["figure"], "slub to slab");
  EXPECT_EQ(figure["params"]["size"], 256);
  EXPECT_EQ(figure["median"], 0.41);
  EXPECT_EQ(figure["target"], 0.45);
  EXPECT_EQ(figure["verdict"], "reached");
}

TEST(ReportJson, BytesThatAreNoUtf8DoNotStopIt) {
  Report report = sample_report();
  report.closing.push_back("cache \xff\xfe");
  EXPECT_FALSE(nlohmann::json::parse(as_json(report)).empty());
}

TEST(ReportCsv, QuotesWhatNeedsQuotes) {
  Report report = sample_report();
  report.results[0].params[1].second = std::string("a,\"b\"");
  EXPECT_EQ(as_csv(report),
            "row,subject,to,kind,bulk,path,metric,median,low,high,rounds\n"
            "result,slub,,backend,16,\"a,\"\"b\"\"\",cycles_per_object,4.1,4,4.4,31\n"
            "ratio,slub,slab,,16,,ratio,0.41,0.39,0.44,31\n");
}

TEST(ReportTable, ColumnsLineUp) {
  const std::string text = as_table(sample_report());
  EXPECT_NE(text.find("a title\n"
                      "name       n\n"
                      "------------\n"
                      "x          1\n"
                      "longer  1000\n"
                      "a note\n"),
            std::string::npos)
      << text;
}

TEST(ReportHtml, EscapesWhatCameFromFiles) {
  Report report = sample_report();
  report.tables[0].rows[0][0] = "<script>";
  const std::string text = as_html(report);
  EXPECT_EQ(text.find("<script>"), std::string::npos);
  EXPECT_NE(text.find("&lt;script&gt;"), std::string::npos);
}

}  // namespace
}  // namespace kmem::bench
