#include "bench/contenders.h"

#include <fmt/format.h>

#include <utility>

#include "bench/rivals/rivals.h"
#include "bench/subjects.h"

namespace kmem::bench {

std::vector<std::unique_ptr<Contender>> make_contenders(const Settings& settings,
                                                        const std::string& policy, Report& report) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (std::unique_ptr<Subject>& subject : make_subjects(settings, policy, report))
    contenders.push_back(std::move(subject));
  for (std::unique_ptr<Contender>& abi : make_abi_contenders(settings))
    contenders.push_back(std::move(abi));
  for (std::unique_ptr<Contender>& rival : make_rivals(settings, report))
    contenders.push_back(std::move(rival));
  return contenders;
}

std::unique_ptr<Loop> loop_of(const Contender& contender, const Job& job, const std::string& what,
                              Report& report) {
  std::unique_ptr<Loop> loop = contender.loop(job);
  if (loop == nullptr)
    report.lines.push_back(fmt::format("left out: {} does not do {}", contender.name(), what));
  return loop;
}

}  // namespace kmem::bench
