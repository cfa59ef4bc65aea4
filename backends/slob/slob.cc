#include "backends/slob/slob.h"

#include "api/slab_backend.h"

namespace kmem::slob {

static_assert(SlabBackend<Cache>);

}  // namespace kmem::slob
