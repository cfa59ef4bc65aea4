// How many bytes of a range are in memory, as the system says.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <vector>

#include "common/pages/page.h"

namespace kmem::testing {

inline std::size_t resident_bytes(const void* base, std::size_t bytes) {
  std::vector<unsigned char> in_core(bytes / pages::page_bytes);
  if (mincore(const_cast<void*>(base), bytes, in_core.data()) != 0) return 0;
  std::size_t count = 0;
  for (const unsigned char page : in_core) count += page & 1u;
  return count * pages::page_bytes;
}

}  // namespace kmem::testing
