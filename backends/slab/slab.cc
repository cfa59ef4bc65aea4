#include "backends/slab/slab.h"

#include "backends/slab/alloc.h"
#include "backends/slab/bulk.h"
#include "backends/slab/drain.h"
#include "backends/slab/free.h"
#include "backends/slab/validate.h"

namespace kmem::slab {

template class Cache<percpu::Rseq>;
template class Cache<percpu::Locked>;
template class Cache<percpu::Virtual>;

}  // namespace kmem::slab
