#include "common/pages/buddy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/pages/arena.h"
#include "common/pages/limits.h"
#include "common/pages/os.h"

namespace kmem::pages {
namespace {

// block_states, a byte for each page.
constexpr std::uint8_t head_mark = 0x80, dirty_mark = 0x40, order_mask = 0x0f;

Page* page_at(std::size_t index) noexcept { return arena.map + index; }

Page* page_with(ListNode* link) noexcept {
  return reinterpret_cast<Page*>(reinterpret_cast<char*>(link) - offsetof(Page, link));
}

bool is_free_block(std::size_t index, unsigned order) noexcept {
  return (block_states[index] & (head_mark | order_mask)) == (head_mark | order);
}

std::size_t count_dirty(std::size_t index, std::size_t pages) noexcept {
  std::size_t count = 0;
  for (std::size_t i = index; i < index + pages; ++i)
    count += (block_states[i] & dirty_mark) / dirty_mark;
  return count;
}

}  // namespace

Buddy::Block Buddy::take(unsigned order) noexcept {
  Guard guard(lock_);
  return take_locked(order);
}

// The order of the smallest free block that is large enough; order_count if there is none, not even
// in a new chunk.
unsigned Buddy::smallest_order(unsigned order) noexcept {
  if ((orders_[dirty] | orders_[clean]) >> order == 0 && !grow()) return order_count;
  return order +
         static_cast<unsigned>(std::countr_zero((orders_[dirty] | orders_[clean]) >> order));
}

// Sources, cheapest first: the smallest block that is large enough, one that holds memory already
// before one of the same order that does not; then a new chunk.
Buddy::Block Buddy::take_locked(unsigned order) noexcept {
  const unsigned found = smallest_order(order);
  if (found == order_count) return {};
  const Kind kind = (orders_[dirty] >> found & 1) != 0 ? dirty : clean;
  Page* head = page_with(lists_[kind][found].front());
  unlink(head);
  split(head, found, order);
  const Block block = {head, node_, head->counters == 0};
  std::memset(block_states + index_of(head), 0, std::size_t{1} << order);
  return block;
}

bool Buddy::grow() noexcept {
  Page* first = take_chunks(1, node_);
  if (first == nullptr) return false;
  link(index_of(first), max_order, 0, 0);  // clean: taken before the lock is dropped
  return true;
}

// head, of order from, is on no list. Puts all but its first 2^to pages back.
void Buddy::split(Page* head, unsigned from, unsigned to) noexcept {
  const std::size_t index = index_of(head);
  while (from > to) {
    --from;
    const std::size_t half = std::size_t{1} << from;
    std::size_t upper_dirty = 0;
    if (head->counters == 2 * half) {
      upper_dirty = half;
    } else if (head->counters != 0) {
      upper_dirty = count_dirty(index + half, half);
    }
    head->counters -= upper_dirty;
    link(index + half, from, upper_dirty, head->word);
  }
}

void Buddy::give(Page* head, unsigned order) noexcept { give_blocks(&head, 1, order); }

std::size_t Buddy::take_blocks(Page** out, std::size_t n, unsigned order) noexcept {
  Guard guard(lock_);
  std::size_t taken = 0;
  while (taken < n) {
    // As many at once as the block that must be split anyway, and the rest of the wish, allow.
    const unsigned found = smallest_order(order);
    if (found == order_count) break;
    const unsigned wanted = std::min(found, order + log2_floor(n - taken));
    Page* head = take_locked(wanted).head;
    const std::size_t blocks = std::size_t{1} << (wanted - order);
    for (std::size_t i = 0; i < blocks; ++i) out[taken++] = head + (i << order);
  }
  return taken;
}

void Buddy::give_blocks(Page* const* blocks, std::size_t n, unsigned order) noexcept {
  const std::size_t pages = std::size_t{1} << order;
  Guard guard(lock_);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t index = index_of(blocks[i]);
    std::memset(block_states + index, dirty_mark, pages);
    insert(index, order, pages, current_epoch());
  }
}

// Merges with free buddies as far as that goes, then puts the block on its list. True: it has
// become a whole clean chunk, which is on no list: the caller gives it to the arena.
bool Buddy::insert(std::size_t index, unsigned order, std::size_t dirty_count,
                   std::uint64_t epoch) noexcept {
  KMEM_ASSERT((block_states[index] & head_mark) == 0);
  for (; order < max_order; ++order) {
    const std::size_t other = index ^ (std::size_t{1} << order);
    if (!is_free_block(other, order)) break;
    Page* buddy = page_at(other);
    unlink(buddy);
    dirty_count += buddy->counters;
    epoch = std::max(epoch, buddy->word);
    index = std::min(index, other);
  }
  if (order == max_order && dirty_count == 0) return true;
  link(index, order, dirty_count, epoch);
  return false;
}

