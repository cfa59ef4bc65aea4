#include "backends/slub/slub.h"

#include "backends/slub/alloc.h"
#include "backends/slub/bulk.h"
#include "backends/slub/drain.h"
#include "backends/slub/free.h"

namespace kmem::slub {

template class Cache<percpu::Rseq>;
template class Cache<percpu::Locked>;
template class Cache<percpu::Virtual>;
template class Cache<percpu::Atomic>;

}  // namespace kmem::slub
