/* The C interface as a C11 program sees it: every create form, every function, what is refused.
 * Linked with each libkmem-*; compiled with -Wall -Wextra -Werror -pedantic. */
#include <kmem/slab.h>
#ifdef EOF
#error "<kmem/slab.h> must not drag in stdio"
#endif

#include <stdalign.h>

#include "check.h"

struct dentry {
  char name[40];
  long inode;
};

struct alignas_line {
  alignas(64) char bytes[70];
};

static void construct(void* object) { memset(object, 0x5c, 48); }

static int is_filled(const void* object, int value, size_t bytes) {
  const unsigned char* at = object;
  size_t i;
  for (i = 0; i < bytes; ++i) {
    if (at[i] != value) return 0;
  }
  return 1;
}

static void use(struct kmem_cache* cache, size_t bytes) {
  void* object = kmem_cache_alloc(cache, GFP_KERNEL);
  CHECK(object != NULL);
  memset(object, 1, bytes);
  kmem_cache_free(cache, object);
  object = kmem_cache_zalloc(cache, GFP_KERNEL);
  CHECK(object != NULL && is_filled(object, 0, bytes));
  kmem_cache_free(cache, object);
}

static void test_create_forms(void) {
  struct kmem_cache_args args = {.align = 32};
  const struct kmem_cache_args constant = {.align = 64, .sheaf_capacity = 32};
  struct kmem_cache_args* none = NULL;
  struct kmem_cache* cache;
  size_t align = 16;

  cache = kmem_cache_create("five", 100, 0, SLAB_HWCACHE_ALIGN, NULL);
  CHECK(cache != NULL && kmem_cache_size(cache) == 100);
  use(cache, 100);
  kmem_cache_destroy(cache);

  cache = kmem_cache_create("five-variable", 100, align, 0, construct);
  CHECK(cache != NULL);
  kmem_cache_destroy(cache);

  cache = kmem_cache_create("args", 100, &args, SLAB_NO_MERGE);
  CHECK(cache != NULL);
  use(cache, 100);
  kmem_cache_destroy(cache);

  cache = kmem_cache_create("const-args", 100, &constant, 0);
  CHECK(cache != NULL);
  use(cache, 100);
  kmem_cache_destroy(cache);

  cache = kmem_cache_create("null-args", 100, NULL, 0);
  CHECK(cache != NULL);
  use(cache, 100);
  kmem_cache_destroy(cache);

  cache = kmem_cache_create("typed-null-args", 100, none, 0);
  CHECK(cache != NULL);
  kmem_cache_destroy(cache);

  cache = kmem_cache_create_usercopy("usercopy", 100, 0, 0, 8, 32, NULL);
  CHECK(cache != NULL);
  use(cache, 100);
  kmem_cache_destroy(cache);

  cache = KMEM_CACHE(dentry, SLAB_RECLAIM_ACCOUNT);
  CHECK(cache != NULL && kmem_cache_size(cache) == sizeof(struct dentry));
  use(cache, sizeof(struct dentry));
  kmem_cache_destroy(cache);

  cache = KMEM_CACHE(alignas_line, 0);
  CHECK(cache != NULL);
  {
    void* object = kmem_cache_alloc(cache, GFP_KERNEL);
    CHECK((uintptr_t)object % 64 == 0);
    kmem_cache_free(cache, object);
  }
  kmem_cache_destroy(cache);
  kmem_cache_destroy(NULL);
  CHECK(kmem_cache_size(NULL) == 0);
}

/* Each of these: NULL, EINVAL, one line. */
static void expect_refused(struct kmem_cache* cache, int line) {
  const int error = errno;
  const int lines = lines_written(NULL);
  if (cache == NULL && error == EINVAL && lines == 1) return;
  ++failures;
  printf("create refused at line %d: cache %p, errno %d, %d lines\n", line, (void*)cache, error,
         lines);
}
#define REFUSED(call) (catch_lines(), errno = 0, expect_refused((call), __LINE__))

