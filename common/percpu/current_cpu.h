// Which CPU this thread is on, and whether its sequences would be restarted there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/attributes.h"

// glibc 2.35 and later registers every thread.
#if defined(__x86_64__) && __has_include(<sys/rseq.h>)
#define KMEM_RSEQ_BUILT 1
#endif

namespace kmem::percpu {

// The thread's rseq area, from the thread pointer: the same for all threads; zero if libc has none.
// Set by start(), with the next.
[[gnu::visibility("hidden")]] extern std::ptrdiff_t rseq_area;
// Sequences work, and are wanted.
[[gnu::visibility("hidden")]] extern bool use_sequences;

unsigned ask_current_cpu() noexcept;

// A hint: the thread may be elsewhere by the time that the caller looks at it.
inline unsigned current_cpu() noexcept {
  if (!use_sequences) return ask_current_cpu();
  return *reinterpret_cast<const volatile std::uint32_t*>(
      static_cast<const char*>(__builtin_thread_pointer()) + rseq_area);
}

}  // namespace kmem::percpu
