// The timed loop of the fast path's synchronisation, the shape of cmpxchg_local_2007: a burst of
// kmallocs, then as many kfrees; or, with a batch of one, pairs. Nothing touches the objects, but
// an allocator that keeps its free list in them does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "bench/loop.h"
#include "bench/world.h"

namespace kmem::bench {

// On the thread that calls. A pair gives back what it has just taken, most often one object: an
// operation waits for the stores of the one before. A burst's operations have other objects.
template <KmallocWorld W>
class FastpathLoop final : public Loop {
 public:
  explicit FastpathLoop(const Job& job) : bytes_(job.object_bytes) {}

  // The cost of one object allocated and freed. Values: of a burst, the cycles of one kmalloc and
  // of one kfree; of pairs none, since their halves are not timed apart.
  Outcome run(const Turn& turn) override {
    const std::size_t batch = std::max<std::size_t>(turn.batch, 1);
    const std::size_t passes = std::max<std::size_t>(turn.objects / batch, 1);
    if (batch == 1) return {run_pairs(passes), {}};
    return run_bursts(passes, batch);
  }

 private:
  [[noreturn]] static void no_memory() {
    throw std::runtime_error("no memory in the fastpath run");
  }

  [[gnu::noinline]] Sample run_pairs(std::size_t pairs) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < pairs; ++i) {
      void* object = W::kmalloc(bytes_, gfp::kernel, -1);
      if (object == nullptr) [[unlikely]]
        no_memory();
      asm volatile("" : "+r"(object) : : "memory");
      W::kfree(object);
    }
    return watch.per(static_cast<double>(pairs));
  }

  Outcome run_bursts(std::size_t passes, std::size_t batch) {
    std::vector<void*> objects(batch);
    Sample alloc, free;
    for (std::size_t i = 0; i < passes; ++i) {
      add(alloc, fill(objects));
      add(free, empty(objects, batch));
    }
    const double n = static_cast<double>(passes);
    return {{(alloc.cycles + free.cycles) / n, (alloc.ns + free.ns) / n},
            {alloc.cycles / n, free.cycles / n}};
  }
  static void add(Sample& sum, const Sample& one) noexcept {
    sum.cycles += one.cycles;
    sum.ns += one.ns;
  }

  [[gnu::noinline]] Sample fill(std::vector<void*>& objects) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects.size(); ++i) {
      objects[i] = W::kmalloc(bytes_, gfp::kernel, -1);
      if (objects[i] == nullptr) [[unlikely]] {
        empty(objects, i);
        no_memory();
      }
    }
    return watch.per(static_cast<double>(objects.size()));
  }

  // In the order in which they were allocated, as in 2007.
  [[gnu::noinline]] Sample empty(const std::vector<void*>& objects, std::size_t n) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < n; ++i) W::kfree(objects[i]);
    return watch.per(static_cast<double>(std::max<std::size_t>(n, 1)));
  }

  std::size_t bytes_;
};

}  // namespace kmem::bench
