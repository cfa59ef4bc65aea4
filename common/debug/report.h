// Reports of misuse and corruption: never silent, never a crash in the allocator. Each report is
// the kernel's frame (a line of =, BUG line, a line of -), evidence lines, and a FIX line that says
// what was done; then the program goes on, or aborts with KMEM_ON_ERROR=abort.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/flags.h"

namespace kmem::debug {

enum class Fault : std::uint8_t {
  foreign_pointer,  // not memory of ours
  not_an_object,    // inside our memory, but not at an object's start
  wrong_cache,      // an object of another cache
  double_free,      // already free
  live_objects,     // destroy with objects not freed
  corrupt_link,     // a free list left its slab
  count
};

// Prints the report and counts it. cache may be "" when there is none; detail is one line more of
// evidence, or nullptr; fix says what was done ("Object at 0x.. not freed").
void report(Fault fault, const char* cache, const void* object, const char* detail,
            const char* fix) noexcept;

std::uint64_t report_count() noexcept;  // since start
std::uint64_t report_count(Fault fault) noexcept;
const char* name(Fault fault) noexcept;

}  // namespace kmem::debug
