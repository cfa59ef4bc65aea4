// A measurement in a process of its own, forked from this one: what it does to its memory is seen
// by nobody else.
#pragma once

#include <functional>
#include <string>

#include "bench/loop.h"

namespace kmem::bench {

// measure() in a child of this process, which must have one thread only and must not have used
// what is measured. Throws std::runtime_error, which names the child: there is no process to be
// had, measure() threw, the child died, or it did not answer within the time and was killed.
Outcome run_apart(const std::string& name, double patience_seconds,
                  const std::function<Outcome()>& measure);

}  // namespace kmem::bench
