// Checks a whole array of pointers for less than one check each: neighbours in the array are mostly
// neighbours in a slab, and whatever lies in a slab of the cache needs no page looked up again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/assert.h"
#include "common/base/attributes.h"
#include "common/pages/page.h"
#include "common/slab/chain.h"
#include "common/slab/spec.h"

namespace kmem {

// The objects of one slab.
struct ObjectRange {
  const char* first;
  std::size_t count;

  KMEM_FAST bool holds(const void* object, const ObjectDivider& divider) const noexcept {
    return divider.number(static_cast<std::size_t>(static_cast<const char*>(object) - first)) <
           count;
  }
};

// How many pointers from the front are objects of the cache owner, as its owns() would find each,
// and none the one before it again. range_of(slab) is its ObjectRange.
template <class RangeOf>
inline std::size_t count_owned(const void* owner, const ObjectDivider& divider, RangeOf range_of,
                               std::size_t n, void* const* objects) noexcept {
  std::size_t owned = 0;
  const void* previous = nullptr;
  while (owned < n) {
    const pages::Page* page = pages::page_of(objects[owned]);
    if (page->owner != owner) return owned;
    const ObjectRange range = range_of(page->head);
    const std::size_t before = owned;
    for (; owned < n; ++owned) {
      const void* const object = objects[owned];
      if (!range.holds(object, divider)) break;
      if (object == previous) return owned;
      previous = object;
    }
    if (owned == before) return owned;  // past the last object, or not at one's start
  }
  return owned;
}

// The same for one slab, and each object's link is set to the next one, all in one pass. Stops
// before an object that is not of the slab, and behind one that is followed by itself. The last
// one's link is left as it was; the first one's is kept in first_link: should that object be the
// head of a list already, it is the list's. divider by value: the links could be its memory.
[[gnu::always_inline]] inline std::size_t link_owned(ObjectRange range, ObjectDivider divider,
                                                     std::size_t link, std::size_t n,
                                                     void* const* objects,
                                                     void*& first_link) noexcept {
  KMEM_ASSERT(n != 0);
  void* last = objects[0];
  if (!range.holds(last, divider)) return 0;
  first_link = load_link(last, link);
  std::size_t k = 1;
  for (; k < n; ++k) {
    void* const object = objects[k];
    if (!range.holds(object, divider) || object == last) break;
    store_link(last, link, object);
    last = object;
  }
  return k;
}

}  // namespace kmem
