#include "api/fork.h"

#include <pthread.h>

#include "api/mempool.h"
#include "common/pages/pages.h"
#include "common/percpu/sequences.h"
#include "common/sync/ranked_lock.h"

namespace kmem {
namespace {

constinit List parts;
constinit SpinLock parts_lock{LockRank::registry};

template <class F>
void for_each_part(F&& visit) noexcept {
  for (ListNode* node = parts.front(); node != nullptr; node = parts.after(node)) {
    visit(*reinterpret_cast<ForkPart*>(reinterpret_cast<char*>(node) - offsetof(ForkPart, link)));
  }
}

// In the order of common/sync/lock_rank.h.
void before_fork() noexcept {
  parts_lock.unranked().lock();
  Mempool::prepare_fork();
  for_each_part([](ForkPart& part) { part.lock_caches(); });
  percpu::prepare_fork();
  for_each_part([](ForkPart& part) { part.lock_backends(); });
  pages::prepare_fork();
}

void after_fork(bool in_child) noexcept {
  pages::after_fork();
  for_each_part([](ForkPart& part) { part.unlock_backends(); });
  percpu::after_fork();
  for_each_part([](ForkPart& part) { part.unlock_caches(); });
  Mempool::after_fork(in_child);
  parts_lock.unranked().unlock();
}

void in_parent() noexcept { after_fork(false); }
void in_child() noexcept { after_fork(true); }

// With parts_lock held.
void register_handlers() noexcept {
  static constinit bool registered = false;
  if (!registered) pthread_atfork(before_fork, in_parent, in_child);
  registered = true;
}

}  // namespace

void join_fork(ForkPart& part) noexcept {
  Guard guard(parts_lock);
  register_handlers();
  parts.push_back(&part.link);
}

void join_fork() noexcept {
  Guard guard(parts_lock);
  register_handlers();
}

}  // namespace kmem
