// A SLOB cache as a whole: create, destroy, shrink, usage. Most of it is the heap's.
#pragma once

#include "backends/slob/slob.h"
#include "common/pages/pages.h"

namespace kmem::slob {

inline bool Cache::create(const CacheSpec& spec) noexcept {
  geometry_ = slob::geometry(spec);
  if (geometry_.objects == 0 || !pages::start()) return false;
  ctor_ = spec.ctor;
  name_ = spec.name;
  share_ = {};
  share_.cache = this;
  share_.request = cache_request(spec);
  share_.order = geometry_.order;
  share_.parks = (spec.flags & slab_flag::typesafe_by_rcu) != 0;
  share_.link_offset = link_offset(spec);
  heap().join(share_);
  return true;
}

// Parked objects go back: the caller has waited for readers.
inline std::size_t Cache::destroy() noexcept { return heap().leave(share_); }

// Never anything to do: a page goes when its last block does. Says so whatever remains, as Linux.
inline bool Cache::shrink() noexcept { return false; }

// Pages belong to no cache, but for those that are one object.
inline CacheUsage Cache::usage() const noexcept {
  const Heap::Counts objects = heap().objects_of(share_);
  CacheUsage usage{};
  usage.active_objects = objects.live;
  usage.total_objects = objects.live + objects.parked;
  if (share_.request.units != 0) return usage;
  usage.active_slabs = objects.live;
  usage.slabs = usage.total_objects;
  usage.slab_bytes = usage.slabs * geometry_.slot_bytes;
  return usage;
}

}  // namespace kmem::slob
