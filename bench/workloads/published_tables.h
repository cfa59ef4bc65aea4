// Published tables whole, each with what cannot be compared.
#pragma once

#include "bench/report/report.h"

namespace kmem::bench {

Table published_bulk();
Table published_fastpath();
Table published_socket();
Table published_node();

}  // namespace kmem::bench
