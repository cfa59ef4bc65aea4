// Free objects linked through themselves, held by one thread or by whoever holds a list's lock.
#pragma once

#include <cstddef>
#include <cstring>

#include "common/base/assert.h"

namespace kmem {

// The free pointer, link bytes into a free object.
inline void* load_link(const void* object, std::size_t link) noexcept {
  void* next;
  std::memcpy(&next, static_cast<const char*>(object) + link, sizeof(next));
  return next;
}
inline void store_link(void* object, std::size_t link, void* next) noexcept {
  std::memcpy(static_cast<char*>(object) + link, &next, sizeof(next));
}

// From first to last; what last's link holds is nobody's business until the chain is put somewhere.
struct Chain {
  void* first = nullptr;
  void* last = nullptr;
  std::size_t count = 0;

  bool empty() const noexcept { return count == 0; }

  void push(void* object, std::size_t link) noexcept {
    store_link(object, link, first);
    if (count == 0) last = object;
    first = object;
    ++count;
  }
  void* pop(std::size_t link) noexcept {
    KMEM_ASSERT(count != 0);
    void* const object = first;
    --count;
    first = count == 0 ? nullptr : load_link(object, link);
    return object;
  }
  // Puts other behind this.
  void append(const Chain& other, std::size_t link) noexcept {
    if (other.count == 0) return;
    if (count == 0) {
      first = other.first;
    } else {
      store_link(last, link, other.first);
    }
    last = other.last;
    count += other.count;
  }
  // Moves up to n objects from the front to out; returns how many.
  std::size_t take(void** out, std::size_t n, std::size_t link) noexcept {
    std::size_t taken = 0;
    while (taken < n && count != 0) out[taken++] = pop(link);
    return taken;
  }
  // Cuts off the first n objects; n <= count.
  Chain split(std::size_t n, std::size_t link) noexcept {
    KMEM_ASSERT(n <= count);
    if (n == 0) return {};
    Chain front{first, first, n};
    for (std::size_t i = 1; i < n; ++i) front.last = load_link(front.last, link);
    count -= n;
    first = count == 0 ? nullptr : load_link(front.last, link);
    if (count == 0) last = nullptr;
    return front;
  }
};

// The chain that starts at first and has count objects, of which only the head was known.
inline Chain walk_chain(void* first, std::size_t count, std::size_t link) noexcept {
  Chain chain{first, first, count};
  for (std::size_t i = 1; i < count; ++i) chain.last = load_link(chain.last, link);
  return chain;
}

// Links objects[0..n) in their order. False: one follows itself, so the chain is a cycle.
inline bool link_objects(void* const* objects, std::size_t n, std::size_t link) noexcept {
  bool repeats = false;
  for (std::size_t i = 1; i < n; ++i) {
    store_link(objects[i - 1], link, objects[i]);
    repeats |= objects[i - 1] == objects[i];
  }
  return !repeats;
}

}  // namespace kmem
