// fork() in a threaded program: a child has one thread, and whatever the others had locked or half
// done is so for ever. Before a fork, all locks are therefore taken, in their order, and given back
// after it in both processes: the child finds every list whole and every lock free. Objects that
// other threads had in hand are lost to the child, as with any allocator.
#pragma once

#include "common/base/intrusive_list.h"

namespace kmem {

// A world's part. Static storage; all four are called with no allocation possible.
struct ForkPart {
  void (*lock_caches)() noexcept;    // the list of caches, and the making of size classes
  void (*lock_backends)() noexcept;  // after every CPU's state is at rest
  void (*unlock_backends)() noexcept;
  void (*unlock_caches)() noexcept;
  ListNode link{};
};

// Once a world, when its first cache is made.
void join_fork(ForkPart& part) noexcept;
// For what has no part of its own: memory pools. Any number of times.
void join_fork() noexcept;

}  // namespace kmem
