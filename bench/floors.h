// What no allocator can beat on this machine: copying the pointers, popping and pushing a list of
// the thread's own, popping and pushing an array of the CPU's own by restartable sequences.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/clock.h"
#include "common/percpu/policies.h"

namespace kmem::bench {

// A batch of pointers copied out and back. Several windows take turns, so that no copy waits for
// the stores of the one before.
class PointerCopyFloor {
 public:
  Sample measure(std::size_t batch, std::size_t objects) {
    const std::size_t loops = objects / batch + 1;
    std::vector<void*> inner(batch * windows), outer(batch * windows);
    const Stopwatch watch;
    for (std::size_t i = 0; i < loops; ++i) {
      const std::size_t at = i % windows * batch;
      copy(outer.data() + at, inner.data() + at, batch);
      copy(inner.data() + at, outer.data() + at, batch);
    }
    return watch.per(static_cast<double>(loops * batch));
  }

 private:
  static constexpr std::size_t windows = 8;
  static void copy(void** target, void* const* source, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      target[i] = source[i];
      asm volatile("" : : : "memory");  // a copy an object, not a call of memcpy
    }
  }
};

// One thread's list, linked through the objects: what malloc implementations do at best.
class ThreadListFloor {
 public:
  explicit ThreadListFloor(std::size_t object_bytes)
      : memory_(count * (object_bytes + sizeof(void*))) {
    for (std::size_t i = 0; i < count; ++i)
      push(memory_.data() + i * (object_bytes + sizeof(void*)) / sizeof(void*) * sizeof(void*));
  }

  Sample measure(std::size_t objects) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects; ++i) {
      void* object = head_;
      if (object == nullptr) throw std::runtime_error("the floor's list is empty");
      head_ = *static_cast<void**>(object);
      asm volatile("" : "+r"(object) : : "memory");
      push(object);
    }
    return watch.per(static_cast<double>(objects));
  }

 private:
  static constexpr std::size_t count = 64;
  static void push(void* object) {
    *static_cast<void**>(object) = head_;
    head_ = object;
    asm volatile("" : : : "memory");
  }

  std::vector<char> memory_;
  static inline thread_local void* head_ = nullptr;
};

// One CPU's array of pointers, under the library's own Rseq policy (Locked where that cannot be
// had).
class CpuArrayFloor {
 public:
  CpuArrayFloor() {
    const bool created = cpus_.create([](State& state, unsigned, int) {
      state.array.capacity = count;
      state.array.limit = state.array.end = count;
      state.array.top = 1;
      percpu::entries(state.array)[0] = &state;
    });
    if (!created) throw std::runtime_error("no per-CPU area for the floor");
  }
  ~CpuArrayFloor() { cpus_.destroy(); }
  CpuArrayFloor(const CpuArrayFloor&) = delete;
  CpuArrayFloor& operator=(const CpuArrayFloor&) = delete;

  // The pair by calls that go through a pointer, as those into a shared library do.
  Sample measure_called(std::size_t objects) {
    void* (*volatile const pop)(CpuArrayFloor&) = take;
    void (*volatile const push)(CpuArrayFloor&, void*) = give;
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects; ++i) {
      void* object = pop(*this);
      asm volatile("" : "+r"(object) : : "memory");
      push(*this, object);
    }
    return watch.per(static_cast<double>(objects));
  }

  Sample measure(std::size_t objects) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < objects; ++i) {
      void* object = cpus_.fast_pop<array>();
      if (object == nullptr) object = cpus_.pop<array>();  // migrated: the other CPU's is used
      asm volatile("" : "+r"(object) : : "memory");
      if (cpus_.fast_push<array>(object, std::uint64_t{0}) != percpu::Push::done)
        static_cast<void>(cpus_.push<array>(object, 0));
    }
    return watch.per(static_cast<double>(objects));
  }

 private:
  static constexpr std::uint32_t count = 64;
  struct State {
    percpu::SlotHeader header;
    percpu::PointerArray array;
    void* room[count];
  };
  static constexpr percpu::Field<percpu::PointerArray> array{offsetof(State, array)};

  [[gnu::noinline]] static void* take(CpuArrayFloor& floor) {
    void* object = floor.cpus_.fast_pop<array>();
    return object != nullptr ? object : floor.cpus_.pop<array>();
  }
  [[gnu::noinline]] static void give(CpuArrayFloor& floor, void* object) {
    if (floor.cpus_.fast_push<array>(object, std::uint64_t{0}) != percpu::Push::done)
      static_cast<void>(floor.cpus_.push<array>(object, 0));
  }

  percpu::Rseq::Cpus<State> cpus_;
};

}  // namespace kmem::bench
