#include <linux/membarrier.h>
#include <sched.h>
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

#if defined(KMEM_RSEQ_BUILT)
#include <sys/rseq.h>
#endif

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

namespace {

bool asked_for(const char* what) noexcept {
  const char* asked = std::getenv("KMEM_PERCPU");
  return asked != nullptr && std::strcmp(asked, what) == 0;
}

}  // namespace

bool register_membarrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
}

void restart_all_sequences() noexcept {
  [[maybe_unused]] const bool done =
      syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
  // Registered, it cannot fail; unregistered, there is one thread, and it is here.
  KMEM_ASSERT(done || asked_for("unregistered"));
}

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool built_for_tsan = true;
#elif defined(__has_feature)
constexpr bool built_for_tsan = __has_feature(thread_sanitizer);
#else
constexpr bool built_for_tsan = false;
#endif

// What start() found out. reason is why sequences run, or why not.
struct Decision {
  bool sequences;
  const char* reason;
};

void refuse_unknown_request() noexcept {
  const char* asked = std::getenv("KMEM_PERCPU");
  if (asked == nullptr || *asked == 0 || asked_for("rseq") || asked_for("locked")) return;
  if (asked_for("unregistered")) return;
  warn("KMEM_PERCPU=%s: not rseq or locked, ignored", asked);
}

#if defined(KMEM_RSEQ_BUILT)

// libc's area is there even where the kernel knows nothing of it.
bool registered(std::ptrdiff_t area) noexcept {
  const auto* words = reinterpret_cast<const struct rseq*>(
      static_cast<const char*>(__builtin_thread_pointer()) + area);
  return __rseq_size != 0 && static_cast<int>(words->cpu_id) >= 0;
}

Decision decide() noexcept {
  // In the fallback as well: a fast path's sequence writes rseq_cs before it finds the gate closed.
  rseq_area = __rseq_offset;
  refuse_unknown_request();
  if (asked_for("locked")) return {false, "forced by KMEM_PERCPU=locked"};
  if (built_for_tsan) return {false, "no rseq: ThreadSanitizer cannot see through it"};
  if (!registered(rseq_area)) {
    if (!asked_for("unregistered")) return {false, "no rseq: not registered by libc"};
    // For counting instructions under valgrind: right for a single thread that no signal handler
    // interrupts to allocate. All CPUs are then CPU 0.
    warn("KMEM_PERCPU=unregistered: sequences without rseq are for one thread only");
    return {true, "sequences without rseq, forced by KMEM_PERCPU=unregistered"};
  }
  if (!register_membarrier()) return {false, "no rseq: the kernel has no membarrier for it"};
  return {true, "glibc registered rseq and membarrier is there"};
}

#else

Decision decide() noexcept {
  refuse_unknown_request();
  return {false, "no rseq: no sequences for this architecture or libc"};
}

#endif

const Decision& decision() noexcept {
  static const Decision once = [] {
    const Decision decided = decide();
    use_sequences = decided.sequences;
    return decided;
  }();
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
  static_cast<void>(decision());
  return pages::start();
}

bool rseq_available() noexcept { return decision().sequences; }

Running Rseq::running() noexcept {
  return {"rseq", decision().sequences ? "rseq" : "locked", decision().reason};
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
