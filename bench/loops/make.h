// The one table of loops: which template does which work, over one world.
#pragma once

#include "bench/loops/bulk.h"
#include "bench/loops/fastpath.h"
#include "bench/loops/footprint.h"
#include "bench/loops/hackbench.h"
#include "bench/loops/node_line.h"
#include "bench/loops/remote.h"
#include "bench/loops/socket.h"

namespace kmem::bench {

// What a world may say of itself: `one_thread`, that its objects belong to one thread;
// `slow_hand_over`, that a free on another thread would take all day; `takes()`, which sizes it
// has.
template <ObjectWorld W>
bool is_declined(const Job& job) {
  if constexpr (requires { requires W::one_thread; })
    if (is_shared(job)) return true;
  if constexpr (requires { requires W::slow_hand_over; })
    if (is_handed_over(job)) return true;
  if constexpr (requires { W::takes(job.object_bytes); }) return !W::takes(job.object_bytes);
  return false;
}

// Null: the world has no such work.
template <ObjectWorld W>
std::unique_ptr<Loop> make_loop(const Job& job) {
  if (is_declined<W>(job)) return nullptr;
  switch (job.work) {
    case Work::bulk:
      return std::make_unique<BulkLoop<W>>(job);
    case Work::hackbench:
      if constexpr (KmallocWorld<W>) return std::make_unique<HackbenchLoop<W>>(job);
      break;
    case Work::remote:
      return std::make_unique<RemoteLoop<W>>(job);
    case Work::fastpath:
      if constexpr (KmallocWorld<W>) return std::make_unique<FastpathLoop<W>>(job);
      break;
    case Work::socket:
      return std::make_unique<SocketLoop<W>>(job);
    case Work::node_line:
      if constexpr (NodeWorld<W>) return std::make_unique<NodeLineLoop<W>>(job);
      break;
    case Work::footprint:
      return std::make_unique<FootprintLoop<W>>(job);
  }
  return nullptr;
}

}  // namespace kmem::bench
