// The instantiations: all slow paths of SLQB are compiled here, once a policy.
#include "backends/slqb/slqb.h"

#include "backends/slqb/alloc.h"
#include "backends/slqb/bulk.h"
#include "backends/slqb/drain.h"
#include "backends/slqb/free.h"
#include "backends/slqb/validate.h"

namespace kmem {

template class slqb::Cache<percpu::Rseq>;
template class slqb::Cache<percpu::Locked>;
template class slqb::Cache<percpu::Virtual>;

}  // namespace kmem
