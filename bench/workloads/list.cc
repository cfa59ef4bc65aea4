// list: what this build and this machine have.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/rivals/rivals.h"
#include "bench/subjects.h"
#include "bench/workloads/workloads.h"

namespace kmem::bench {

namespace {

Table workload_table() {
  Table table;
  table.title = "workloads";
  table.columns = {"name", "question"};
  table.rows = {{"bulk", "what does bulk buy?"},
                {"replay", "which design suits my load? (ftrace, trace-cmd, perf script)"},
                {"geometry", "what does each design choose for my object sizes?"},
                {"remote", "what does a free on another CPU cost?"},
                {"fastpath", "what does the synchronisation of the fast path cost?"},
                {"hackbench", "groups of senders and receivers: what does a message cost?"},
                {"socket", "what does a storm of opens and closes of sockets cost?"},
                {"node", "what does a shared cache line cost? (SLUB)"},
                {"footprint", "how much memory per live byte, at the peak, and after it?"}};
  return table;
}

}  // namespace

Report run_list(const Settings& settings, Progress&) {
  Report report;
  report.workload = "list";
  report.provenance = gather_provenance();
  report.tables.push_back(workload_table());
  Table backends;
  backends.title = "backends";
  backends.columns = {"name", "policy", "runs as", "why"};
  for (const std::string& name : settings.backends) {
    for (const std::string& policy : policies_of(name)) {
      if (!settings.policy.empty() && policy != settings.policy) continue;
      const percpu::Running running = make_subject(name, policy)->running();
      backends.rows.push_back({name, policy, running.running, running.reason});
      add_policy(report.provenance, running);
      report.results.push_back({name,
                                "backend",
                                {{"policy", policy}, {"runs_as", running.running}},
                                "available",
                                {1, 1, 1, 1, 1}});
    }
  }
  report.tables.push_back(std::move(backends));
  Table rivals;
  rivals.title = "rivals on this machine; others by --rival NAME=FILE.so";
  rivals.columns = {"name", "is", "file"};
  for (const Rival& rival : installed_rivals()) {
    const std::string file = rival.file.empty() ? "the libc's own" : rival.file;
    const std::string is = rival.side == Side::pool ? "pool" : "malloc";
    rivals.rows.push_back({rival.name, is, file});
    report.results.push_back(
        {rival.name, "rival", {{"file", file}, {"is", is}}, "available", {1, 1, 1, 1, 1}});
  }
  report.tables.push_back(std::move(rivals));
  return report;
}

}  // namespace kmem::bench
