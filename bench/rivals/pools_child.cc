// kmem-bench-pools POOL: the loops of kmem-bench over an object pool of Boost or of the C++
// library. Started by kmem-bench alone.
#include <cstdio>
#include <memory_resource>
#include <string>

#include "bench/rivals/boost_worlds.h"
#include "bench/rivals/child_main.h"
#include "bench/rivals/pmr_world.h"

namespace kmem::bench {

namespace {

constexpr const char* program = "kmem-bench-pools";

template <ObjectWorld W>
int serve_pool(const std::string& name) {
  return wire::child_main<W>(program, "--rivals", [&] { return name; });
}

struct Pool {
  const char* name;
  int (*serve)(const std::string& name);
};
constexpr Pool pools[] = {
    {"boost-pool", serve_pool<BoostPoolWorld>},
    {"boost-singleton-pool", serve_pool<BoostSingletonWorld>},
    {"pmr", serve_pool<PmrWorld<std::pmr::unsynchronized_pool_resource>>},
    {"pmr-synchronized", serve_pool<PmrWorld<std::pmr::synchronized_pool_resource>>}};

int run_program(int argc, const char* const* argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  for (const Pool& pool : pools)
    if (name == pool.name) return pool.serve(name);
  std::fprintf(stderr, "%s: takes the name of one pool, from kmem-bench --rivals\n", program);
  return 2;
}

}  // namespace

}  // namespace kmem::bench

int main(int argc, char** argv) { return kmem::bench::run_program(argc, argv); }
