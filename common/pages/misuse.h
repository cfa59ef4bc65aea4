// What pages:: says when it is given back something that it never gave out. Declared here and
// defined in common/debug, which lies above and knows how to report.
#pragma once

#include "common/pages/page.h"

namespace kmem::pages {

// head is in the page array; what is one line of evidence. Nothing was changed.
void on_bad_free(const Page* head, const char* what) noexcept;

}  // namespace kmem::pages
