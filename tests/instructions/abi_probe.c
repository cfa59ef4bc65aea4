/* The same through the C interface of a shared library: see inline_probe.cc. */
#include <kmem/slab.h>
#include <stdio.h>
#include <stdlib.h>

enum { objects_max = 16 };
static void* objects[objects_max];

__attribute__((noinline)) void probe_alloc(struct kmem_cache* cache, size_t n);
__attribute__((noinline)) void probe_free(struct kmem_cache* cache, size_t n);

void probe_alloc(struct kmem_cache* cache, size_t n) {
  for (size_t i = 0; i < n; ++i) objects[i] = kmem_cache_alloc(cache, 0);
}
void probe_free(struct kmem_cache* cache, size_t n) {
  for (size_t i = n; i-- > 0;) kmem_cache_free(cache, objects[i]);
}

int main(int argc, char** argv) {
  const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  if (n > objects_max) return fputs("abi_probe: at most 16 objects\n", stderr), 2;
  struct kmem_cache* cache = kmem_cache_create("probe", 256, 0, 0, NULL);
  if (cache == NULL) return 1;
  void* warm[objects_max];
  for (size_t i = 0; i < objects_max; ++i) warm[i] = kmem_cache_alloc(cache, 0);
  for (size_t i = 0; i < objects_max; ++i) kmem_cache_free(cache, warm[i]);
  probe_alloc(cache, n);
  probe_free(cache, n);
  kmem_cache_destroy(cache);
  return 0;
}
