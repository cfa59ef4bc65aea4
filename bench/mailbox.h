// What a receiver of hackbench takes its messages from. Two kinds of one shape: lock-free rings,
// one a sender, and a socket pair that all its senders write to. Both hold a bounded number of
// messages.
#pragma once

#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace kmem::bench {

// Waits a little longer each time: other threads may need this CPU to get on. Whoever waits asks
// again by himself, nobody is woken: so no wake-up can be lost.
class Backoff {
 public:
  void wait() noexcept {
    ++tries_;
    if (tries_ <= spins) return relax();
    if (tries_ <= spins + yields) {
      sched_yield();
      return;
    }
    const timespec nap{0, 20'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  }

 private:
  static constexpr unsigned spins = 64, yields = 64;
  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  unsigned tries_ = 0;
};

class RingMailbox {
 public:
  explicit RingMailbox(unsigned senders) {
    const std::size_t each = std::max<std::size_t>(capacity / senders, least);
    for (unsigned i = 0; i < senders; ++i) rings_.push_back(std::make_unique<Ring>(each));
  }

  // Both wait; they give up, with false or null, once stop() has been called.
  bool send(unsigned sender, void* message) noexcept {
    for (Backoff backoff; !rings_[sender]->push(message); backoff.wait())
      if (stopped_.load(std::memory_order_relaxed)) return false;
    return true;
  }
  void* receive() noexcept {
    for (Backoff backoff;; backoff.wait()) {
      if (void* message = poll()) return message;
      if (stopped_.load(std::memory_order_relaxed)) return nullptr;
    }
  }
  // Null: there is none.
  void* poll() noexcept {
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      void* message = nullptr;
      if (rings_[next_]->pop(message)) return message;
      next_ = next_ + 1 == rings_.size() ? 0 : next_ + 1;
    }
    return nullptr;
  }
  void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }

 private:
  // As many messages of 100 bytes as a socket's buffer holds, about; and what a ring has at least.
  static constexpr std::size_t capacity = 256, least = 16;
  using Ring = boost::lockfree::spsc_queue<void*>;

  std::vector<std::unique_ptr<Ring>> rings_;
  std::size_t next_ = 0;
  std::atomic<bool> stopped_{false};
};

// The pointer passes, as one packet: what the kernel does for it is in the measured time.
class SocketMailbox {
 public:
  explicit SocketMailbox(unsigned) {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) != 0)
      throw std::runtime_error(std::string("cannot make a socket pair: ") + std::strerror(errno));
  }
  ~SocketMailbox() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  SocketMailbox(const SocketMailbox&) = delete;
  SocketMailbox& operator=(const SocketMailbox&) = delete;

  bool send(unsigned, void* message) noexcept {
    for (;;) {
      if (::send(ends_[0], &message, sizeof message, MSG_NOSIGNAL) == sizeof message) return true;
      if (errno != EINTR) return false;
    }
  }
  void* receive() noexcept { return take(0); }
  void* poll() noexcept { return take(MSG_DONTWAIT); }
  void stop() noexcept { ::shutdown(ends_[1], SHUT_RDWR); }

 private:
  void* take(int flags) noexcept {
    for (;;) {
      void* message = nullptr;
      const ssize_t got = ::recv(ends_[1], &message, sizeof message, flags);
      if (got == sizeof message) return message;
      if (got >= 0 || errno != EINTR) return nullptr;
    }
  }

  int ends_[2];
};

}  // namespace kmem::bench
