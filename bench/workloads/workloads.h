// One subcommand, one function; each fills a report. They throw BadRequest (exit 2) or any other
// exception (exit 1).
#pragma once

#include "bench/options.h"
#include "bench/progress.h"
#include "bench/report/report.h"

namespace kmem::bench {

Report run_list(const Settings& settings, Progress& progress);
Report run_bulk(const Settings& settings, Progress& progress);
Report run_replay(const Settings& settings, Progress& progress);
Report run_geometry(const Settings& settings, Progress& progress);
Report run_remote(const Settings& settings, Progress& progress);
Report run_fastpath(const Settings& settings, Progress& progress);
Report run_hackbench(const Settings& settings, Progress& progress);
Report run_socket(const Settings& settings, Progress& progress);
Report run_node(const Settings& settings, Progress& progress);
Report run_footprint(const Settings& settings, Progress& progress);

}  // namespace kmem::bench
