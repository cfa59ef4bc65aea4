#include "api/kmem.h"

namespace kmem {
namespace {

unsigned order_for(std::size_t bytes) noexcept {
  const std::size_t pages = divide_up(bytes, pages::page_bytes);
  return static_cast<unsigned>(std::bit_width(pages - 1));
}

}  // namespace

void* refuse_kmalloc(std::size_t bytes, gfp_t gfp) noexcept {
  if ((gfp & gfp::nowarn) == 0) {
    warn("an allocation of %zu bytes is over the limit of %zu", bytes, kmalloc_max_bytes);
  }
  errno = EINVAL;
  return nullptr;
}

bool refuse_node(int node, const char* call) noexcept {
  if (node == no_node || (node >= 0 && node < nodes::count())) return false;
  warn("%s: there is no node %d (there are %d)", call, node, nodes::count());
  errno = EINVAL;
  return true;
}

void* alloc_large(std::size_t bytes, gfp_t gfp, int node) noexcept {
  pages::Page* page = nullptr;
  if (pages::start()) {
    page = bytes <= kmalloc_max_bytes
               ? pages::alloc(order_for(bytes), node, gfp, pages::PageKind::large)
               : pages::alloc_run(bytes, node, gfp);
  }
  if (page == nullptr) return errno = ENOMEM, nullptr;
  return pages::address_of(page);
}

std::size_t large_bytes(const void* object, const pages::Page* page) noexcept {
  if (page->kind != pages::PageKind::large || page->head != page) return 0;
  if (pages::address_of(page) != object) return 0;
  const std::size_t run = pages::run_bytes(page);
  return run != 0 ? run : pages::block_bytes(page);
}

bool free_large(void* object, const pages::Page* page) noexcept {
  if (large_bytes(object, page) == 0) return false;
  if (pages::run_bytes(page) != 0) {
    pages::free_run(page->head);
  } else {
    pages::free(page->head);
  }
  return true;
}

std::size_t large_roundup(std::size_t bytes) noexcept {
  return pages::page_bytes << order_for(bytes);
}

// Which of the three: not memory of ours, the middle of a block, or memory that is free again.
void report_kfree(const void* object) noexcept {
  const pages::Page* page = pages::page_of(object);
  char fix[64];
  format_line(fix, sizeof(fix), "Object at %p not freed", object);
  if (page->kind == pages::PageKind::large) {
    debug::report(debug::Fault::not_an_object, "kmalloc", object, "inside a large block", fix);
  } else if (page->kind == pages::PageKind::slab) {
    debug::report(debug::Fault::foreign_pointer, "kmalloc", object,
                  "not an object in use of any cache", fix);
  } else {
    debug::report(debug::Fault::foreign_pointer, "kmalloc", object,
                  pages::is_null_page(page) ? "not memory of this library" : "its page is free",
                  fix);
  }
}

}  // namespace kmem
