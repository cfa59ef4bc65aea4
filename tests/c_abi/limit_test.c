/* KMEM_LIMIT_BYTES, as a user sets it: allocation ends with NULL and ENOMEM within the limit, what
 * was got stays good, and what is freed serves again. Run with a limit of 4 MiB. */
#define _GNU_SOURCE
#include <sched.h>

#include <kmem/slab.h>

#include "check.h"

enum { object_bytes = 1000, limit_bytes = 4 << 20, most = limit_bytes / object_bytes };

static void* objects[most];

/* As many objects as there are to be had. */
static size_t fill_up(struct kmem_cache* cache) {
  size_t n = 0;
  errno = 0;
  while (n < most && (objects[n] = kmem_cache_alloc(cache, GFP_KERNEL)) != NULL) {
    memset(objects[n], (int)(n & 0xff), object_bytes);
    ++n;
  }
  return n;
}

/* What one CPU has freed is not another's to use: a thread that is moved finds less. */
static void stay_on_this_cpu(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

int main(void) {
  struct kmem_cache* cache = kmem_cache_create("limited", object_bytes, 0, SLAB_NO_MERGE, NULL);
  size_t n, i, again;
  CHECK(cache != NULL);
  stay_on_this_cpu();
  n = fill_up(cache);
  CHECK(errno == ENOMEM && n < most && n > most / 2);
  CHECK(kmalloc(KMALLOC_MAX_SIZE, GFP_KERNEL) == NULL && errno == ENOMEM);
  CHECK(kvmalloc(KMALLOC_MAX_SIZE + 1, GFP_KERNEL) == NULL && errno == ENOMEM);
  for (i = 0; i < n; ++i) {
    const unsigned char* at = objects[i];
    CHECK(at[0] == (i & 0xff) && at[object_bytes - 1] == (i & 0xff));
  }
  kmem_cache_free_bulk(cache, n, objects);
  again = fill_up(cache);
  CHECK(again >= n);
  kmem_cache_free_bulk(cache, again, objects);
  CHECK(kmem_cache_shrink(cache) == 0);
  objects[0] = kmalloc(limit_bytes / 2, GFP_KERNEL);
  CHECK(objects[0] != NULL);
  kfree(objects[0]);
  kmem_cache_destroy(cache);
  printf("%s: %lu objects of %d bytes within %d bytes, %d failed\n", kmem_backend_name(),
         (unsigned long)n, object_bytes, limit_bytes, failures);
  return failures != 0;
}
