/* Memory pools as a C11 program sees them: where elements come from and go, what is refused, the
 * ready-made pools. One thread; what needs more is in tests/unit/api/mempool_test.cc. */
#include <kmem/mempool.h>
#ifdef EOF
#error "<kmem/mempool.h> must not drag in stdio"
#endif

#include <stdlib.h>

#include "check.h"

/* A source that counts, remembers its last masks, and is empty when told. */
struct source {
  int left; /* elements that may still be had */
  int in_use;
  int calls, frees;
  gfp_t last_mask, all_masks;
};

static void* source_alloc(gfp_t gfp_mask, void* pool_data) {
  struct source* source = pool_data;
  ++source->calls;
  source->last_mask = gfp_mask;
  source->all_masks |= gfp_mask;
  if (source->left == 0) return NULL;
  --source->left;
  ++source->in_use;
  return malloc(32);
}

static void source_free(void* element, void* pool_data) {
  struct source* source = pool_data;
  ++source->frees;
  ++source->left;
  --source->in_use;
  free(element);
}

static mempool_t* make_pool(struct source* source, int min_nr) {
  mempool_t* pool = mempool_create(min_nr, source_alloc, source_free, source);
  CHECK(pool != NULL);
  return pool;
}

static void test_create_and_destroy(void) {
  struct source source = {.left = 100};
  struct source poor = {.left = 3};
  mempool_t* pool = make_pool(&source, 4);
  CHECK(source.calls == 4 && source.all_masks == GFP_KERNEL);
  CHECK(mempool_min_nr(pool) == 4 && mempool_curr_nr(pool) == 4);
  CHECK(mempool_waiting_nr(pool) == 0 && mempool_initialized(pool));
  mempool_destroy(pool);
  CHECK(source.in_use == 0 && source.frees == 4);

  pool = mempool_create_node(2, source_alloc, source_free, &source, GFP_NOIO, 0);
  CHECK(pool != NULL && source.last_mask == GFP_NOIO);
  mempool_destroy(pool);

  errno = 0;
  CHECK(mempool_create(4, source_alloc, source_free, &poor) == NULL && errno == ENOMEM);
  CHECK(poor.in_use == 0 && poor.frees == 3);
  mempool_destroy(NULL);
  mempool_exit(NULL);
  CHECK(!mempool_initialized(NULL) && mempool_curr_nr(NULL) == 0);
}

/* The source first, unwilling to wait or warn; then the reserve, last in first out. */
static void test_sources(void) {
  struct source source = {.left = 5};
  mempool_t* pool = make_pool(&source, 3);
  void *first, *second, *kept[3];
  int i;
  source.all_masks = 0;
  first = mempool_alloc(pool, GFP_KERNEL);
  second = mempool_alloc(pool, GFP_ATOMIC);
  CHECK(first != NULL && second != NULL && mempool_curr_nr(pool) == 3);
  CHECK((source.all_masks & (__GFP_DIRECT_RECLAIM | __GFP_IO)) == 0);
  CHECK((source.last_mask & (__GFP_NOWARN | __GFP_NORETRY | __GFP_NOMEMALLOC)) ==
        (__GFP_NOWARN | __GFP_NORETRY | __GFP_NOMEMALLOC));
  source.calls = 0;
  for (i = 0; i < 3; ++i) {
    kept[i] = mempool_alloc(pool, i == 1 ? GFP_NOWAIT : GFP_KERNEL);
    CHECK(kept[i] != NULL && mempool_curr_nr(pool) == 2 - i && source.calls == i + 1);
  }
  errno = 0;
  CHECK(mempool_alloc(pool, GFP_ATOMIC) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mempool_alloc(pool, GFP_NOWAIT) == NULL && errno == ENOMEM);
  CHECK((source.all_masks & __GFP_DIRECT_RECLAIM) == 0);

  mempool_free(first, pool);
  CHECK(mempool_curr_nr(pool) == 1 && source.frees == 0);
  CHECK(mempool_alloc(pool, GFP_NOWAIT) == first);
  mempool_free(first, pool);
  mempool_free(kept[0], pool);
  CHECK(mempool_alloc_preallocated(pool) == kept[0]);
  mempool_free(kept[0], pool);
  mempool_free(kept[1], pool);
  CHECK(mempool_curr_nr(pool) == 3 && source.frees == 0);
  mempool_free(kept[2], pool);
  mempool_free(second, pool);
  CHECK(mempool_curr_nr(pool) == 3 && source.frees == 2);
  mempool_free(NULL, pool);
  mempool_free(NULL, NULL);
  mempool_destroy(pool);
  CHECK(source.in_use == 0);
}

