// The one table of loops: which template does which work, over one world.
#pragma once

#include "bench/loops/bulk.h"
#include "bench/loops/hackbench.h"

namespace kmem::bench {

template <ObjectWorld W>
std::unique_ptr<Loop> make_loop(const Job& job) {
  switch (job.work) {
    case Work::bulk:
      return std::make_unique<BulkLoop<W>>(job);
    case Work::hackbench:
      if constexpr (KmallocWorld<W>) return std::make_unique<HackbenchLoop<W>>(job);
      break;
  }
  return nullptr;
}

}  // namespace kmem::bench
