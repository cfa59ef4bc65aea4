// A SLAB cache on a virtual machine: one thread says which CPU it is on.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "backends/slab/slab.h"
#include "common/percpu/policies.h"

namespace kmem::slab {

using VirtualCache = Cache<percpu::Virtual>;

class SlabTest : public ::testing::Test {
 protected:
  static constexpr unsigned cpus = 4;

  // Fresh: nothing in any array.
  void start(const CacheSpec& spec, int nodes = 1) {
    percpu::set_virtual_machine(cpus, nodes);
    percpu::enter_virtual_cpu(0);
    ASSERT_TRUE(cache.create(spec));
    started_ = true;
  }
  void start(std::size_t bytes) { start({.name = "t", .object_bytes = bytes}); }

  void* alloc() { return cache.alloc(gfp::kernel); }
  void free(void* object) { cache.free(object, pages::page_of(object)); }
  std::vector<void*> alloc(std::size_t n) {
    std::vector<void*> objects(n);
    for (void*& object : objects) {
      object = alloc();
      EXPECT_NE(object, nullptr);
    }
    return objects;
  }
  void free(const std::vector<void*>& objects) {
    for (void* object : objects) free(object);
  }
  // n live objects and empty arrays.
  std::vector<void*> alloc_and_flush(std::size_t n) {
    std::vector<void*> objects = alloc(n);
    cache.shrink();
    return objects;
  }
  // Objects in use or in an array: what the slabs lack.
  std::size_t active() { return cache.usage().active_objects; }

  void TearDown() override {
    if (!started_) return;
    EXPECT_STREQ(cache.validate(), nullptr);
    EXPECT_EQ(cache.destroy(), 0U) << "every test frees what it takes";
  }

  VirtualCache cache;

 private:
  bool started_ = false;
};

}  // namespace kmem::slab
