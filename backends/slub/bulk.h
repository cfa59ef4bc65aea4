// SLUB's optimized bulk. Allocation takes whole free lists: a slab whose objects all go to the
// caller becomes full at once, and only the last slab's remainder becomes the CPU's list. Free
// gathers the objects of one slab into a detached free list, and gives it back by one update.
#pragma once

#include <algorithm>

#include "backends/slub/slub.h"

namespace kmem::slub {

// ---- Allocation ---------------------------------------------------------------------------------

template <class Policy>
KMEM_SLOW bool Cache<Policy>::alloc_bulk_slow(gfp_t gfp, std::size_t n, void** objects,
                                              std::size_t got) noexcept {
  count(Event::alloc_slowpath, n - got);
  got += bulk_from_cpu_slab(objects + got, n - got);
  got += bulk_from_cpu_partial(objects + got, n - got);
  got += bulk_from_node_partial(gfp, objects + got, n - got);
  got += bulk_from_new_slabs(gfp, objects + got, n - got);
  KMEM_ASSERT(got <= n);
  if (got == n) [[likely]]
    return true;
  free_bulk(got, objects);
  return false;
}

// The rest of the CPU's list, then what others freed into its slab.
template <class Policy>
std::size_t Cache<Policy>::bulk_from_cpu_slab(void** out, std::size_t want) noexcept {
  std::size_t got = cpus_.template take<cpu_list>(out, want, link_);
  if (got == want) return got;
  const percpu::Pair seen = cpus_.template read<cpu_list>();
  if (seen.first != nullptr || seen.second == nullptr) return got;  // we were migrated: try no more
  if (!cpus_.template cas<cpu_list>(seen, {nullptr, nullptr})) return got;
  return got + take_objects(static_cast<Page*>(seen.second), out + got, want - got);
}

template <class Policy>
std::size_t Cache<Policy>::bulk_from_cpu_partial(void** out, std::size_t want) noexcept {
  std::size_t got = 0;
  while (got < want) {
    Page* const slab = pop_cpu_partial();
    if (slab == nullptr) break;
    note(Event::cpu_partial_alloc);
    got += take_objects(slab, out + got, want - got);
  }
  return got;
}

// One taking of a lock for many slabs. Objects freed meanwhile can make the last of them
// superfluous.
template <class Policy>
std::size_t Cache<Policy>::bulk_from_node_partial(gfp_t gfp, void** out,
                                                  std::size_t want) noexcept {
  std::size_t got = 0;
  while (got < want) {
    Grab grab = grab_partials(gfp, no_node, want - got);
    if (grab.use.first == nullptr) break;
    while (got < want) {
      Page* const slab = grab.use.pop_front();
      if (slab == nullptr) break;
      got += take_objects(slab, out + got, want - got);
    }
    while (Page* slab = grab.use.pop_front()) put_node_partial(slab, End::head);
    keep_for_cpu(grab.extra);
  }
  return got;
}

// Objects of a new slab need no links but for those that nobody takes yet.
template <class Policy>
std::size_t Cache<Policy>::bulk_from_new_slabs(gfp_t gfp, void** out, std::size_t want) noexcept {
  std::size_t got = 0;
  while (got < want) {
    Page* const slab = new_slab(gfp, no_node);
    if (slab == nullptr) break;
    const SlabState state = state_of(slab);
    const auto taken = static_cast<unsigned>(std::min<std::size_t>(state.objects(), want - got));
    if (taken == state.objects()) set_state(slab, state.unfrozen());
    for (unsigned i = 0; i < taken; ++i) out[got + i] = object_at(slab, i);
    got += taken;
    if (taken != state.objects()) install(slab, link_objects(slab, taken));
  }
  return got;
}

// Up to want > 0 objects of a private slab. If that is all it has, the slab is full and nobody's
// from the moment its list is taken; if not, what is left becomes this CPU's list.
template <class Policy>
std::size_t Cache<Policy>::take_objects(Page* slab, void** out, std::size_t want) noexcept {
  SlabState seen;
  bool all;
  for (;;) {  // a failure is another's free()
    seen = state_of(slab);
    all = seen.free_objects() <= want;
    if (seen.inuse() == 0) {
      set_state(slab, seen.emptied(!all));
      break;
    }
    if (change_state(slab, seen, seen.emptied(!all))) break;
    note(Event::cmpxchg_double_fail);
  }
  if (all && seen.inuse() == 0) {  // by address: no link need be read
    for (unsigned i = 0; i < seen.objects(); ++i) out[i] = object_at(slab, i);
    return seen.objects();
  }
  const std::size_t taken = std::min<std::size_t>(want, seen.free_objects());
  void* object = seen.free_list;
  for (std::size_t i = 0; i < taken; ++i) {
    KMEM_ASSERT(is_object(slab, object));
    out[i] = object;
    object = load_link(object, link_);
  }
  KMEM_ASSERT(all == (object == nullptr));
  if (!all) install(slab, object);
  return taken;
}

template <class Policy>
std::size_t Cache<Policy>::count_owned(std::size_t n, void* const* objects) const noexcept {
  const auto range = [this](const Page* slab) { return range_of(slab); };
  return kmem::count_owned(this, divider_, range, n, objects);
}

// ---- Free ---------------------------------------------------------------------------------------

// Frees the objects at the front of the array that are of one slab. 0: the first is not ours, or
// repeated, or its run is so short that detach_run() should look for more of its slab.
template <class Policy>
std::size_t Cache<Policy>::free_run(std::size_t n, void** objects) noexcept {
  constexpr std::size_t least = 4;
  void* const first = objects[0];
  const Page* const page = pages::page_of(first);
  if (page->owner != this) return 0;
  Page* const slab = page->head;
  void* first_link = nullptr;
  const std::size_t run = link_owned(range_of(slab), divider_, link_, n, objects, first_link);
  if (run != n && (run < least || objects[run] == objects[run - 1])) [[unlikely]] {
    if (run > 1) store_link(first, link_, first_link);
    return 0;
  }
  void* const last = objects[run - 1];
  const percpu::Push push = cpus_.template fast_push<cpu_list>(first, last, slab, link_);
  if (push == percpu::Push::done) [[likely]]
    return note(Event::free_fastpath, run), run;
  if (push == percpu::Push::refused) {
    if (free_chain(slab, {first, last, run})) count(Event::free_slowpath, run);
    return run;
  }
  if (run > 1) store_link(first, link_, first_link);
  count(Event::free_slowpath);
  return report_double_free(slab, {first, first, 1}), 1;
}

template <class Policy>
std::size_t Cache<Policy>::free_bulk_checked(std::size_t n, void** objects) noexcept {
  std::size_t done = 0;
  while (done < n) {
    const std::size_t freed = free_run(n - done, objects + done);
    if (freed == 0) break;
    done += freed;
  }
  return done;
}

template <class Policy>
KMEM_SLOW void Cache<Policy>::free_bulk_slow(std::size_t n, void** objects) noexcept {
  std::size_t slow = 0;
  while (n > 0) {
    Page* const slab = pages::page_of(objects[n - 1])->head;
    Chain chain;
    n = detach_run(n, objects, slab, chain);
    if (free_chain(slab, chain)) slow += chain.count;
  }
  if (slow > 0) count(Event::free_slowpath, slow);
}

// Links the last object and those of its slab that lie before it, until the third stranger. The
// strangers move together at the front of the array; returns how many there are.
template <class Policy>
std::size_t Cache<Policy>::detach_run(std::size_t n, void** objects, Page* slab,
                                      Chain& chain) noexcept {
  constexpr int lookahead = 3;
  const char* const base = pages::address_of(slab);
  const std::size_t bytes = pages::block_bytes(slab);
  const std::size_t link = link_;
  void* const last = objects[n - 1];
  void* first = last;
  std::size_t count = 1;
  std::size_t left = n - 1;
  int strangers = 0;
  for (std::size_t i = left; i-- > 0;) {
    void* const object = objects[i];
    if (static_cast<std::size_t>(static_cast<char*>(object) - base) >= bytes) {
      if (++strangers == lookahead) break;
      continue;
    }
    objects[i] = objects[--left];
    if (object == first) [[unlikely]] {
      report_double_free(slab, {object, object, 1});
      continue;
    }
    store_link(object, link, first);
    first = object;
    ++count;
  }
  chain = {first, last, count};
  return left;
}

}  // namespace kmem::slub
