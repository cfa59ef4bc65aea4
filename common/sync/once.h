// Runs a function once in the process, by the first thread that comes; others wait for it. Constant
// initialized and without destructor, so that it works before and after static constructors.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "common/base/attributes.h"

namespace kmem {

class Once {
 public:
  // What the function wrote is seen after this returned true. The function must not come back here.
  bool done() const noexcept {
    // Acquire: pairs with the release in run().
    return state_.load(std::memory_order_acquire) == State::done;
  }
  template <class F>
  KMEM_FAST void operator()(F&& function) noexcept {
    if (!done()) [[unlikely]]
      run(function);
  }

 private:
  enum class State : std::uint8_t { idle, running, done };

  template <class F>
  KMEM_SLOW void run(F& function) noexcept {
    State expected = State::idle;
    if (state_.compare_exchange_strong(expected, State::running, std::memory_order_relaxed)) {
      function();
      state_.store(State::done, std::memory_order_release);  // pairs with the acquire in done()
    }
    while (!done()) sched_yield();
  }

  std::atomic<State> state_{State::idle};
};

}  // namespace kmem
