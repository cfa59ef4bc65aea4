#include "backends/slab/slab.h"

#include "api/slab_backend.h"
#include "backends/slab/alloc.h"
#include "backends/slab/bulk.h"
#include "backends/slab/drain.h"
#include "backends/slab/free.h"
#include "backends/slab/validate.h"

namespace kmem::slab {

static_assert(SlabBackend<Cache<percpu::Rseq>> && SlabBackend<Cache<percpu::Locked>> &&
              SlabBackend<Cache<percpu::Virtual>>);

template class Cache<percpu::Rseq>;
template class Cache<percpu::Locked>;
template class Cache<percpu::Virtual>;

}  // namespace kmem::slab
