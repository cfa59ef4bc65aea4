// The operations of sequences.h, in C++, on a slot that nobody else can reach: under its lock. They
// also say what the sequences must do: tests compare every policy with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/assert.h"
#include "common/percpu/sequences.h"

namespace kmem::percpu::exclusive {

inline void* load_link(void* object, std::size_t link) noexcept {
  void* next;
  std::memcpy(&next, static_cast<char*>(object) + link, sizeof(next));
  return next;
}
inline void store_link(void* object, std::size_t link, void* next) noexcept {
  std::memcpy(static_cast<char*>(object) + link, &next, sizeof(next));
}

inline Pair pair_of(CountedHead list) noexcept {
  return {list.head(), reinterpret_cast<void*>(list.count())};
}
inline CountedHead counted(Pair pair) noexcept {
  const auto count = reinterpret_cast<std::uint64_t>(pair.second);
  KMEM_ASSERT(count <= CountedHead::count_most);
  return CountedHead(pair.first, count);
}

// A list's pair: its head, and its owner or count.
inline Pair read(const OwnedList& list) noexcept { return {list.head, list.owner}; }
inline Pair read(const CountedList& list) noexcept { return pair_of(list.list); }
inline void write(OwnedList& list, Pair pair) noexcept {
  list.head = pair.first;
  list.owner = pair.second;
}
inline void write(CountedList& list, Pair pair) noexcept { list.list = counted(pair); }
// n objects have left: head is the one behind them.
inline void advance(OwnedList& list, void* head, std::size_t) noexcept { list.head = head; }
inline void advance(CountedList& list, void* head, std::size_t n) noexcept {
  KMEM_ASSERT(list.list.count() >= n);
  list.list = CountedHead(head, list.list.count() - n);
}

template <class List>
void* pop(List& list, std::size_t link) noexcept {
  void* const head = read(list).first;
  if (head != nullptr) advance(list, load_link(head, link), 1);
  return head;
}

inline Push push(OwnedList& list, void* first, void* last, void* owner, std::size_t link) noexcept {
  if (list.head == first) return Push::duplicate;
  if (list.owner != owner) return Push::refused;
  store_link(last, link, list.head);
  list.head = first;
  return Push::done;
}

inline Push push(CountedList& list, void* first, void* last, std::uint64_t n, std::uint64_t node,
                 std::size_t link) noexcept {
  void* const head = list.list.head();
  if (head == first) return Push::duplicate;
  if (list.node != node || list.list.count() + n > list.limit) return Push::refused;
  store_link(last, link, head);
  list.list = CountedHead(first, list.list.count() + n);
  return Push::done;
}

template <class List>
std::size_t take(List& list, void** out, std::size_t n, std::size_t link) noexcept {
  std::size_t k = 0;
  void* head = read(list).first;
  for (; k < n && head != nullptr; ++k) {
    out[k] = head;
    head = load_link(head, link);
  }
  advance(list, head, k);
  return k;
}

template <class List>
bool cas(List& list, Pair expected, Pair desired) noexcept {
  if (read(list) != expected) return false;
  write(list, desired);
  return true;
}

template <class List>
Pair detach(List& list) noexcept {
  const Pair pair = read(list);
  write(list, {nullptr, nullptr});
  return pair;
}

inline void* pop(PointerArray& array) noexcept {
  if (array.top == array.bottom) return nullptr;
  array.touched = 1;
  return entries(array)[--array.top];
}

inline Push push(PointerArray& array, void* object, std::uint64_t node) noexcept {
  if (array.node != node) return Push::refused;
  if (array.top != array.bottom && entries(array)[array.top - 1] == object) return Push::duplicate;
  if (array.top == array.end) return Push::refused;
  entries(array)[array.top++] = object;
  return Push::done;
}

inline std::size_t take(PointerArray& array, void** out, std::size_t n) noexcept {
  const std::size_t k = std::min<std::size_t>(n, array.top - array.bottom);
  if (k == 0) return 0;
  std::memcpy(out, entries(array) + array.top - k, k * sizeof(void*));
  array.touched = 1;
  array.top -= static_cast<std::uint32_t>(k);
  return k;
}

inline std::size_t put(PointerArray& array, void* const* in, std::size_t n,
                       std::uint64_t node) noexcept {
  if (array.node != node) return 0;
  const std::size_t k = std::min<std::size_t>(n, array.end - array.top);
  if (k == 0) return 0;
  std::memcpy(entries(array) + array.top, in, k * sizeof(void*));
  array.top += static_cast<std::uint32_t>(k);
  return k;
}

inline std::size_t take_oldest(PointerArray& array, void** out, std::size_t n) noexcept {
  const std::size_t k = std::min<std::size_t>(n, array.top - array.bottom);
  if (k == 0) return 0;
  std::memcpy(out, entries(array) + array.bottom, k * sizeof(void*));
  array.bottom += static_cast<std::uint32_t>(k);
  array.end = std::min(array.bottom + array.limit, array.capacity);
  return k;
}

// The entries move only to where none of them lies now, so that the rseq form can copy first and
// commit after; an interrupted copy has written nothing that counts.
inline bool make_room(PointerArray& array) noexcept {
  const std::uint32_t count = array.top - array.bottom;
  if (array.bottom != 0 && count <= array.bottom) {
    std::memcpy(entries(array), entries(array) + array.bottom, count * sizeof(void*));
    array.top = count;
    array.bottom = 0;
    array.end = std::min(array.limit, array.capacity);
  }
  return array.top < array.end;
}

}  // namespace kmem::percpu::exclusive
