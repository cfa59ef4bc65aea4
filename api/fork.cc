#include "api/fork.h"

#include <pthread.h>

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
  for_each_part([](ForkPart& part) { part.lock_caches(); });
  percpu::prepare_fork();
  for_each_part([](ForkPart& part) { part.lock_backends(); });
  pages::prepare_fork();
}

void after_fork() noexcept {
  pages::after_fork();
  for_each_part([](ForkPart& part) { part.unlock_backends(); });
  percpu::after_fork();
  for_each_part([](ForkPart& part) { part.unlock_caches(); });
  parts_lock.unranked().unlock();
}

}  // namespace

void join_fork(ForkPart& part) noexcept {
  Guard guard(parts_lock);
  if (parts.empty()) pthread_atfork(before_fork, after_fork, after_fork);
  parts.push_back(&part.link);
}

}  // namespace kmem
