// <kmem/cache.hpp>: object caches for C++: typed, with unique_ptr, as an allocator and as a
// std::pmr::memory_resource. Header only, over <kmem/slab.h>; the same threads and signals rules.
#ifndef KMEM_CACHE_HPP
#define KMEM_CACHE_HPP

#include <kmem/slab.h>

#include <bit>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace kmem {

// A named cache of objects of type T. make() constructs and drop() destroys; memory is reused,
// state is not. Destroying the cache with objects alive is a report, as in <kmem/slab.h>.
template <class T>
class object_cache {
 public:
  // Throws std::bad_alloc when the cache cannot be made.
  explicit object_cache(const char* name, slab_flags_t flags = 0)
      : cache_(__kmem_cache_create(name, sizeof(T), alignof(T), flags, nullptr)) {
    if (cache_ == nullptr) throw std::bad_alloc();
  }
  object_cache(object_cache&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
  object_cache& operator=(object_cache&& other) noexcept {
    std::swap(cache_, other.cache_);
    return *this;
  }
  ~object_cache() { kmem_cache_destroy(cache_); }

  struct deleter {
    kmem_cache* cache;
    void operator()(T* object) const noexcept {
      object->~T();
      kmem_cache_free(cache, object);
    }
  };
  using pointer = std::unique_ptr<T, deleter>;

  // Throws std::bad_alloc, or what T's constructor throws; nothing is leaked then.
  template <class... Args>
  pointer make(Args&&... args) {
    void* memory = kmem_cache_alloc(cache_, GFP_KERNEL);
    if (memory == nullptr) throw std::bad_alloc();
    std::unique_ptr<void, raw_deleter> guard(memory, raw_deleter{cache_});
    T* object = ::new (memory) T(std::forward<Args>(args)...);
    guard.release();
    return pointer(object, deleter{cache_});
  }

  kmem_cache* get() const noexcept { return cache_; }
  bool shrink() noexcept { return kmem_cache_shrink(cache_) != 0; }

 private:
  struct raw_deleter {
    kmem_cache* cache;
    void operator()(void* memory) const noexcept { kmem_cache_free(cache, memory); }
  };
  kmem_cache* cache_;
};

namespace detail {

// kmalloc aligns a power of two to itself, whatever the design: ask for one when 8 bytes do not do.
inline void* allocate(std::size_t bytes, std::size_t align) {
  void* memory = nullptr;
  if (bytes == 0) bytes = 1;
  if (align <= 8) {
    memory = kvmalloc(bytes, GFP_KERNEL | __GFP_NOWARN);
  } else if (align <= KMEM_CACHE_MAX_ALIGN && bytes <= KVMALLOC_MAX_SIZE) {
    memory = kvmalloc(std::bit_ceil(bytes < align ? align : bytes), GFP_KERNEL | __GFP_NOWARN);
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace detail

// A standard allocator over kmalloc: stateless, all instances equal.
template <class T>
struct allocator {
  using value_type = T;
  using is_always_equal = std::true_type;
  allocator() noexcept = default;
  template <class U>
  allocator(const allocator<U>&) noexcept {}
  T* allocate(std::size_t n) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(n, sizeof(T), &bytes)) throw std::bad_array_new_length();
    return static_cast<T*>(detail::allocate(bytes, alignof(T)));
  }
  void deallocate(T* p, std::size_t) noexcept { kvfree(p); }
  template <class U>
  bool operator==(const allocator<U>&) const noexcept {
    return true;
  }
};

// A memory resource over kmalloc; thread safe.
class memory_resource : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    return detail::allocate(bytes, align);
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override { kvfree(p); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

}  // namespace kmem

#endif  // KMEM_CACHE_HPP
