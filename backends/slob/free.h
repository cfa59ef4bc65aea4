// SLOB's single free: the destinations of an object are in Heap::free().
#pragma once

#include "backends/slob/slob.h"
#include "common/debug/report.h"

namespace kmem::slob {

// owns() looked without the lock; the heap looks again with it, so that of two threads that free an
// object at the same time one is told.
inline void Cache::free(void* object, Page*) noexcept {
  if (heap().free(share_, 1, &object) != 0) [[unlikely]]
    report_double_free(object);
}

KMEM_SLOW inline void Cache::report_double_free(const void* object) noexcept {
  debug::report(debug::Fault::double_free, name_, object, "no object in use starts there",
                "Object not freed again");
}

}  // namespace kmem::slob
