// A SLQB cache on a scripted machine: the test says which CPU it is on.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "backends/slqb/slqb.h"
#include "common/pages/pages.h"
#include "common/percpu/policies.h"

namespace kmem::slqb {

using Cpu = unsigned;

class SlqbTest : public testing::Test {
 protected:
  using VirtualCache = Cache<percpu::Virtual>;

  static constexpr unsigned cpus = 4;
  virtual unsigned cpus_of_machine() const { return cpus; }

  void SetUp() override {
    percpu::set_virtual_machine(cpus_of_machine(), nodes_of_machine());
    percpu::enter_virtual_cpu(0);
  }
  void TearDown() override {
    if (!created_) return;
    EXPECT_STREQ(cache.validate(), nullptr);
    free_all();
    EXPECT_EQ(cache.destroy(), 0U);
  }
  virtual int nodes_of_machine() const { return 1; }

  // Objects of 512 bytes, 8 to a slab, unless told otherwise; queues of 8 objects, batches of 4.
  void create(CacheSpec spec = {.name = "test", .object_bytes = 512},
              Tunables queues = {.limit = 8, .batchcount = 4}) {
    ASSERT_TRUE(cache.create(spec));
    created_ = true;
    ASSERT_TRUE(cache.retune(queues));
  }
  void* alloc_on(Cpu cpu) {
    percpu::enter_virtual_cpu(cpu);
    void* object = cache.alloc(gfp::kernel);
    EXPECT_NE(object, nullptr);
    live_.push_back(object);
    return object;
  }
  std::vector<void*> alloc_on(Cpu cpu, std::size_t n) {
    std::vector<void*> objects;
    for (std::size_t i = 0; i < n; ++i) objects.push_back(alloc_on(cpu));
    return objects;
  }
  void free_on(Cpu cpu, void* object) {
    percpu::enter_virtual_cpu(cpu);
    std::erase(live_, object);
    ASSERT_TRUE(cache.owns(pages::page_of(object), object));
    cache.free(object, pages::page_of(object));
  }
  void free_on(Cpu cpu, const std::vector<void*>& objects) {
    for (void* object : objects) free_on(cpu, object);
  }
  void trim_on(Cpu cpu) {
    percpu::enter_virtual_cpu(cpu);
    cache.trim();
  }
  void free_all() {
    while (!live_.empty()) free_on(0, live_.back());
  }
  // The test frees, or leaks on purpose, what it was given.
  void forget_all() { live_.clear(); }
  void forget_cache() { created_ = false; }

  VirtualCache cache;

 private:
  std::vector<void*> live_;
  bool created_ = false;
};

}  // namespace kmem::slqb
