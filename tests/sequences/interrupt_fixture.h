// What interrupt_test.cc needs to stop a sequence between any two instructions: a breakpoint, the
// descriptor of the sequence that ran last, and a model of two CPUs' slots to compare with.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/sequences/fixture.h"
#include "tests/sequences/instruction_lengths.h"

namespace kmem::percpu {

// As the kernel defines it.
struct Descriptor {
  std::uint32_t version, flags;
  std::uint64_t start, length, abort;
  std::uint64_t post_commit() const { return start + length; }
};

// The thread's rseq_cs: the descriptor of the last sequence, unless the kernel cleared it since.
inline const Descriptor* last_descriptor() {
  const char* self = static_cast<const char*>(__builtin_thread_pointer());
  return *reinterpret_cast<const Descriptor* const volatile*>(self + rseq_area + 8);
}

// Every instruction's start from the frame's begin to post_commit, both included; empty if one is
// not known, or if start or post_commit is not on a boundary.
inline std::vector<std::uint64_t> boundaries_of(const Descriptor& descriptor) {
  const auto* jump = reinterpret_cast<const std::uint8_t*>(descriptor.abort);
  const std::uint64_t begin =
      jump[0] == 0xeb ? descriptor.abort + 2 + static_cast<std::uint64_t>(std::int8_t(jump[1]))
                      : descriptor.abort + 5 + [&] {
                          std::int32_t distance;
                          std::memcpy(&distance, jump + 1, 4);
                          return static_cast<std::uint64_t>(std::int64_t{distance});
                        }();
  std::vector<std::uint64_t> all;
  std::uint64_t at = begin;
  while (at <= descriptor.post_commit()) {
    all.push_back(at);
    const std::size_t length = instruction_length(reinterpret_cast<const std::uint8_t*>(at));
    if (length == 0 && at != descriptor.post_commit()) {
      ADD_FAILURE() << "unknown instruction " << at - begin << " bytes into the frame";
      return {};
    }
    at += std::max<std::size_t>(length, 1);
  }
  const bool fits = all.back() == descriptor.post_commit() &&
                    std::find(all.begin(), all.end(), descriptor.start) != all.end();
  return fits ? all : std::vector<std::uint64_t>{};
}

// One breakpoint, which fires once: body runs in the handler, then the thread goes on from there,
// or from where the kernel sent it.
class Breakpoint {
 public:
  Breakpoint(std::uint64_t at, void (*body)(void*), void* context) {
    current_ = this;
    at_ = reinterpret_cast<std::uint8_t*>(at);
    body_ = body;
    context_ = context;
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void* where) {
      current_->fire(*static_cast<ucontext_t*>(where));
    };
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, &old_action_);
    char* const page = reinterpret_cast<char*>(at & ~std::uint64_t{4095});
    EXPECT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    saved_ = *at_;
    *static_cast<volatile std::uint8_t*>(at_) = 0xcc;
  }
  ~Breakpoint() {
    *static_cast<volatile std::uint8_t*>(at_) = saved_;
    sigaction(SIGTRAP, &old_action_, nullptr);
  }
  bool hit() const { return resumed_at_ != 0; }
  // Where the handler found the thread to be resumed: right behind the breakpoint, or where an
  // abort leads.
  std::uint64_t resumed_at() const { return resumed_at_; }

 private:
  void fire(ucontext_t& where) {
    auto& rip = where.uc_mcontext.gregs[REG_RIP];
    *static_cast<volatile std::uint8_t*>(at_) = saved_;
    resumed_at_ = static_cast<std::uint64_t>(rip);
    if (rip == reinterpret_cast<greg_t>(at_) + 1) rip -= 1;
    body_(context_);
  }

  static inline Breakpoint* current_;
  std::uint8_t* at_;
  std::uint8_t saved_;
  void (*body_)(void*);
  void* context_;
  std::uint64_t resumed_at_ = 0;
  struct sigaction old_action_;
};

// The operations on the slots of two CPUs, by exclusive.h.
class Model {
 public:
  TestState states[2];
  unsigned cpu = 0;

  template <auto F>
  void* pop(std::size_t link) {
    return exclusive::pop(field<F>(), link);
  }
  template <auto F>
  void* pop() {
    return exclusive::pop(field<F>());
  }
  template <auto F, class... Args>
  Push push(Args... args) {
    return exclusive::push(field<F>(), args...);
  }
  template <auto F, class... Args>
  std::size_t take(void** out, std::size_t n, Args... args) {
    return exclusive::take(field<F>(), out, n, args...);
  }
  template <auto F>
  std::size_t put(void* const* in, std::size_t n, std::uint64_t node) {
    return exclusive::put(field<F>(), in, n, node);
  }
  template <auto F>
  std::size_t take_oldest(void** out, std::size_t n) {
    return exclusive::take_oldest(field<F>(), out, n);
  }
  template <auto F>
  bool make_room() {
    return exclusive::make_room(field<F>());
  }
  template <auto F>
  Pair read() {
    return exclusive::read(field<F>());
  }
  template <auto F>
  bool cas(Pair expected, Pair desired) {
    return exclusive::cas(field<F>(), expected, desired);
  }
  template <auto F>
  static Pair detach(TestState& state) {
    return exclusive::detach(field_of<F>(state));
  }
  template <class Visit>
  void drain(Visit&& visit) {
    for (unsigned i = 0; i < 2; ++i) visit(states[i], i);
  }
  void move_away() { cpu = 1; }

 private:
  template <auto F>
  auto& field() {
    return field_of<F>(states[cpu]);
  }
};

// What a slot holds, without what lies outside of lists and window.
struct Contents {
  std::vector<void*> owned_list, counted_list, window;
  void* owner;
  std::uint64_t count;
  std::uint32_t bottom, end;

  explicit Contents(const TestState& state) {
    const auto walk = [](void* head, std::vector<void*>& list) {
      for (; head != nullptr && list.size() < 200; head = link_of(head)) list.push_back(head);
    };
    walk(state.owned.head, owned_list);
    walk(state.counted.list.head(), counted_list);
    window.assign(state.entries + state.array.bottom, state.entries + state.array.top);
    owner = state.owned.owner;
    count = state.counted.list.count();
    bottom = state.array.bottom;
    end = state.array.end;
  }
  bool operator==(const Contents&) const = default;
};

}  // namespace kmem::percpu
