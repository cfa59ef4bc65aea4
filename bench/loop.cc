#include "bench/loop.h"

namespace kmem::bench {

bool is_shared(const Job& job) noexcept {
  switch (job.work) {
    case Work::bulk:
    case Work::socket:
      return job.threads > 1;
    case Work::fastpath:
      return false;
    case Work::hackbench:
    case Work::remote:
    case Work::node_line:
    case Work::footprint:
      break;
  }
  return true;
}

bool is_handed_over(const Job& job) noexcept {
  return job.work == Work::remote || job.work == Work::hackbench || job.work == Work::footprint;
}

bool is_rival(Side side) noexcept { return side == Side::malloc || side == Side::pool; }

const char* kind_of(Side side) noexcept {
  if (side == Side::floor) return "floor";
  return is_rival(side) ? "rival" : "backend";
}

const char* text(BulkPath path) noexcept {
  switch (path) {
    case BulkPath::single:
      return "single";
    case BulkPath::stored:
      return "stored";
    case BulkPath::generic:
      return "generic";
    case BulkPath::optimized:
      break;
  }
  return "optimized";
}

}  // namespace kmem::bench
