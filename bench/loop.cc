#include "bench/loop.h"

namespace kmem::bench {

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
