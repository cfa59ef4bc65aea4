// main() of the suites: says the seed and what runs, before anything can fail.
#include <gtest/gtest.h>

#include <cstdio>

#include "common/nodes/topology.h"
#include "common/percpu/sequences.h"
#include "tests/support/random.h"
#include "tests/support/world.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  kmem::percpu::start();
  kmem::percpu::set_virtual_machine(kmem::test::virtual_cpus, kmem::nodes::count());
  std::printf("KMEM_TEST_SEED=%llu, nodes: %d%s\n",
              static_cast<unsigned long long>(kmem::test::process_seed()), kmem::nodes::count(),
              kmem::nodes::faked() ? " (faked)" : "");
  for (const auto* world : kmem::test::worlds()) {
    const auto running = world->running();
    std::printf("%s: %s serves, %s\n", world->name().c_str(), running.running, running.reason);
  }
  const int failed = RUN_ALL_TESTS();
  const auto* run = ::testing::UnitTest::GetInstance();
  if (run->test_to_run_count() != 0 || ::testing::FLAGS_gtest_list_tests) return failed;
  std::printf("no test matches the filter\n");  // a backend that is not linked must not pass
  return 1;
}
