// /proc/slabinfo's text, version 2.1, written to a file descriptor.
#pragma once

#include <cstddef>

#include "common/slab/spec.h"

namespace kmem {

class SlabinfoWriter {
 public:
  explicit SlabinfoWriter(int fd) noexcept;  // writes the two header lines
  void row(const char* name, const Geometry& geometry, const CacheUsage& usage,
           const Tunables& tunables) noexcept;
  int finish() noexcept;  // 0, or -1 with the errno of the first write that failed

 private:
  void append(const char* text) noexcept;
  void flush() noexcept;

  static constexpr std::size_t buffer_bytes = 4096;
  int fd_;
  int error_ = 0;
  std::size_t used_ = 0;
  char buffer_[buffer_bytes];
};

}  // namespace kmem
