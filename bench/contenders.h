// Who takes part in a run: the backends that --backend names, and the rivals that --rivals names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/loop.h"
#include "bench/options.h"
#include "bench/report/report.h"

namespace kmem::bench {

// Backends first. policy: of those that --policy does not name. The report's provenance names both.
std::vector<std::unique_ptr<Contender>> make_contenders(const Settings& settings,
                                                        const std::string& policy, Report& report);

// Null, and a line of the report: the contender has no such work. what: the work, in words.
std::unique_ptr<Loop> loop_of(const Contender& contender, const Job& job, const std::string& what,
                              Report& report);

}  // namespace kmem::bench
