// Replays a program on one world. Two kinds of pass: footprint(), which starts from nothing and
// looks at the memory after every operation, and round(), which only takes the time.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/replay_world.h"
#include "bench/trace/cache_spec.h"

namespace kmem::bench {

// Live bytes by the program's own account, kept beside the allocator's.
class LiveBytes {
 public:
  explicit LiveBytes(const trace::Program& program) : program_(program) {}
  void follow(const trace::Op& op) noexcept {
    const trace::TracedCache& cache = program_.cache_of(op);
    const std::size_t sign =
        trace::allocates(op.kind) ? 1 : ~std::size_t{0};  // modulo 2^64: plus or minus one
    now.requested_bytes += sign * op.bytes;
    now.kernel_bytes += sign * cache.bytes_alloc;
    now.live_objects += sign;
    if (cache.is_kmalloc) now.live_kmalloc += sign;
  }
  Footprint now;

 private:
  const trace::Program& program_;
};

template <ReplayWorld W>
class WorldReplayBench final : public ReplayBench {
 public:
  WorldReplayBench(const trace::Program& program, const ReplayOptions& options)
      : program_(program), options_(options), objects_(program.objects) {
    for (trace::Site& site : sites_ = program.sites)
      if (!options.touch) site.gfp &= ~gfp::zero;
  }
  ~WorldReplayBench() override { destroy_caches(); }
  WorldReplayBench(const WorldReplayBench&) = delete;
  WorldReplayBench& operator=(const WorldReplayBench&) = delete;

  ReplayFootprint footprint() override;
  Sample round() override;

 private:
  using Op = trace::Op;

  void create_caches();
  void destroy_caches();
  void free_live();
  void start_over();
  bool perform(const Op& op) noexcept;
  void* allocate(const Op& op, const trace::Site& site) noexcept;
  bool take(const Op& op) noexcept;
  void give(const Op& op) noexcept;
  Footprint at_peak(std::size_t base_bytes);
  static void look(Footprint& footprint) {
    footprint.caches = W::snapshot();
    footprint.heap = W::heap();
  }
  void write_slabinfo() const;

  const trace::Program& program_;
  ReplayOptions options_;
  std::vector<trace::Site> sites_;
  std::vector<typename W::Cache*> caches_;  // null for the classes of kmalloc
  std::vector<void*> objects_;              // by number; null: not live, or it could not be had
  unsigned cpu_ = ~0u;
  std::uint64_t failed_ = 0;
};

template <ReplayWorld W>
void WorldReplayBench<W>::create_caches() {
  for (const trace::TracedCache& traced : program_.caches) {
    typename W::Cache* cache = nullptr;
    if (!traced.is_kmalloc) {
      cache = W::create(trace::spec_for(traced));
      if (cache == nullptr)
        throw std::runtime_error(fmt::format("cache {} of {} bytes cannot be created: {}",
                                             traced.name, traced.bytes_req, std::strerror(errno)));
    }
    caches_.push_back(cache);
  }
}

template <ReplayWorld W>
void WorldReplayBench<W>::destroy_caches() {
  free_live();
  for (typename W::Cache* cache : caches_)
    if (cache != nullptr) W::destroy(cache);
  caches_.clear();
}

template <ReplayWorld W>
void WorldReplayBench<W>::free_live() {
  for (void*& object : objects_) {
    if (object != nullptr) W::kfree(object);
    object = nullptr;
  }
}

template <ReplayWorld W>
void WorldReplayBench<W>::start_over() {
  destroy_caches();
  W::shrink_all();  // those of kmalloc live on
  failed_ = 0;
}

template <ReplayWorld W>
KMEM_FAST void* WorldReplayBench<W>::allocate(const Op& op, const trace::Site& site) noexcept {
  if (op.kind == trace::OpKind::kmalloc) return W::kmalloc(op.bytes, site.gfp, site.node);
  typename W::Cache* cache = caches_[site.cache];
  return site.node == no_node ? W::alloc(cache, site.gfp)
                              : W::alloc_node(cache, site.gfp, site.node);
}

template <ReplayWorld W>
KMEM_FAST bool WorldReplayBench<W>::take(const Op& op) noexcept {
  void* object = allocate(op, sites_[op.site]);
  objects_[op.object] = object;
  if (object == nullptr) [[unlikely]]
    return ++failed_, false;
  if (options_.touch) std::memset(object, static_cast<int>(op.object & 0xFF), op.bytes);
  return true;
}

template <ReplayWorld W>
KMEM_FAST void WorldReplayBench<W>::give(const Op& op) noexcept {
  void* object = std::exchange(objects_[op.object], nullptr);
  if (object == nullptr) [[unlikely]]
    return;  // it could not be had
  op.kind == trace::OpKind::kfree ? W::kfree(object)
                                  : W::free(caches_[sites_[op.site].cache], object);
}

// True if it took memory.
template <ReplayWorld W>
KMEM_FAST bool WorldReplayBench<W>::perform(const Op& op) noexcept {
  if (op.cpu != cpu_) percpu::enter_virtual_cpu(cpu_ = op.cpu);
  if (trace::allocates(op.kind)) return take(op);
  return give(op), false;
}

template <ReplayWorld W>
Sample WorldReplayBench<W>::round() {
  if (caches_.empty()) create_caches();
  free_live();
  percpu::enter_virtual_cpu(cpu_ = 0);
  const Stopwatch watch;
  for (const Op& op : program_.ops) perform(op);
  return watch.per_own_time(static_cast<double>(program_.ops.size()));
}

// The first pass finds the moment of the peak, the second looks at every cache then and at the end:
// under the Virtual policy both do exactly the same.
template <ReplayWorld W>
ReplayFootprint WorldReplayBench<W>::footprint() {
  start_over();
  const std::size_t base_bytes = W::page_bytes();
  ReplayFootprint result;
  result.peak = at_peak(base_bytes);
  start_over();
  create_caches();
  const PathCounts paths_before = W::paths();
  percpu::enter_virtual_cpu(cpu_ = 0);
  LiveBytes live(program_);
  for (std::size_t i = 0; i < program_.ops.size(); ++i) {
    perform(program_.ops[i]);
    live.follow(program_.ops[i]);
    if (i == result.peak.op) look(result.peak);
  }
  result.end = live.now;
  result.end.op = program_.ops.size() - 1;
  result.end.slab_bytes = W::page_bytes() - base_bytes;
  look(result.end);
  result.paths = W::paths() - paths_before;
  result.failed = failed_;
  if (!options_.slabinfo_out.empty()) write_slabinfo();
  return result;
}

template <ReplayWorld W>
Footprint WorldReplayBench<W>::at_peak(std::size_t base_bytes) {
  create_caches();
  percpu::enter_virtual_cpu(cpu_ = 0);
  LiveBytes live(program_);
  Footprint peak;
  for (std::size_t i = 0; i < program_.ops.size(); ++i) {
    const bool took = perform(program_.ops[i]);
    live.follow(program_.ops[i]);
    if (!took) continue;
    const std::size_t bytes = W::page_bytes() - base_bytes;
    if (bytes <= peak.slab_bytes) continue;
    peak = live.now;
    peak.op = i;
    peak.slab_bytes = bytes;
  }
  return peak;
}

template <ReplayWorld W>
void WorldReplayBench<W>::write_slabinfo() const {
  const int fd =
      ::open(options_.slabinfo_out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = fd >= 0 && W::slabinfo(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (!written)
    throw std::runtime_error(
        fmt::format("cannot write {}: {}", options_.slabinfo_out, std::strerror(errno)));
}

}  // namespace kmem::bench
