// The system under test, without its type: one backend under one policy, its caches and its
// kmalloc. The suites are compiled once against these interfaces; each backend adds one small file
// (worlds_*.cc) that instantiates world_of.h for its policies. What a call does behind the
// interface is what a program that includes api/kmem.h gets, inlined fast paths included.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/registry.h"
#include "common/percpu/sequences.h"

namespace kmem::test {

// A cache of some world; destroyed with the object, unless leak() is called.
class AnyCache {
 public:
  virtual ~AnyCache() = default;

  virtual void* alloc(gfp_t gfp = gfp::kernel) noexcept = 0;
  virtual void* alloc_node(gfp_t gfp, int node) noexcept = 0;
  virtual void free(void* object) noexcept = 0;
  virtual bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept = 0;
  virtual void free_bulk(std::size_t n, void** objects) noexcept = 0;
  virtual bool alloc_bulk_generic(gfp_t gfp, std::size_t n, void** objects) noexcept = 0;
  virtual void free_bulk_generic(std::size_t n, void** objects) noexcept = 0;

  virtual bool owns(const void* object) const noexcept = 0;
  virtual bool shrink() noexcept = 0;
  virtual bool retune(const Tunables& tunables) noexcept = 0;
  virtual Tunables tunables() noexcept = 0;
  virtual CacheUsage usage() noexcept = 0;
  virtual PathCounts path_counts() noexcept = 0;
  virtual const char* validate() noexcept = 0;
  virtual void for_each_live(LiveVisitor visit, void* context) noexcept = 0;
  virtual const Geometry& geometry() noexcept = 0;
  virtual const char* name() const noexcept = 0;
  virtual std::size_t object_bytes() const noexcept = 0;

  virtual const void* identity() const noexcept = 0;  // equal for aliases
  virtual void destroy() noexcept = 0;                // now; no call may follow

  std::size_t live_count() noexcept;
};
using CachePtr = std::unique_ptr<AnyCache>;

class World {
 public:
  virtual ~World() = default;

  virtual CachePtr create(const CacheSpec& spec, const CreateOptions& options = {}) const = 0;
  virtual void destroy_null() const noexcept = 0;
  virtual Geometry geometry(const CacheSpec& spec, unsigned cpus) const noexcept = 0;

  virtual void* kmalloc(std::size_t bytes, gfp_t gfp = gfp::kernel) const noexcept = 0;
  virtual void* kmalloc_node(std::size_t bytes, gfp_t gfp, int node) const noexcept = 0;
  virtual void* kvmalloc(std::size_t bytes, gfp_t gfp = gfp::kernel) const noexcept = 0;
  virtual void* krealloc(void* object, std::size_t bytes, gfp_t gfp) const noexcept = 0;
  virtual void kfree(void* object) const noexcept = 0;
  virtual void kfree_bulk(std::size_t n, void** objects) const noexcept = 0;
  virtual std::size_t ksize(const void* object) const noexcept = 0;
  virtual std::size_t size_roundup(std::size_t bytes) const noexcept = 0;
  virtual int slabinfo(int fd) const noexcept = 0;
  virtual void shrink_all() const noexcept = 0;  // every cache, those of kmalloc too

  virtual KmallocClasses kmalloc_classes() const noexcept = 0;
  virtual bool merges_caches() const noexcept = 0;
  virtual std::string backend() const = 0;
  virtual percpu::Running running() const noexcept = 0;

  // Only the policy Virtual obeys; elsewhere the system says which CPU it is.
  void enter_cpu(unsigned cpu) const noexcept {
    if (is_virtual()) percpu::enter_virtual_cpu(cpu);
  }
  bool is_virtual() const noexcept { return policy_ == "virtual"; }
  const std::string& policy() const noexcept { return policy_; }
  std::string name() const { return backend() + "_" + policy_; }

 protected:
  explicit World(const char* policy) : policy_(policy) {}

 private:
  std::string policy_;
};

// CPUs of the machine that Virtual pretends; nodes are those of the process.
inline constexpr unsigned virtual_cpus = 8;

// A CPU of the Virtual machine on node.
unsigned virtual_cpu_on(int node) noexcept;

// Every world linked into this program.
std::vector<const World*>& worlds();

struct RegisterWorlds {
  RegisterWorlds(std::initializer_list<const World*> more) {
    worlds().insert(worlds().end(), more);
  }
};

}  // namespace kmem::test
