// Checks a whole array of pointers for less than one check each: neighbours in the array are mostly
// neighbours in a slab, and whatever lies in a slab of the cache needs no page looked up again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/pages/page.h"
#include "common/slab/spec.h"

namespace kmem {

// How many pointers from the front are objects of the cache owner, as its owns() would find each.
// objects_bytes(slab): from the slab's first object to its last one's end.
template <class ObjectsBytes>
inline std::size_t count_owned(const void* owner, const ObjectDivider& divider,
                               ObjectsBytes objects_bytes, std::size_t n,
                               void* const* objects) noexcept {
  std::size_t owned = 0;
  while (owned < n) {
    const pages::Page* page = pages::page_of(objects[owned]);
    if (page->owner != owner) return owned;
    const pages::Page* slab = page->head;
    const char* first = pages::address_of(slab) + slab->first_object;
    const std::size_t bytes = objects_bytes(slab);
    const std::size_t before = owned;
    for (; owned < n; ++owned) {
      // Below the first object the offset wraps round and is out of range.
      const auto offset = static_cast<std::size_t>(static_cast<char*>(objects[owned]) - first);
      if (offset >= bytes) break;
      if (!divider.divides(static_cast<std::uint32_t>(offset))) return owned;
    }
    if (owned == before) return owned;  // past the last object
  }
  return owned;
}

}  // namespace kmem
