// A bounded queue through which threads pass objects to each other: Boost's lock-free one; under
// ThreadSanitizer one with a lock, since the lock-free one reads nodes speculatively.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define KMEM_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KMEM_TEST_TSAN 1
#endif
#endif

#ifdef KMEM_TEST_TSAN
#include <deque>
#include <mutex>
#else
#include <boost/lockfree/queue.hpp>
#endif

#include <cstddef>

namespace kmem::test {

#ifdef KMEM_TEST_TSAN

template <class T>
class HandOver {
 public:
  explicit HandOver(std::size_t most) : most_(most) {}
  bool push(const T& value) {
    std::lock_guard guard(mutex_);
    if (values_.size() == most_) return false;
    values_.push_back(value);
    return true;
  }
  bool pop(T& value) {
    std::lock_guard guard(mutex_);
    if (values_.empty()) return false;
    value = values_.front();
    values_.pop_front();
    return true;
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::deque<T> values_;
};

#else

template <class T>
class HandOver {
 public:
  explicit HandOver(std::size_t most) : queue_(most) {}
  bool push(const T& value) { return queue_.bounded_push(value); }  // false: full
  bool pop(T& value) { return queue_.pop(value); }                  // false: empty

 private:
  boost::lockfree::queue<T, boost::lockfree::fixed_sized<true> > queue_;
};

#endif

}  // namespace kmem::test