static void test_refused(void) {
  struct kmem_cache_args bad_align = {.align = 24};
  struct kmem_cache_args bad_offset = {.use_freeptr_offset = true, .freeptr_offset = 8};
  REFUSED(kmem_cache_create("zero", 0, 0, 0, NULL));
  REFUSED(kmem_cache_create("over", KMALLOC_MAX_SIZE + 1, 0, 0, NULL));
  REFUSED(kmem_cache_create("align", 64, 3, 0, NULL));
  REFUSED(kmem_cache_create("align", 64, KMEM_CACHE_MAX_ALIGN * 2, 0, NULL));
  REFUSED(kmem_cache_create("align", 64, (size_t)1 << 40, 0, NULL));
  REFUSED(kmem_cache_create("align", 64, &bad_align, 0));
  REFUSED(kmem_cache_create("offset", 64, &bad_offset, 0));
  REFUSED(kmem_cache_create("flags", 64, 0, (slab_flags_t)1 << 31, NULL));
  REFUSED(kmem_cache_create("flags", 64, 0, (slab_flags_t)0x1000, NULL));
  REFUSED(kmem_cache_create(NULL, 64, 0, 0, NULL));
  REFUSED(kmem_cache_create_usercopy("zero", 0, 0, 0, 0, 0, NULL));

  /* A user region outside of the object is ignored, with a warning. */
  catch_lines();
  {
    struct kmem_cache* cache = kmem_cache_create_usercopy("region", 64, 0, 0, 60, 10, NULL);
    CHECK(cache != NULL);
    kmem_cache_destroy(cache);
  }
  CHECK(lines_written(NULL) == 1);
}

static void test_bulk(void) {
  struct kmem_cache* cache = kmem_cache_create("bulk", 48, 0, SLAB_NO_MERGE, construct);
  void* objects[100];
  int bugs;
  size_t i;
  CHECK(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 0, objects));
  CHECK(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 100, objects));
  for (i = 0; i < 100; ++i) CHECK(is_filled(objects[i], 0x5c, 48));
  kmem_cache_free_bulk(cache, 100, objects);
  CHECK(__kmem_cache_alloc_bulk(cache, GFP_KERNEL, 100, objects));
  for (i = 0; i < 100; ++i) CHECK(is_filled(objects[i], 0x5c, 48));
  __kmem_cache_free_bulk(cache, 50, objects);
  kmem_cache_free_bulk(NULL, 25, objects + 50);
  kfree_bulk(25, objects + 75);

  catch_lines();
  errno = 0;
  CHECK(!kmem_cache_alloc_bulk(cache, GFP_KERNEL, SIZE_MAX / 2, objects) && errno == EINVAL);
  errno = 0;
  CHECK(!__kmem_cache_alloc_bulk(cache, GFP_KERNEL, SIZE_MAX, objects) && errno == EINVAL);
  errno = 0;
  kmem_cache_free_bulk(cache, SIZE_MAX, objects);
  CHECK(errno == EINVAL);
  errno = 0;
  kmem_cache_free_bulk(NULL, SIZE_MAX, objects);
  CHECK(errno == EINVAL);
  CHECK(lines_written(&bugs) == 4 && bugs == 0);

  objects[0] = kmem_cache_alloc(cache, GFP_KERNEL);
  objects[1] = kmalloc(100, GFP_KERNEL);
  objects[2] = NULL;
  objects[3] = ZERO_SIZE_PTR;
  objects[4] = kmalloc(100000, GFP_KERNEL);
  objects[5] = kvmalloc(KMALLOC_MAX_SIZE + 1, GFP_KERNEL);
  kfree_bulk(6, objects);
  kmem_cache_free(NULL, kmem_cache_alloc(cache, GFP_KERNEL));
  kmem_cache_free(NULL, kmalloc(10, GFP_KERNEL));
  kmem_cache_free(NULL, NULL);
  CHECK(kmem_cache_shrink(cache) == 0);
  kmem_cache_destroy(cache);
}

