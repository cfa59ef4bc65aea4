// kmem-bench-dpdk: the loops of kmem-bench over DPDK's rte_mempool. Started by kmem-bench alone.
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/rivals/child_main.h"
#include "bench/rivals/stand_ins.h"

namespace kmem::bench {

namespace {

// Without huge pages a process has the memory that it asks for at the start, and no more.
constexpr const char* process_mib = "1024";
constexpr std::size_t pool_bytes_max = std::size_t{64} << 20;
// A pool's objects: the largest batch, and what the thread's cache may keep beside it (1.5 times
// its size); as many as the memory holds of larger ones, but enough for bulk's batches by default.
constexpr std::size_t pool_objects_max = 65536 + 1024, pool_objects_min = 2048;
constexpr std::size_t object_bytes_max = std::size_t{128} << 10;

int first_allowed_cpu(const cpu_set_t& allowed) {
  int cpu = 0;
  while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &allowed)) ++cpu;
  return cpu;
}

// One thread, this one, without huge pages, devices or files. Returns the greeting.
std::string start_eal() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  static_cast<void>(sched_getaffinity(0, sizeof allowed, &allowed));
  std::vector<std::string> options = {"kmem-bench-dpdk",
                                      "--no-huge",
                                      "--no-shconf",  // as --in-memory, which huge pages have
                                      "--no-pci",
                                      "--no-telemetry",
                                      "--log-level=1",
                                      "-m",
                                      process_mib,
                                      "--lcores",
                                      "0@" + std::to_string(first_allowed_cpu(allowed))};
  std::vector<char*> arguments;
  arguments.reserve(options.size() + 1);
  for (std::string& option : options) arguments.push_back(option.data());
  arguments.push_back(nullptr);
  if (rte_eal_init(static_cast<int>(options.size()), arguments.data()) < 0)
    throw std::runtime_error(std::string("EAL cannot start: ") + rte_strerror(rte_errno));
  // It has bound this thread to that CPU; other competitors run where the scheduler puts them.
  static_cast<void>(sched_setaffinity(0, sizeof allowed, &allowed));
  return "rte_mempool";
}

// Objects are aligned to cache lines, as is the library's default. Only a thread that EAL knows has
// a cache: the main thread.
struct MempoolWorld : LoopForBulk<MempoolWorld> {
  using Cache = rte_mempool;
  static constexpr bool one_thread = true;

  static bool takes(std::size_t bytes) { return bytes <= object_bytes_max; }

  static Cache* create(const CacheSpec& spec) {
    static unsigned count = 0;
    if (spec.align > RTE_CACHE_LINE_SIZE) return nullptr;
    const std::string name = "kmem-bench-" + std::to_string(count++);
    const std::size_t objects =
        std::clamp(pool_bytes_max / spec.object_bytes, pool_objects_min, pool_objects_max);
    return rte_mempool_create(name.c_str(), static_cast<unsigned>(objects),
                              static_cast<unsigned>(spec.object_bytes), RTE_MEMPOOL_CACHE_MAX_SIZE,
                              0, nullptr, nullptr, nullptr, nullptr, SOCKET_ID_ANY, 0);
  }
  static void destroy(Cache* cache) { rte_mempool_free(cache); }

  static void* alloc(Cache* cache, gfp_t gfp) {
    void* object = nullptr;
    if (rte_mempool_get(cache, &object) != 0) return nullptr;
    return cleared(object, cache->elt_size, gfp);
  }
  static void free(Cache* cache, void* object) { rte_mempool_put(cache, object); }

  static bool alloc_bulk(Cache* cache, gfp_t gfp, std::size_t n, void** objects) {
    if (rte_mempool_get_bulk(cache, objects, static_cast<unsigned>(n)) != 0) return false;
    if ((gfp & gfp::zero) != 0)
      for (std::size_t i = 0; i < n; ++i) cleared(objects[i], cache->elt_size, gfp);
    return true;
  }
  static void free_bulk(Cache* cache, std::size_t n, void** objects) {
    rte_mempool_put_bulk(cache, objects, static_cast<unsigned>(n));
  }
};

}  // namespace

}  // namespace kmem::bench

int main() {
  return kmem::bench::wire::child_main<kmem::bench::MempoolWorld>("kmem-bench-dpdk", "--rivals",
                                                                  kmem::bench::start_eal);
}
