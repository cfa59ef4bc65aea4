// The two fast paths of one backend, inlined into a program: counted by
// scripts/fast_path_instructions under callgrind, which collects inside the two marked functions
// only. Not a test by itself.
//
//   inline_probe OBJECTS     allocates OBJECTS objects, then frees them, after a warm-up of the
//   same
#include <cstdio>
#include <cstdlib>

#include "api/chosen_backend.h"

namespace {

constexpr std::size_t objects_max = 16;  // fewer than any design keeps in its per-CPU queue
void* objects[objects_max];

}  // namespace

// Out of line and unmangled, so that callgrind can be told their names.
extern "C" [[gnu::noinline]] void probe_alloc(kmem::CacheFront<kmem::Chosen>* cache,
                                              std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) objects[i] = cache->alloc(0);
}
extern "C" [[gnu::noinline]] void probe_free(kmem::CacheFront<kmem::Chosen>* cache, std::size_t n) {
  for (std::size_t i = n; i-- > 0;) cache->free(objects[i]);
}

int main(int argc, char** argv) {
  const std::size_t n = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0;
  if (n > objects_max) return std::fputs("inline_probe: at most 16 objects\n", stderr), 2;
  kmem::CacheSpec spec;
  spec.name = "probe";
  spec.object_bytes = 256;
  auto* cache = kmem::Kmem<kmem::Chosen>::create(spec);
  if (cache == nullptr) return 1;
  void* warm[objects_max];
  for (void*& object : warm) object = cache->alloc_single(0);
  for (void* object : warm) cache->free_single(object);
  probe_alloc(cache, n);
  probe_free(cache, n);
  kmem::Kmem<kmem::Chosen>::destroy(cache);
  return 0;
}
