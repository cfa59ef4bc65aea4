// Metadata: blocks of a few sizes, carved from whole pages. A page of blocks keeps its state in its
// Page (free_list: first free block; counters: blocks in use; word: its size class; link: its place
// among the pages of its class that have a free block) and goes back when its last block does.
// Callers are charged for blocks, not for pages: what is left of a page is free memory.
#include "common/pages/metadata.h"

#include <bit>
#include <cstring>
#include <new>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/nodes/topology.h"
#include "common/pages/arena.h"
#include "common/pages/limits.h"
#include "common/pages/os.h"
#include "common/pages/pages.h"
#include "common/pages/zones.h"

namespace kmem::pages {
namespace {

// The largest multiples of a cache line of which so many fit a page.
constexpr std::size_t class_bytes[] = {64,  128, 192, 256,  320,  384,  448, 512,
                                       576, 640, 768, 1024, 1344, 2048, 4096};
constexpr std::size_t class_count = sizeof(class_bytes) / sizeof(class_bytes[0]);
static_assert(class_bytes[class_count - 1] == page_bytes);

struct FreeBlock {
  FreeBlock* next;
};

constinit SpinLock metadata_lock{LockRank::metadata};
// Pages with a free block, by class. Inside a structure: GCC 12 initializes a bare constinit array
// of lists with zeros.
struct PartialPages {
  List of_class[class_count];
};
constinit PartialPages partial_pages;

std::size_t class_for(std::size_t bytes) noexcept {
  std::size_t index = 0;
  while (class_bytes[index] < bytes) ++index;
  return index;
}

unsigned order_for(std::size_t bytes) noexcept {
  return static_cast<unsigned>(std::bit_width(divide_up(bytes, page_bytes) - 1));
}

std::size_t charged_bytes(std::size_t bytes) noexcept {
  return bytes <= page_bytes ? class_bytes[class_for(bytes)] : page_bytes << order_for(bytes);
}

Page* page_with(ListNode* link) noexcept {
  return reinterpret_cast<Page*>(reinterpret_cast<char*>(link) - offsetof(Page, link));
}

// A block of pages marked as metadata, so that no caller's pointer into it is taken for an object.
Buddy::Block take_pages(unsigned order) noexcept {
  const int node = nodes::of_cpu(os::current_cpu());
  const Buddy::Block block = take_uncharged(order, node, false);
  if (block.head == nullptr) return block;
  for (Page* page = block.head; page < block.head + (std::size_t{1} << order); ++page) {
    page->head = block.head;
    page->kind = PageKind::metadata;
    page->node = static_cast<std::uint8_t>(block.node);
  }
  block.head->order = static_cast<std::uint8_t>(order);
  return block;
}

void give_pages(Page* head) noexcept {
  const unsigned order = head->order;
  for (Page* page = head; page < head + (std::size_t{1} << order); ++page) {
    page->head = nullptr;
    page->kind = PageKind::free;
  }
  give_uncharged(head, order);
}

void* pop_block(std::size_t size_class) noexcept {
  Guard guard(metadata_lock);
  ListNode* link = partial_pages.of_class[size_class].front();
  if (link == nullptr) return nullptr;
  Page* page = page_with(link);
  auto* block = static_cast<FreeBlock*>(page->free_list);
  page->free_list = block->next;
  ++page->counters;
  if (page->free_list == nullptr) List::remove(link);
  return block;
}

bool add_page(std::size_t size_class) noexcept {
  Page* page = take_pages(0).head;
  if (page == nullptr) return false;
  char* base = address_of(page);
  const std::size_t step = class_bytes[size_class];
  FreeBlock* first = nullptr;
  for (std::size_t offset = (page_bytes / step) * step; offset != 0; offset -= step)
    first = new (base + offset - step) FreeBlock{first};
  page->free_list = first;
  page->counters = 0;
  page->word = size_class;
  Guard guard(metadata_lock);
  partial_pages.of_class[size_class].push_front(&page->link);
  return true;
}

void* alloc_small(std::size_t size_class) noexcept {
  void* block = pop_block(size_class);
  // Another thread may empty the new page before we come to it; then we add one more.
  while (block == nullptr && add_page(size_class)) block = pop_block(size_class);
  if (block != nullptr) std::memset(block, 0, class_bytes[size_class]);
  return block;
}

void* alloc_large(std::size_t bytes) noexcept {
  const unsigned order = order_for(bytes);
  if (order > max_order) return nullptr;
  const Buddy::Block block = take_pages(order);
  if (block.head == nullptr) return nullptr;
  if (!block.clean) std::memset(address_of(block.head), 0, page_bytes << order);
  return address_of(block.head);
}

void free_small(void* block, std::size_t size_class) noexcept {
  Page* page = page_of(block);
  KMEM_ASSERT_EQ(page->word, size_class);
  {
    Guard guard(metadata_lock);
    KMEM_ASSERT(page->counters > 0);
    if (page->free_list == nullptr) partial_pages.of_class[size_class].push_front(&page->link);
    page->free_list = new (block) FreeBlock{static_cast<FreeBlock*>(page->free_list)};
    if (--page->counters != 0) return;
    List::remove(&page->link);
  }
  give_pages(page);
}

}  // namespace

void lock_metadata_for_fork() noexcept { metadata_lock.unranked().lock(); }
void unlock_metadata_after_fork() noexcept { metadata_lock.unranked().unlock(); }

void* metadata_alloc(std::size_t bytes) noexcept {
  if (!start() || told_to_fail() || bytes == 0 || bytes > max_block_bytes) {
    account.failures.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  const std::size_t charged = charged_bytes(bytes);
  void* block = nullptr;
  if (charge_or_drain(charged)) {
    block = bytes <= page_bytes ? alloc_small(class_for(bytes)) : alloc_large(bytes);
    if (block == nullptr) uncharge(charged);
  }
  auto& counter = block != nullptr ? account.metadata_allocations : account.failures;
  counter.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void metadata_free(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  KMEM_ASSERT(page_of(block)->kind == PageKind::metadata);
  if (bytes <= page_bytes) {
    free_small(block, class_for(bytes));
  } else {
    KMEM_ASSERT(page_of(block)->head->order == order_for(bytes));
    give_pages(page_of(block));
  }
  uncharge(charged_bytes(bytes));
}

}  // namespace kmem::pages
