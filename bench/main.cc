// kmem-bench: four slab allocators head to head. Parses the command line, runs one workload, writes
// its report.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "bench/options.h"
#include "bench/report/report.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

constexpr int status_measured = 0, status_failed = 1, status_bad_request = 2;

struct Workload {
  const char* name;
  Report (*run)(const Settings&, Progress&);
};
constexpr Workload workloads[] = {{"list", run_list},           {"bulk", run_bulk},
                                  {"replay", run_replay},       {"geometry", run_geometry},
                                  {"remote", run_remote},       {"fastpath", run_fastpath},
                                  {"hackbench", run_hackbench}, {"socket", run_socket},
                                  {"node", run_node},           {"footprint", run_footprint}};

Report run(const Settings& settings) {
  Progress progress(settings.quiet);
  for (const Workload& workload : workloads)
    if (settings.command == workload.name) return workload.run(settings, progress);
  throw BadRequest(fmt::format("no subcommand '{}'", settings.command));
}

std::string formatted(const Report& report, Format format) {
  switch (format) {
    case Format::json:
      return as_json(report);
    case Format::csv:
      return as_csv(report);
    case Format::table:
      break;
  }
  return as_table(report);
}

// Checked before anything is measured: minutes of work must not end at a misspelt directory.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    file_ = path.empty() ? stdout : std::fopen(path.c_str(), "w");
    if (file_ == nullptr)
      throw BadRequest(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  ~OutputFile() {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const std::string& text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
    if (!written || std::fflush(file_) != 0)
      throw std::runtime_error(fmt::format(
          "cannot write {}: {}", path_.empty() ? "standard output" : path_, std::strerror(errno)));
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

int run_program(int argc, const char* const* argv) {
  try {
    const auto settings = parse_command_line(argc, argv);
    if (!settings) return status_measured;
    OutputFile output(settings->output);
    std::optional<OutputFile> html;
    if (!settings->html.empty()) html.emplace(settings->html);
    Report report = run(*settings);
    tell_noise(report);
    if (html) html->write(as_html(report));
    output.write(formatted(report, settings->format));
    return report.failed ? status_failed : status_measured;
  } catch (const BadRequest& error) {
    fmt::print(stderr, "kmem-bench: {}\n", error.what());
    return status_bad_request;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kmem-bench: {}\n", error.what());
    return status_failed;
  }
}

}  // namespace

}  // namespace kmem::bench

int main(int argc, char** argv) { return kmem::bench::run_program(argc, argv); }
