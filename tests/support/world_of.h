// World and AnyCache for one backend type: every member is one call.
#pragma once

#include "api/kmem.h"
#include "common/percpu/policies.h"
#include "tests/support/world.h"

namespace kmem::test {

template <SlabBackend B>
class CacheOf final : public AnyCache {
 public:
  explicit CacheOf(CacheFront<B>* cache) noexcept : cache_(cache) {}
  ~CacheOf() override { destroy(); }
  CacheOf(const CacheOf&) = delete;
  CacheOf& operator=(const CacheOf&) = delete;

  void* alloc(gfp_t gfp) noexcept override { return cache_->alloc(gfp); }
  void* alloc_node(gfp_t gfp, int node) noexcept override { return cache_->alloc_node(gfp, node); }
  void free(void* object) noexcept override { cache_->free(object); }
  bool alloc_bulk(gfp_t gfp, std::size_t n, void** objects) noexcept override {
    return cache_->alloc_bulk(gfp, n, objects);
  }
  void free_bulk(std::size_t n, void** objects) noexcept override { cache_->free_bulk(n, objects); }
  bool alloc_bulk_generic(gfp_t gfp, std::size_t n, void** objects) noexcept override {
    return cache_->alloc_bulk_generic(gfp, n, objects);
  }
  void free_bulk_generic(std::size_t n, void** objects) noexcept override {
    cache_->free_bulk_generic(n, objects);
  }

  bool owns(const void* object) const noexcept override { return cache_->owns(object); }
  bool shrink() noexcept override { return cache_->shrink(); }
  bool retune(const Tunables& tunables) noexcept override {
    return cache_->backend().retune(tunables);
  }
  Tunables tunables() noexcept override { return cache_->backend().tunables(); }
  CacheUsage usage() noexcept override { return cache_->backend().usage(); }
  PathCounts path_counts() noexcept override { return cache_->backend().path_counts(); }
  const char* validate() noexcept override { return cache_->backend().validate(); }
  void for_each_live(LiveVisitor visit, void* context) noexcept override {
    cache_->backend().for_each_live(visit, context);
  }
  const Geometry& geometry() noexcept override { return cache_->backend().geometry(); }
  const char* name() const noexcept override { return cache_->name(); }
  std::size_t object_bytes() const noexcept override { return cache_->object_bytes(); }
  const void* identity() const noexcept override { return cache_; }
  void destroy() noexcept override {
    Kmem<B>::destroy(cache_);
    cache_ = nullptr;
  }

 private:
  CacheFront<B>* cache_;
};

template <SlabBackend B>
class WorldOf final : public World {
 public:
  using K = Kmem<B>;
  using RunningOf = percpu::Running (*)() noexcept;

  WorldOf(const char* policy, RunningOf running) : World(policy), running_(running) {}

  CachePtr create(const CacheSpec& spec, const CreateOptions& options) const override {
    CacheFront<B>* cache = K::create(spec, options);
    return cache != nullptr ? std::make_unique<CacheOf<B>>(cache) : nullptr;
  }
  void destroy_null() const noexcept override { K::destroy(nullptr); }
  Geometry geometry(const CacheSpec& spec, unsigned cpus) const noexcept override {
    return B::geometry(spec, cpus);
  }

  void* kmalloc(std::size_t bytes, gfp_t gfp) const noexcept override {
    return K::kmalloc(bytes, gfp);
  }
  void* kmalloc_node(std::size_t bytes, gfp_t gfp, int node) const noexcept override {
    return K::kmalloc_node(bytes, gfp, node);
  }
  void* kvmalloc(std::size_t bytes, gfp_t gfp) const noexcept override {
    return K::kvmalloc(bytes, gfp);
  }
  void* krealloc(void* object, std::size_t bytes, gfp_t gfp) const noexcept override {
    return K::krealloc(object, bytes, gfp);
  }
  void kfree(void* object) const noexcept override { K::kfree(object); }
  void kfree_bulk(std::size_t n, void** objects) const noexcept override {
    K::kfree_bulk(n, objects);
  }
  std::size_t ksize(const void* object) const noexcept override { return K::ksize(object); }
  std::size_t size_roundup(std::size_t bytes) const noexcept override {
    return K::size_roundup(bytes);
  }
  int slabinfo(int fd) const noexcept override { return K::slabinfo(fd); }
  void shrink_all() const noexcept override {
    K::registry().for_each([](CacheFront<B>& cache) { cache.shrink(); });
  }

  KmallocClasses kmalloc_classes() const noexcept override { return B::kmalloc_classes; }
  bool merges_caches() const noexcept override { return B::merges_caches; }
  std::string backend() const override { return B::name; }
  percpu::Running running() const noexcept override { return running_(); }

 private:
  RunningOf running_;
};

// The world of Design<Policy>.
template <template <class> class Design, class Policy>
const World* world_under() {
  static const WorldOf<Design<Policy>> world(Policy::name, &Policy::running);
  return &world;
}

}  // namespace kmem::test
