#include <fmt/format.h>

#include <algorithm>

#include "bench/report/report.h"

namespace kmem::bench {

void tell_noise(Report& report) {
  const auto noisy = [](const auto& compared) { return too_noisy(compared.value); };
  const auto count = std::count_if(report.ratios.begin(), report.ratios.end(), noisy) +
                     std::count_if(report.figures.begin(), report.figures.end(), noisy);
  if (count == 0) return;
  report.closing.push_back(
      fmt::format("too noisy: {} of {} comparisons, whose rounds disagree by more than a quarter, "
                  "or drift by more "
                  "than 15 %, get no verdict; a quieter machine or more --rounds may help",
                  count, report.ratios.size() + report.figures.size()));
}

}  // namespace kmem::bench
