// What SLQB chooses for a cache: slots, order, colours, and the length of its queues.
#pragma once

#include <cstddef>

#include "common/slab/spec.h"

namespace kmem::slqb {

// The queue of a CPU: it holds up to hiwater objects, and sheds freebatch of them at a time.
struct QueueLength {
  unsigned freebatch;
  unsigned hiwater;
};

// 256 objects a batch, but no more than 64 pages of them, and no fewer than 4 pages of them.
QueueLength queue_length(std::size_t slot_bytes) noexcept;

// What a caller may set: freebatch > 0, and at most one more than the queue holds; the queues of a
// CPU have 16 bits for their length.
bool legal(const QueueLength& length) noexcept;

// objects == 0: no slab can hold one.
Geometry plan_geometry(const CacheSpec& spec) noexcept;

}  // namespace kmem::slqb
