// What everyone relies on: blocks are aligned, described, distinct, and accounted for.
#include <gtest/gtest.h>

#include <cstring>

#include "common/pages/pages.h"

namespace kmem::pages {
namespace {

TEST(Pages, BlocksOfAllOrdersAreAlignedAndDescribedInEveryPage) {
  for (unsigned order = 0; order <= max_order; ++order) {
    Page* head = alloc(order, no_node, gfp::kernel, PageKind::slab);
    ASSERT_NE(head, nullptr);
    const auto address = reinterpret_cast<std::uintptr_t>(address_of(head));
    EXPECT_EQ(address % (page_bytes << order), 0u);
    for (std::size_t i = 0; i < std::size_t{1} << order; ++i) {
      const Page* page = page_of(address_of(head) + i * page_bytes + 17);
      EXPECT_EQ(page->head, head);
      EXPECT_EQ(page->kind, PageKind::slab);
      EXPECT_EQ(page->owner, nullptr);
    }
    std::memset(address_of(head), 0xa5, block_bytes(head));
    free(head);
    EXPECT_EQ(head->head, nullptr);
  }
  EXPECT_EQ(usage().allocated_bytes, 0u);
}

}  // namespace
}  // namespace kmem::pages
