#include "backends/slub/slub.h"

#include "api/slab_backend.h"
#include "backends/slub/alloc.h"
#include "backends/slub/bulk.h"
#include "backends/slub/drain.h"
#include "backends/slub/free.h"

namespace kmem::slub {

static_assert(SlabBackend<Cache<percpu::Rseq>> && SlabBackend<Cache<percpu::Locked>> &&
              SlabBackend<Cache<percpu::Virtual>> && SlabBackend<Cache<percpu::Atomic>>);

template class Cache<percpu::Rseq>;
template class Cache<percpu::Locked>;
template class Cache<percpu::Virtual>;
template class Cache<percpu::Atomic>;

}  // namespace kmem::slub