static void test_preallocated(void) {
  struct source source = {.left = 100};
  mempool_t* pool = make_pool(&source, 2);
  void *a, *b;
  source.calls = 0;
  a = mempool_alloc_preallocated(pool);
  b = mempool_alloc_preallocated(pool);
  CHECK(a != NULL && b != NULL && a != b && source.calls == 0);
  errno = 0;
  CHECK(mempool_alloc_preallocated(pool) == NULL && errno == ENOMEM && source.calls == 0);
  mempool_free(a, pool);
  mempool_free(b, pool);
  CHECK(mempool_curr_nr(pool) == 2 && source.frees == 0);
  mempool_destroy(pool);
}

/* A pool of none keeps one all the same. */
static void test_pool_of_none(void) {
  struct source source = {.left = 1};
  mempool_t* pool = make_pool(&source, 0);
  void *element, *slot = NULL;
  CHECK(mempool_min_nr(pool) == 0 && mempool_curr_nr(pool) == 1);
  element = mempool_alloc(pool, GFP_KERNEL);
  CHECK(element != NULL && mempool_alloc(pool, GFP_NOWAIT) == NULL);
  mempool_free(element, pool);
  CHECK(mempool_curr_nr(pool) == 1 && source.frees == 0);
  CHECK(mempool_alloc_bulk(pool, &slot, 1, 0) == 0 && slot == element);
  mempool_free(slot, pool);
  mempool_destroy(pool);
  CHECK(source.in_use == 0);
}

static void test_resize(void) {
  struct source source = {.left = 10};
  mempool_t* pool = make_pool(&source, 4);
  CHECK(mempool_resize(pool, 9) == 0 && mempool_min_nr(pool) == 9 && mempool_curr_nr(pool) == 9);
  CHECK(source.last_mask == GFP_KERNEL);
  CHECK(mempool_resize(pool, 2) == 0 && mempool_min_nr(pool) == 2 && mempool_curr_nr(pool) == 2);
  CHECK(source.in_use == 2 && source.frees == 7);
  CHECK(mempool_resize(pool, 2) == 0 && source.in_use == 2);
  /* What cannot be had now comes with the next frees. */
  source.left = 3;
  CHECK(mempool_resize(pool, 6) == 0 && mempool_min_nr(pool) == 6 && mempool_curr_nr(pool) == 5);
  mempool_free(malloc(32), pool);
  ++source.in_use;
  CHECK(mempool_curr_nr(pool) == 6);
  mempool_destroy(pool);
  CHECK(source.in_use == 0);
}

