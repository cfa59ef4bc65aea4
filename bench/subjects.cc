#include "bench/subjects.h"

#include <fmt/format.h>

namespace kmem::bench {

namespace {

struct Factory {
  const char* backend;
  std::unique_ptr<Subject> (*make)(const std::string& policy);
};
constexpr Factory factories[] = {
    {"slab", make_slab},
    {"slub", make_slub},
    {"slob", make_slob},
    {"slqb", make_slqb},
};

}  // namespace

std::vector<std::string> policies_of(const std::string& backend) {
  if (backend == "slob") return {"none"};
  std::vector<std::string> policies = {"rseq", "locked", "virtual"};
  if (backend == "slub") policies.emplace_back("atomic");
  return policies;
}

std::unique_ptr<Subject> make_subject(const std::string& backend, const std::string& policy) {
  for (const Factory& factory : factories) {
    if (backend != factory.backend) continue;
    if (std::unique_ptr<Subject> subject = factory.make(policy)) return subject;
    throw BadRequest(fmt::format("{} has no policy '{}'", backend, policy));
  }
  throw BadRequest(fmt::format("no backend '{}' in this build", backend));
}

std::vector<std::unique_ptr<Subject>> make_subjects(const Settings& settings,
                                                    const std::string& policy, Report& report) {
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const std::string& backend : settings.backends) {
    subjects.push_back(make_subject(backend, settings.policy.empty() ? policy : settings.policy));
    add_policy(report.provenance, subjects.back()->running());
  }
  return subjects;
}

}  // namespace kmem::bench
