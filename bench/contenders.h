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

}  // namespace kmem::bench
