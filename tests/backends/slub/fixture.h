// A SLUB cache on the Virtual policy: the test says which CPU it is on. Every test ends with a
// valid cache from which every object and page was given back.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/slub/slub.h"
#include "common/base/log.h"
#include "common/debug/report.h"
#include "common/nodes/topology.h"

namespace kmem::slub {

class VirtualSlub : public ::testing::Test {
 protected:
  using VirtualCache = Cache<percpu::Virtual>;
  static constexpr unsigned cpus = 4;

  static void SetUpTestSuite() { percpu::set_virtual_machine(cpus, nodes::count()); }
  void SetUp() override {
    on_cpu(0);
    set_log_hook([](void*, const char*) {}, nullptr);  // reports are counted, not printed
  }
  void TearDown() override {
    pages::fail_allocation(0);
    if (created_) {
      release(live_);
      EXPECT_EQ(cache_.validate(), nullptr);
      EXPECT_EQ(cache_.destroy(), 0u);
    }
    set_log_hook(nullptr, nullptr);
  }

  void create(std::size_t object_bytes, slab_flags_t flags = 0, Constructor ctor = nullptr) {
    CacheSpec spec;
    spec.name = "test";
    spec.object_bytes = object_bytes;
    spec.flags = flags;
    spec.ctor = ctor;
    ASSERT_TRUE(cache_.create(spec));
    created_ = true;
  }
  static void on_cpu(unsigned cpu) { percpu::enter_virtual_cpu(cpu); }

  unsigned objects() const { return cache_.geometry().objects; }
  static Page* slab_of(void* object) { return pages::page_of(object)->head; }
  void* alloc() {
    void* object = cache_.alloc(gfp::kernel);
    EXPECT_TRUE(object != nullptr && cache_.owns(pages::page_of(object), object));
    return object;
  }
  void free(void* object) { cache_.free(object, pages::page_of(object)); }
  void release(std::vector<void*>& objects) {
    for (void* object : objects) free(object);
    objects.clear();
  }
  std::uint64_t count(Event event) const { return cache_.event_count(event); }
  void expect_valid() { EXPECT_STREQ(cache_.validate(), nullptr); }

  // slabs full slabs, each one's objects together; given back at the end unless the test does.
  std::vector<std::vector<void*>> fill_slabs(unsigned slabs) {
    std::vector<std::vector<void*>> filled(slabs);
    for (auto& slab : filled) {
      for (unsigned i = 0; i < objects(); ++i) slab.push_back(alloc());
      EXPECT_EQ(slab_of(slab.front()), slab_of(slab.back()));
    }
    return filled;
  }
  void keep(const std::vector<void*>& objects) {
    live_.insert(live_.end(), objects.begin(), objects.end());
  }

  VirtualCache cache_;
  std::vector<void*> live_;
  bool created_ = false;
};

}  // namespace kmem::slub
