// Where figures come from: every report says on what machine, with what build, and under which
// policy it was made. A figure without it is worth nothing a week later.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/percpu/sequences.h"

namespace kmem::bench {

struct PolicyFact {
  std::string asked, running, reason;
};

struct Provenance {
  std::vector<std::pair<std::string, std::string>> facts;  // name, value; in the order to print
  std::vector<PolicyFact> policies;
};

// The machine and the build; the policies are added by whoever creates the subjects.
Provenance gather_provenance();

// Once for each policy, however many backends run under it.
void add_policy(Provenance& provenance, const percpu::Running& running);

// A few lines for the head of a table.
std::vector<std::string> summary(const Provenance& provenance);

}  // namespace kmem::bench
