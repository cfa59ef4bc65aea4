#include <linux/membarrier.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/pages/pages.h"
#include "common/percpu/membarrier.h"
#include "common/percpu/policies.h"
#include "common/percpu/slot_lock.h"

namespace kmem::percpu {

constinit thread_local bool in_slot = false;
constinit thread_local unsigned virtual_cpu = 0;

void lock_slot_contended(std::atomic_ref<std::uint32_t> word) noexcept {
  // The holder may have been preempted: spin for a few of its operations, then let it run.
  for (unsigned spins = 0;; ++spins) {
    if (spins % 128 == 127) sched_yield();
    if (word.load(std::memory_order_relaxed) != 0) continue;
    // Acquire: as in lock_slot().
    if (word.exchange(1, std::memory_order_acquire) == 0) return;
  }
}

std::ptrdiff_t rseq_area = 0;
bool use_sequences = false;

unsigned ask_current_cpu() noexcept {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<unsigned>(cpu);
}

bool register_membarrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
}

void restart_all_sequences() noexcept {
  [[maybe_unused]] const long failed =
      syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
  KMEM_ASSERT(failed == 0);  // registered: it has no other way to fail
}

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool built_for_tsan = true;
#elif defined(__has_feature)
constexpr bool built_for_tsan = __has_feature(thread_sanitizer);
#else
constexpr bool built_for_tsan = false;
#endif

// Why sequences cannot be used; null: they can.
const char* why_not_rseq() noexcept {
#if !defined(__x86_64__)
  return "no rseq: no sequences for this architecture";
#else
  if (const char* forced = std::getenv("KMEM_PERCPU"); forced != nullptr && *forced != 0) {
    if (std::strcmp(forced, "locked") == 0) return "forced by KMEM_PERCPU=locked";
    // For counting instructions under valgrind: right for a single thread that no signal handler
    // interrupts to allocate. All CPUs are then CPU 0.
    if (std::strcmp(forced, "unregistered") == 0) return nullptr;
    if (std::strcmp(forced, "rseq") != 0)
      warn("KMEM_PERCPU=%s: not rseq or locked, ignored", forced);
  }
  if (built_for_tsan) return "no rseq: ThreadSanitizer cannot see through it";
  if (__rseq_size == 0) return "no rseq: not registered by libc";
  const auto* area = reinterpret_cast<const struct rseq*>(
      static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset);
  if (static_cast<int>(area->cpu_id) < 0) return "no rseq: not registered for this thread";
  if (!register_membarrier()) return "no rseq: the kernel has no membarrier for it";
  return nullptr;
#endif
}

constexpr const char* is_available = "glibc registered rseq and membarrier is there";

struct Started {
  const char* reason = why_not_rseq();
  Started() noexcept {
    rseq_area = __rseq_offset;
    use_sequences = reason == nullptr;
  }
};
const Started& started() noexcept {
  static const Started once;
  return once;
}

struct VirtualMachine {
  std::atomic<unsigned> cpus{64};
  std::atomic<int> nodes{0};  // 0: as many as the real machine has
};
constinit VirtualMachine machine;

int virtual_nodes() noexcept {
  const int nodes = machine.nodes.load(std::memory_order_relaxed);
  return nodes > 0 ? nodes : nodes::count();
}

}  // namespace

bool start() noexcept {
  static_cast<void>(started());
  return pages::start();
}

bool rseq_available() noexcept { return started().reason == nullptr; }

Running Rseq::running() noexcept {
  const char* reason = started().reason;
  if (reason != nullptr) return {"rseq", "locked", reason};
  return {"rseq", "rseq", is_available};
}
Running Locked::running() noexcept { return {"locked", "locked", "asked for"}; }
Running Virtual::running() noexcept { return {"virtual", "virtual", "asked for"}; }
Running Atomic::running() noexcept { return {"atomic", "atomic", "asked for"}; }

void set_virtual_machine(unsigned cpus, int nodes) noexcept {
  KMEM_ASSERT(cpus >= 1 && cpus <= 4096 && nodes >= 0 && nodes <= nodes::max_nodes);
  machine.cpus.store(cpus, std::memory_order_relaxed);
  machine.nodes.store(nodes, std::memory_order_relaxed);
}

void enter_virtual_cpu(unsigned cpu) noexcept { virtual_cpu = cpu; }

unsigned VirtualCpu::cpus() noexcept { return machine.cpus.load(std::memory_order_relaxed); }

// Equal runs of CPUs, as KMEM_FAKE_NODES makes them; nodes that are left over have memory only.
int VirtualCpu::node_of(unsigned cpu) noexcept {
  const auto nodes = static_cast<unsigned>(virtual_nodes());
  const unsigned run = (cpus() + nodes - 1) / nodes;
  return static_cast<int>(cpu / run);
}

}  // namespace kmem::percpu