static void test_bulk(void) {
  struct source source = {.left = 12};
  mempool_t* pool = make_pool(&source, 8);
  void* elements[8] = {NULL};
  void *second, *more[6] = {NULL};
  int i;
  source.all_masks = 0;
  /* Four of the source's, four of the reserve's. */
  CHECK(mempool_alloc_bulk(pool, elements, 8, 0) == 0 && mempool_curr_nr(pool) == 4);
  CHECK((source.all_masks & __GFP_DIRECT_RECLAIM) == 0);
  for (i = 0; i < 8; ++i) CHECK(elements[i] != NULL);
  /* Only the empty slots are filled. */
  second = elements[2];
  mempool_free(elements[1], pool);
  mempool_free(elements[5], pool);
  elements[1] = elements[5] = NULL;
  CHECK(mempool_alloc_bulk(pool, elements, 8, 6) == 0 && elements[2] == second);
  CHECK(elements[1] != NULL && elements[5] != NULL && mempool_curr_nr(pool) == 4);
  CHECK(mempool_alloc_bulk(pool, elements, 8, 8) == 0 && mempool_alloc_bulk(pool, NULL, 0, 0) == 0);
  /* The reserve takes four; the rest stays the caller's. */
  CHECK(mempool_free_bulk(pool, elements, 8) == 4 && mempool_curr_nr(pool) == 8);
  CHECK(source.frees == 0);
  for (i = 4; i < 8; ++i) source_free(elements[i], &source);
  source.left = 0;
  CHECK(mempool_alloc_bulk(pool, more, 6, 0) == 0 && mempool_curr_nr(pool) == 2);
  mempool_free(more[0], pool);
  more[0] = NULL;
  CHECK(mempool_free_bulk(pool, more, 6) == 6 && mempool_curr_nr(pool) == 8);
  CHECK(mempool_free_bulk(pool, NULL, 0) == 0);
  mempool_destroy(pool);
  CHECK(source.in_use == 0);
}

static void construct(void* object) { memset(object, 1, 8); }

/* One line each, EINVAL, and nothing else happens. */
static void test_refused(void) {
  struct source source = {.left = 100};
  struct kmem_cache* built = kmem_cache_create("built", 64, 0, 0, construct);
  mempool_t* pool = make_pool(&source, 2);
  mempool_t none = {{0}};
  void* slots[3] = {NULL, NULL, NULL};
  const int calls = source.calls;
  int lines = 0;
#define REFUSED(call) (errno = 0, ++lines, CHECK((call) && errno == EINVAL))
  catch_lines();
  REFUSED(mempool_create(-1, source_alloc, source_free, &source) == NULL);
  REFUSED(mempool_create(MEMPOOL_MAX_NR + 1, source_alloc, source_free, &source) == NULL);
  REFUSED(mempool_create(2147483647, source_alloc, source_free, &source) == NULL);
  REFUSED(mempool_create(1, NULL, source_free, &source) == NULL);
  REFUSED(mempool_create(1, source_alloc, NULL, &source) == NULL);
  REFUSED(mempool_create_node(1, source_alloc, source_free, &source, GFP_KERNEL, 4711) == NULL);
  REFUSED(mempool_init(NULL, 1, source_alloc, source_free, &source) == -EINVAL);
  REFUSED(mempool_init(&none, -1, source_alloc, source_free, &source) == -EINVAL);
  REFUSED(mempool_create_slab_pool(1, NULL) == NULL);
  REFUSED(mempool_create_slab_pool(1, built) == NULL);
  REFUSED(mempool_create(1, mempool_alloc_slab, mempool_free_slab, built) == NULL);
  REFUSED(mempool_create_kmalloc_pool(1, 0) == NULL);
  REFUSED(mempool_create_kmalloc_pool(1, KMALLOC_MAX_SIZE + 1) == NULL);
  REFUSED(mempool_create_kmalloc_pool(1, SIZE_MAX) == NULL);
  REFUSED(mempool_create_page_pool(1, 11) == NULL);
  REFUSED(mempool_create_page_pool(1, -1) == NULL);
  REFUSED(mempool_resize(pool, 0) == -EINVAL);
  REFUSED(mempool_resize(pool, -5) == -EINVAL);
  REFUSED(mempool_resize(pool, MEMPOOL_MAX_NR + 1) == -EINVAL);
  REFUSED(mempool_alloc(pool, GFP_KERNEL | __GFP_ZERO) == NULL);
  REFUSED(mempool_alloc(pool, GFP_ATOMIC | __GFP_ZERO) == NULL);
  REFUSED(mempool_alloc(NULL, GFP_KERNEL) == NULL);
  REFUSED(mempool_alloc(&none, GFP_KERNEL) == NULL);
  REFUSED(mempool_alloc_preallocated(NULL) == NULL);
  REFUSED((mempool_free(&none, NULL), 1));
  REFUSED(mempool_alloc_bulk(pool, slots, 3, 0) == -EINVAL);
  REFUSED(mempool_alloc_bulk(pool, slots, 2, 1) == -EINVAL);
  REFUSED(mempool_alloc_bulk(pool, NULL, 2, 0) == -EINVAL);
  REFUSED(mempool_free_bulk(pool, NULL, 2) == 0);
  REFUSED(mempool_free_bulk(&none, slots, 2) == 0);
  REFUSED(mempool_resize(&none, 2) == -EINVAL);
  CHECK(lines_written(NULL) == lines);
  CHECK(!mempool_initialized(&none) && mempool_curr_nr(&none) == 0);
  mempool_exit(&none);
  mempool_destroy(&none);
  CHECK(source.calls == calls && mempool_curr_nr(pool) == 2);
  mempool_destroy(pool);
  kmem_cache_destroy(built);
}