static void test_nodes(void) {
  struct kmem_cache* cache = kmem_cache_create("nodes", 48, 0, 0, NULL);
  void* object = kmem_cache_alloc_node(cache, GFP_KERNEL | __GFP_THISNODE, 0);
  CHECK(object != NULL);
  kmem_cache_free(cache, object);
  object = kmem_cache_alloc_node(cache, GFP_KERNEL, NUMA_NO_NODE);
  CHECK(object != NULL);
  kmem_cache_free(cache, object);
  catch_lines();
  errno = 0;
  CHECK(kmem_cache_alloc_node(cache, GFP_KERNEL, 63) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(kmalloc_node(8, GFP_KERNEL, -2) == NULL && errno == EINVAL);
  CHECK(lines_written(NULL) == 2);
  object = kzalloc_node(1000, GFP_KERNEL, 0);
  CHECK(object != NULL && is_filled(object, 0, 1000));
  kfree(object);
  kmem_cache_destroy(cache);
}

static void test_kmalloc(void) {
  const size_t half = SIZE_MAX / 2 + 1;
  char* text;
  char* block = kmalloc(100, GFP_KERNEL);
  CHECK(block != NULL && ksize(block) >= 100);
  memset(block, 7, 100);
  block = krealloc(block, 5000, GFP_KERNEL);
  CHECK(block != NULL && is_filled(block, 7, 100));
  block = krealloc_array(block, 10, 1000, GFP_KERNEL);
  CHECK(block != NULL && is_filled(block, 7, 100));
  errno = 0;
  CHECK(krealloc_array(block, half, 2, GFP_KERNEL) == NULL && errno == ENOMEM);
  CHECK(is_filled(block, 7, 100));
  kfree_sensitive(block);
  kfree_sensitive(NULL);
  kfree(NULL);
  kfree(ZERO_SIZE_PTR);
  CHECK(kmalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR && ZERO_OR_NULL_PTR(kzalloc(0, GFP_KERNEL)));
  CHECK(ZERO_OR_NULL_PTR(NULL) && !ZERO_OR_NULL_PTR(&text));

  block = kcalloc(10, 100, GFP_KERNEL);
  CHECK(block != NULL && is_filled(block, 0, 1000));
  kfree(block);
  block = kmalloc_array(10, 100, GFP_KERNEL);
  CHECK(block != NULL);
  kvfree(block);
  catch_lines();
  errno = 0;
  CHECK(kmalloc_array(half, 2, GFP_KERNEL) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(kcalloc(SIZE_MAX, SIZE_MAX, GFP_KERNEL) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(kvcalloc(half, 3, GFP_KERNEL) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(kvmalloc_array(3, half, GFP_KERNEL) == NULL && errno == ENOMEM);
  CHECK(lines_written(NULL) == 0);
  catch_lines();
  errno = 0;
  CHECK(kmalloc(KMALLOC_MAX_SIZE + 1, GFP_KERNEL) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(kvmalloc(KVMALLOC_MAX_SIZE + 1, GFP_KERNEL) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(kmalloc(SIZE_MAX, GFP_KERNEL | __GFP_NOWARN) == NULL && errno == EINVAL);
  CHECK(lines_written(NULL) == 2);

  block = kvzalloc(KMALLOC_MAX_SIZE + 100, GFP_KERNEL);
  CHECK(block != NULL && block[KMALLOC_MAX_SIZE + 99] == 0);
  kvfree(block);
  block = kvcalloc(3, 1000, GFP_KERNEL);
  CHECK(block != NULL && is_filled(block, 0, 3000));
  kvfree(block);
  block = kvmalloc_array(3, 1000, GFP_KERNEL);
  CHECK(block != NULL);
  kvfree(block);
  CHECK(kmalloc_size_roundup(0) == 0 && kmalloc_size_roundup(100) >= 100);
  CHECK(kmalloc_size_roundup(KMALLOC_MAX_SIZE + 1) == KMALLOC_MAX_SIZE + 1);

  text = kstrdup("allocator", GFP_KERNEL);
  CHECK(text != NULL && strcmp(text, "allocator") == 0);
  block = kmemdup(text, 5, GFP_KERNEL);
  CHECK(block != NULL && memcmp(block, "alloc", 5) == 0);
  CHECK(kstrdup(NULL, GFP_KERNEL) == NULL);
  CHECK(kmemdup(text, 0, GFP_KERNEL) == ZERO_SIZE_PTR);
  kfree(text);
  kfree(block);
}

/* Zeroed before it is freed: seen through the next owner of a constructed cache's memory. */
static void test_sensitive(void) {
  struct kmem_cache* cache =
      kmem_cache_create("secrets", 256, NULL, SLAB_NO_MERGE | SLAB_TYPESAFE_BY_RCU);
  unsigned char* secret = kmem_cache_alloc(cache, GFP_KERNEL);
  size_t i, seen = 0;
  memset(secret, 0xa7, 256);
  kfree_sensitive(secret);
  for (i = 0; i < 256; ++i) seen += secret[i] == 0xa7; /* stale, but still this cache's memory */
  CHECK(seen < 16);                                    /* a link may stand there by chance */
  kmem_cache_destroy(cache);
}

static void test_misuse(void) {
  struct kmem_cache* mine = kmem_cache_create("mine", 64, 0, SLAB_NO_MERGE, NULL);
  struct kmem_cache* theirs = kmem_cache_create("theirs", 64, 0, SLAB_NO_MERGE, NULL);
  char* object = kmem_cache_alloc(theirs, GFP_KERNEL);
  const uint64_t before = kmem_slab_errors();
  int local, bugs;
  catch_lines();
  kmem_cache_free(mine, object);
  kmem_cache_free(theirs, object + 8);
  kmem_cache_free(theirs, &local);
  kfree(&local);
  kmem_cache_free(theirs, object);
  kmem_cache_free(theirs, object);
  lines_written(&bugs);
  CHECK(bugs == 5);
  CHECK(kmem_slab_errors() == before + 5);

  object = kmem_cache_alloc(mine, GFP_KERNEL);
  catch_lines();
  kmem_cache_destroy(mine);
  lines_written(&bugs);
  CHECK(bugs == 1);
  memset(object, 1, 64);
  catch_lines();
  kfree(object);
  kmem_cache_free(theirs, object);
  lines_written(&bugs);
  CHECK(bugs == 2);
  kmem_cache_destroy(theirs);

  catch_lines();
  errno = 0;
  CHECK(!kmem_cache_alloc_bulk(NULL, GFP_KERNEL, 1, &(void*){NULL}) && errno == EINVAL);
  CHECK(kmem_cache_shrink(NULL) == 0);
  CHECK(kmem_cache_alloc_node(NULL, GFP_KERNEL, 0) == NULL);
  CHECK(lines_written(NULL) == 3);
}

/* SLAB has all three lengths, SLQB two, the others none; objects in use stay what they are. */
static void test_tune(const char* backend) {
  struct kmem_cache* cache = kmem_cache_create("tuned", 200, 0, SLAB_NO_MERGE, NULL);
  const bool queues = strcmp(backend, "slab") == 0 || strcmp(backend, "slqb") == 0;
  void* objects[300];
  CHECK(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 300, objects));
  catch_lines();
  errno = 0;
  CHECK((kmem_cache_tune(cache, 200, 40, -1) == 0) == queues);
  CHECK(queues || errno == EINVAL);
  errno = 0;
  CHECK(kmem_cache_tune(cache, 10, 4000, -1) == -1 && errno == EINVAL);
  CHECK(kmem_cache_tune(NULL, 10, 4, -1) == -1 && errno == EINVAL);
  CHECK(lines_written(NULL) == (queues ? 2 : 3));
  kmem_cache_free_bulk(cache, 300, objects);
  kmem_cache_destroy(cache);
}

static void test_insight(const char* backend) {
  const char* reason = NULL;
  char line[256];
  FILE* file = tmpfile();
  CHECK(strcmp(kmem_backend_name(), backend) == 0);
  CHECK(kmem_percpu_policy(NULL) != NULL);
  CHECK(kmem_percpu_policy(&reason) != NULL && reason != NULL && *reason != 0);
  CHECK(kmem_slabinfo(fileno(file)) == 0);
  rewind(file);
  CHECK(fgets(line, sizeof(line), file) != NULL && strcmp(line, "slabinfo - version: 2.1\n") == 0);
  CHECK(fgets(line, sizeof(line), file) != NULL && strncmp(line, "# name ", 7) == 0);
  fclose(file);
  errno = 0;
  CHECK(kmem_slabinfo(-1) == -1 && errno == EBADF);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  if (argc != 2) return 1;
  test_create_forms();
  test_refused();
  test_bulk();
  test_nodes();
  test_kmalloc();
  test_sensitive();
  test_misuse();
  test_tune(argv[1]);
  test_insight(argv[1]);
  printf("%s through the C interface: %d failed\n", argv[1], failures);
  return failures != 0;
}
