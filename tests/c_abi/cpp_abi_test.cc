// The C header from C++: overloads in place of the generic macro, and <kmem/cache.hpp> over it.
#include <kmem/slab.h>

#include <cstring>
#include <kmem/cache.hpp>
#include <string>
#include <vector>

#include "check.h"

namespace {

struct dentry_like {
  char name[40];
  long inode = 7;
};

void construct(void* object) { std::memset(object, 0x5c, 48); }

void test_create_forms() {
  kmem_cache* five = kmem_cache_create("five", 48, 16, SLAB_HWCACHE_ALIGN, construct);
  kmem_cache_args args{};
  args.align = 32;
  args.ctor = construct;
  kmem_cache* with_args = kmem_cache_create("args", 48, &args, SLAB_NO_MERGE);
  const kmem_cache_args& constant = args;
  kmem_cache* with_const = kmem_cache_create("const-args", 48, &constant, 0);
  kmem_cache* with_null = kmem_cache_create("null-args", 48, nullptr, 0);
  kmem_cache* by_macro = KMEM_CACHE(kmem_cache_args, 0);
  for (kmem_cache* cache : {five, with_args, with_const, with_null, by_macro}) {
    CHECK(cache != nullptr);
    void* object = kmem_cache_alloc(cache, GFP_KERNEL);
    CHECK(object != nullptr);
    kmem_cache_free(cache, object);
    kmem_cache_destroy(cache);
  }
  catch_lines();
  errno = 0;
  CHECK(kmem_cache_create("zero", 0, nullptr, 0) == nullptr && errno == EINVAL);
  CHECK(lines_written(nullptr) == 1);
}

void test_bulk() {
  kmem_cache* cache = kmem_cache_create("bulk", 100, nullptr, SLAB_NO_MERGE);
  std::vector<void*> objects(500);
  CHECK(kmem_cache_alloc_bulk(cache, GFP_KERNEL | __GFP_ZERO, objects.size(), objects.data()));
  for (void* object : objects) CHECK(*static_cast<char*>(object) == 0);
  kmem_cache_free_bulk(nullptr, objects.size(), objects.data());
  CHECK(kmem_cache_shrink(cache) == 0);
  kmem_cache_destroy(cache);
}

void test_typed_cache() {
  kmem::object_cache<dentry_like> cache("typed");
  auto object = cache.make();
  CHECK(object->inode == 7);
  CHECK(kmem_cache_size(cache.get()) >= sizeof(dentry_like));
}

struct alignas(128) Wide {
  char bytes[300];
};

void test_allocators() {
  std::vector<int, kmem::allocator<int>> numbers;
  for (int i = 0; i < 10000; ++i) numbers.push_back(i);
  CHECK(numbers[9999] == 9999 && ksize(numbers.data()) >= 10000 * sizeof(int));
  std::vector<Wide, kmem::allocator<Wide>> wide(5);
  CHECK(reinterpret_cast<std::uintptr_t>(wide.data()) % 128 == 0);
  kmem::memory_resource resource;
  std::pmr::vector<std::pmr::string> words(&resource);
  for (int i = 0; i < 100; ++i) words.emplace_back(static_cast<std::size_t>(i), 'w');
  CHECK(words[99].size() == 99 && ksize(words.data()) != 0);
}

}  // namespace

int main() {
  test_create_forms();
  test_bulk();
  test_typed_cache();
  test_allocators();
  std::printf("the C interface from C++: %d failed\n", failures);
  return failures != 0;
}
