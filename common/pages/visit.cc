#include "common/pages/arena.h"
#include "common/pages/pages.h"

namespace kmem::pages {

void for_each_slab(const void* owner, SlabVisitor visit, void* context) noexcept {
  for (Page* chunk = next_taken_chunk(0); chunk != nullptr;
       chunk = next_taken_chunk(index_of(chunk) / chunk_pages + 1)) {
    for (std::size_t i = 0; i < chunk_pages; ++i) {
      Page* const page = chunk + i;
      if (page->owner == owner && page->head == page) visit(context, page);
    }
  }
}

}  // namespace kmem::pages