void Buddy::link(std::size_t index, unsigned order, std::size_t dirty_count,
                 std::uint64_t epoch) noexcept {
  Page* head = page_at(index);
  head->counters = dirty_count;
  head->word = epoch;
  const Kind kind = dirty_count != 0 ? dirty : clean;
  block_states[index] =
      static_cast<std::uint8_t>((block_states[index] & dirty_mark) | head_mark | order);
  lists_[kind][order].push_front(&head->link);
  orders_[kind] |= 1u << order;
  free_pages_ += std::size_t{1} << order;
  dirty_pages_ += dirty_count;
}

void Buddy::unlink(Page* head) noexcept {
  std::uint8_t& state = block_states[index_of(head)];
  KMEM_ASSERT((state & head_mark) != 0);
  const unsigned order = state & order_mask;
  const Kind kind = head->counters != 0 ? dirty : clean;
  state &= dirty_mark;
  List::remove(&head->link);
  if (lists_[kind][order].empty()) orders_[kind] &= ~(1u << order);
  free_pages_ -= std::size_t{1} << order;
  dirty_pages_ -= head->counters;
}

// The back of a list is its oldest but for merged blocks, which are as young as their youngest
// part; what is missed behind one of those is found a pass later.
Page* Buddy::oldest_dirty(std::uint64_t epoch_max, unsigned order_min) noexcept {
  for (unsigned order = order_count; order-- > order_min;) {
    ListNode* back = lists_[dirty][order].back();
    if (back != nullptr && page_with(back)->word <= epoch_max) return page_with(back);
  }
  return nullptr;
}

std::size_t Buddy::release(std::uint64_t epoch_max, std::size_t pages_max,
                           unsigned order_min) noexcept {
  std::size_t released = 0;
  while (released < pages_max) {
    lock_.lock();
    Page* head = oldest_dirty(epoch_max, order_min);
    if (head == nullptr) {
      lock_.unlock();
      break;
    }
    const std::size_t index = index_of(head);
    const unsigned order = block_states[index] & order_mask;
    released += head->counters;
    unlink(head);
    lock_.unlock();
    discard_dirty(index, std::size_t{1} << order);
    give_clean(index, order);
  }
  return released;
}

// The block is on no list and its buddy does not merge with it: nobody changes its states, so they
// may be read without the lock. They stay as they are, since a neighbour that merges reads them.
void Buddy::discard_dirty(std::size_t index, std::size_t pages) noexcept {
  const std::size_t end = index + pages;
  std::size_t start = index;
  while (start < end) {
    std::size_t stop = start;
    while (stop < end && (block_states[stop] & dirty_mark) != 0) ++stop;
    if (stop != start) os::discard(address_of(page_at(start)), (stop - start) * page_bytes);
    start = stop + 1;
  }
}

void Buddy::give_clean(std::size_t index, unsigned order) noexcept {
  lock_.lock();
  std::memset(block_states + index, 0, std::size_t{1} << order);
  const bool whole_clean_chunk = insert(index, order, 0, 0);
  lock_.unlock();
  if (whole_clean_chunk) give_chunks(page_at(align_down(index, chunk_pages)), 1);
}

std::size_t Buddy::free_pages() noexcept {
  Guard guard(lock_);
  return free_pages_;
}

std::size_t Buddy::dirty_pages() noexcept {
  Guard guard(lock_);
  return dirty_pages_;
}

const char* Buddy::validate_block(const Page* head, Kind kind, unsigned order) const noexcept {
  const std::size_t index = index_of(head);
  if (index % (std::size_t{1} << order) != 0 || !is_free_block(index, order))
    return "I1: a listed block is aligned to its order, and its state says head and order";
  if (head->counters != count_dirty(index, std::size_t{1} << order) ||
      (head->counters != 0) != (kind == dirty))
    return "I2: counters is the number of dirty marks; the list is dirty iff it is not 0";
  if (order < max_order && is_free_block(index ^ (std::size_t{1} << order), order))
    return "I3: no two free buddies of one order stay apart";
  if (order == max_order && kind == clean) return "I5: a clean block is smaller than a chunk";
  return nullptr;
}

const char* Buddy::validate() noexcept {
  Guard guard(lock_);
  std::size_t free_sum = 0;
  std::size_t dirty_sum = 0;
  for (const Kind kind : {clean, dirty}) {
    for (unsigned order = 0; order < order_count; ++order) {
      const List& list = lists_[kind][order];
      for (ListNode* node = list.front(); node != nullptr; node = list.after(node)) {
        const Page* head = page_with(node);
        if (const char* broken = validate_block(head, kind, order)) return broken;
        free_sum += std::size_t{1} << order;
        dirty_sum += head->counters;
      }
    }
  }
  if (free_sum != free_pages_ || dirty_sum != dirty_pages_)
    return "I4: free_pages and dirty_pages are the sums over the lists";
  return nullptr;
}

}  // namespace kmem::pages
