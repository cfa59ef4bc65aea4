// SLQB's bulk calls, which the kernel never had. A LIFO is cut with one operation and spliced with
// one; slabs are emptied and remote objects grouped under one hold of a lock.
#pragma once

#include <algorithm>
#include <utility>

#include "backends/slqb/free.h"
#include "backends/slqb/slqb.h"

namespace kmem::slqb {

// ---- Alloc --------------------------------------------------------------------------------------

// taken objects are there already. The sources of a single call, asked for all that is missing.
template <class Policy>
bool Cache<Policy>::alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                    std::size_t taken) noexcept {
  CacheList& own = own_list();
  while (taken < n) {
    const std::size_t got = take_any(own, gfp, objects + taken, n - taken);
    if (got == 0) {
      free_bulk(taken, objects);
      return false;
    }
    note(Event::alloc, got);
    taken += got;
  }
  return true;
}

// ---- Free ---------------------------------------------------------------------------------------

// Links the objects at the front of the array, up to the first that is not ours or that follows
// itself; returns how many.
template <class Policy>
std::size_t Cache<Policy>::link_all(std::size_t n, void** objects,
                                    void*& first_link) const noexcept {
  std::size_t linked = 0;
  while (linked < n) {
    const Page* const page = pages::page_of(objects[linked]);
    if (page->owner != this) break;
    const ObjectRange range = range_of(page->head);
    void* own_link = nullptr;
    const std::size_t run =
        link_owned(range, divider_, link_offset_, n - linked, objects + linked, own_link);
    if (run == 0) break;
    if (linked == 0) {
      first_link = own_link;
    } else {
      if (objects[linked - 1] == objects[linked]) break;
      store_link(objects[linked - 1], link_offset_, objects[linked]);
    }
    linked += run;
  }
  return linked;
}

// On a single node the objects are one chain, whichever slabs they are of.
template <class Policy>
std::size_t Cache<Policy>::free_bulk_checked(std::size_t n, void** objects) noexcept {
  if (n == 0 || node_count_ != 1) return 0;
  void* first_link = nullptr;
  const std::size_t linked = link_all(n, objects, first_link);
  if (linked != n) [[unlikely]] {
    if (linked != 0) store_link(objects[0], link_offset_, first_link);
    return 0;
  }
  if (cpus_.template fast_push<lifo_field>(objects[0], objects[n - 1], std::uint64_t{n},
                                           std::uint64_t{0}, link_offset_) != percpu::Push::done)
      [[unlikely]] {
    free_bulk_slow(n, objects, 0, first_link);
  } else if constexpr (Policy::counts_fast_paths) {
    count(Event::free, n);
  }
  return n;
}

// What a splice followed by flushes from the head would shed are our own objects first: those never
// get on the LIFO.
template <class Policy>
void Cache<Policy>::free_bulk_slow(std::size_t n, void** objects, unsigned node,
                                   void* first_link) noexcept {
  CacheList& own = own_list();
  store_link(objects[0], link_offset_, first_link);
  const percpu::Pair lifo = cpus_.template read<lifo_field>();
  for (; n != 0 && objects[0] == lifo.first; ++objects, --n) report_double_free(objects[0]);
  if (n == 0) return;
  n = drop_repeats(n, objects);
  note(Event::free, n);

  const std::size_t limit = hiwater(), batch = freebatch();
  const std::size_t total = n + reinterpret_cast<std::uintptr_t>(lifo.second);
  const std::size_t excess = total > limit ? (total - limit + batch - 1) / batch * batch : 0;
  const std::size_t shed_first = std::min(n, excess);
  if (shed_first != 0) {
    count(Event::free_slow, shed_first);
    count(Event::flush_free_list);
  }
  for (std::size_t i = 0; i < shed_first; i += flush_chunk)
    flush(own, objects + i, std::min(flush_chunk, shed_first - i));
  if (excess > n) shed(own, nullptr, excess - n);
  Chain rest;
  for (std::size_t i = n; i != shed_first; --i) rest.push(objects[i - 1], link_offset_);
  if (!splice(rest, node)) flush_chain(own, rest);
  if (excess != 0) trim_if_due(own);
}

// Reports and removes objects that follow themselves; returns how many are left.
template <class Policy>
std::size_t Cache<Policy>::drop_repeats(std::size_t n, void** objects) noexcept {
  std::size_t kept = 1;
  for (std::size_t i = 1; i < n; ++i) {
    if (objects[i] == objects[kept - 1]) {
      report_double_free(objects[i]);
    } else {
      objects[kept++] = objects[i];
    }
  }
  return kept;
}

// Local objects to the front of the array, the others to its end.
template <class Policy>
void Cache<Policy>::free_bulk_by_node(std::size_t n, void** objects) noexcept {
  const int node = cpus_.node();
  std::size_t local = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (pages::page_of(objects[i])->node == node) std::swap(objects[local++], objects[i]);
  }
  if (local != 0) free_bulk_local(local, objects, static_cast<unsigned>(node));
  free_bulk_remote(n - local, objects + local);
}

template <class Policy>
void Cache<Policy>::free_bulk_remote(std::size_t n, void** objects) noexcept {
  if (n == 0) return;
  note(Event::free, n);
  count(Event::free_remote, n);
  while (n != 0) {
    const std::size_t chunk = std::min(n, flush_chunk);
    OwnerChains homes(link_offset_);
    for (std::size_t i = 0; i < chunk;) {
      Page* slab;
      const Chain run = run_of_slab(objects + i, chunk - i, slab);
      homes.add(owner_of(slab), run);
      i += run.count;
    }
    for (std::size_t i = 0; i < homes.groups(); ++i) free_to_remote(homes.owner(i), homes.chain(i));
    objects += chunk;
    n -= chunk;
  }
}

}  // namespace kmem::slqb
