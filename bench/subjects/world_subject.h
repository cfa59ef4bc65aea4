// A subject over a world of the library.
#pragma once

#include "bench/kmem_world.h"
#include "bench/loops/make.h"
#include "bench/replay_loop.h"
#include "bench/subjects.h"
#include "common/percpu/policies.h"

namespace kmem::bench {

template <SlabBackend B, class Policy>
class WorldSubject : public Subject {
 public:
  std::string name() const override { return B::name; }
  percpu::Running running() const override { return Policy::running(); }
  Geometry geometry(const CacheSpec& spec, unsigned cpus) const override {
    return B::geometry(spec, cpus);
  }
  std::unique_ptr<Loop> loop(const Job& job) const override { return make_loop<KmemWorld<B>>(job); }
  std::unique_ptr<ReplayBench> replay(const trace::Program& program,
                                      const ReplayOptions& options) const override {
    return std::make_unique<WorldReplayBench<KmemWorld<B>>>(program, options);
  }
};

// The policies that every per-CPU design runs under; null for another.
template <template <class> class Backend>
std::unique_ptr<Subject> make_under_policy(const std::string& policy) {
  using namespace percpu;
  if (policy == Rseq::name) return std::make_unique<WorldSubject<Backend<Rseq>, Rseq>>();
  if (policy == Locked::name) return std::make_unique<WorldSubject<Backend<Locked>, Locked>>();
  if (policy == Virtual::name) return std::make_unique<WorldSubject<Backend<Virtual>, Virtual>>();
  return nullptr;
}

}  // namespace kmem::bench
