#include "tests/support/world.h"

#include "common/nodes/topology.h"

namespace kmem::test {

std::size_t AnyCache::live_count() noexcept {
  std::size_t count = 0;
  for_each_live([](void* context, void*, std::size_t) { ++*static_cast<std::size_t*>(context); },
                &count);
  return count;
}

// CPU ids are split in equal runs, one a node.
unsigned virtual_cpu_on(int node) noexcept {
  return static_cast<unsigned>(node) * (virtual_cpus / static_cast<unsigned>(nodes::count()));
}

std::vector<const World*>& worlds() {
  static std::vector<const World*> all;
  return all;
}

}  // namespace kmem::test
