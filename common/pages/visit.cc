#include "common/pages/arena.h"
#include "common/pages/pages.h"

namespace kmem::pages {
namespace {

// Other owners' pages change hands meanwhile. None of them can be taken for one of this owner's,
// whose pages stay: a race that ThreadSanitizer need not tell of.
[[gnu::no_sanitize_thread]] bool is_slab_of(const Page* page, const void* owner) noexcept {
  return page->owner == owner && page->head == page;
}

}  // namespace

void for_each_slab(const void* owner, SlabVisitor visit, void* context) noexcept {
  for (Page* chunk = next_taken_chunk(0); chunk != nullptr;
       chunk = next_taken_chunk(index_of(chunk) / chunk_pages + 1)) {
    for (std::size_t i = 0; i < chunk_pages; ++i) {
      Page* const page = chunk + i;
      if (is_slab_of(page, owner)) visit(context, page);
    }
  }
}

}  // namespace kmem::pages