/* All that a pool of ready-made functions does: bytes of each element are the caller's. */
static void use(mempool_t* pool, size_t bytes, size_t align) {
  void* elements[20];
  int i;
  CHECK(pool != NULL);
  if (pool == NULL) return;
  CHECK(mempool_curr_nr(pool) == mempool_min_nr(pool));
  for (i = 0; i < 20; ++i) {
    elements[i] = mempool_alloc(pool, GFP_KERNEL);
    CHECK(elements[i] != NULL && (uintptr_t)elements[i] % align == 0);
    CHECK(ksize(elements[i]) >= bytes);
    memset(elements[i], i, bytes);
  }
  for (i = 0; i < 20; ++i) {
    const unsigned char* at = elements[i];
    CHECK(at[0] == i && at[bytes - 1] == i);
    mempool_free(elements[i], pool);
  }
  CHECK(mempool_curr_nr(pool) == mempool_min_nr(pool));
}

static void test_ready_made(void) {
  struct kmem_cache* cache = kmem_cache_create("pooled", 200, 64, SLAB_NO_MERGE, NULL);
  mempool_t* pool = mempool_create_slab_pool(5, cache);
  mempool_t placed;
  const uint64_t errors = kmem_slab_errors();
  use(pool, 200, 64);
  mempool_destroy(pool);
  CHECK(mempool_init_slab_pool(&placed, 3, cache) == 0);
  use(&placed, 200, 64);
  mempool_exit(&placed);
  CHECK(!mempool_initialized(&placed));
  mempool_exit(&placed);
  kmem_cache_destroy(cache);

  pool = mempool_create_kmalloc_pool(5, 1024);
  use(pool, 1024, 1024);
  mempool_destroy(pool);
  pool = mempool_create_kmalloc_pool(1, 100000);
  use(pool, 100000, 4096);
  mempool_destroy(pool);
  CHECK(mempool_init_kmalloc_pool(&placed, 2, 40) == 0);
  use(&placed, 40, 8);
  mempool_exit(&placed);

  pool = mempool_create_page_pool(4, 0);
  use(pool, 4096, 4096);
  mempool_destroy(pool);
  CHECK(mempool_init_page_pool(&placed, 2, 3) == 0);
  use(&placed, 8 * 4096, 8 * 4096);
  mempool_exit(&placed);

  CHECK(mempool_init_node(&placed, 2, mempool_kmalloc, mempool_kfree, (void*)64, GFP_KERNEL,
                          NUMA_NO_NODE) == 0);
  use(&placed, 64, 64);
  mempool_exit(&placed);
  CHECK(kmem_slab_errors() == errors);
}

int main(int argc, char** argv) {
  CHECK(argc == 2 && strcmp(kmem_backend_name(), argv[argc - 1]) == 0);
  test_create_and_destroy();
  test_sources();
  test_preallocated();
  test_pool_of_none();
  test_resize();
  test_bulk();
  test_refused();
  test_ready_made();
  printf("pools over %s: %d failed\n", argv[argc - 1], failures);
  return failures != 0;
}
