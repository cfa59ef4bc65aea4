#include "bench/provenance.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "bench/commit.h"
#include "common/nodes/topology.h"

namespace kmem::bench {

namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string kernel() {
  utsname name{};
  if (::uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("gcc {}", __VERSION__);
#endif
}

const char* assertions() {
#ifdef NDEBUG
  return "off";
#else
  return "on";
#endif
}

std::string sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return "address";
#elif defined(__SANITIZE_THREAD__)
  return "thread";
#else
  return "none";
#endif
}

const std::string& fact(const Provenance& provenance, const std::string& name) {
  static const std::string missing = "unknown";
  for (const auto& [key, value] : provenance.facts)
    if (key == name) return value;
  return missing;
}

}  // namespace

Provenance gather_provenance() {
  Provenance provenance;
  provenance.facts = {
      {"cpu", cpu_model()},
      {"cpus", fmt::format("{}", nodes::present_cpus())},
      {"nodes", fmt::format("{}{}", nodes::count(), nodes::faked() ? " (faked)" : "")},
      {"kernel", kernel()},
      {"libc", fmt::format("glibc {}", gnu_get_libc_version())},
      {"rseq", percpu::rseq_available() ? "available" : "not available"},
      {"compiler", compiler()},
      {"flags", KMEM_BUILD_FLAGS},
      {"assertions", assertions()},
      {"sanitizer", sanitizer()},
      {"version", KMEM_VERSION},
      {"commit", KMEM_COMMIT},
  };
  return provenance;
}

void add_policy(Provenance& provenance, const percpu::Running& running) {
  const auto same = [&](const PolicyFact& fact) {
    return fact.asked == running.asked && fact.running == running.running;
  };
  if (std::any_of(provenance.policies.begin(), provenance.policies.end(), same)) return;
  provenance.policies.push_back({running.asked, running.running, running.reason});
}

std::vector<std::string> summary(const Provenance& provenance) {
  const auto get = [&](const char* name) -> const std::string& { return fact(provenance, name); };
  std::vector<std::string> lines = {
      fmt::format("kmem-bench {} ({}), {}, {}", get("version"), get("commit"), get("compiler"),
                  get("flags")),
      fmt::format("{}, {} CPUs, {} nodes, {}, {}", get("cpu"), get("cpus"), get("nodes"),
                  get("kernel"), get("libc"))};
  if (get("assertions") != "off" || get("sanitizer") != "none")
    lines.push_back(fmt::format("figures are not to be compared: assertions {}, sanitizer {}",
                                get("assertions"), get("sanitizer")));
  for (const PolicyFact& policy : provenance.policies)
    lines.push_back(
        fmt::format("policy {}: {} runs ({})", policy.asked, policy.running, policy.reason));
  return lines;
}

}  // namespace kmem::bench
