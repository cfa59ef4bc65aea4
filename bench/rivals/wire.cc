#include "bench/rivals/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace kmem::bench::wire {

namespace {

constexpr std::uint32_t values_max = 1 << 20, text_max = 1 << 16;

// Something to read, or an end of the stream, before the deadline.
bool wait_readable(int fd, std::uint64_t deadline_ns) noexcept {
  for (;;) {
    int patience_ms = -1;
    if (deadline_ns != 0) {
      const std::uint64_t now = now_ns();
      if (now >= deadline_ns) return false;
      constexpr std::uint64_t longest_ms = 1'000'000;
      patience_ms =
          static_cast<int>(std::min<std::uint64_t>((deadline_ns - now) / 1'000'000, longest_ms)) +
          1;
    }
    pollfd ready{fd, POLLIN, 0};
    const int n = ::poll(&ready, 1, patience_ms);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool send_all(int fd, const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t bytes, std::uint64_t deadline_ns) noexcept {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!wait_readable(fd, deadline_ns)) return false;
    const ssize_t got = ::recv(fd, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_reply(int fd, Reply& reply) noexcept {
  reply.head.values = static_cast<std::uint32_t>(reply.values.size());
  reply.head.text_bytes = static_cast<std::uint32_t>(reply.text.size());
  return send_all(fd, &reply.head, sizeof reply.head) &&
         send_all(fd, reply.values.data(), reply.values.size() * sizeof(double)) &&
         send_all(fd, reply.text.data(), reply.text.size());
}

bool receive_reply(int fd, Reply& reply, std::uint64_t deadline_ns) {
  if (!receive_all(fd, &reply.head, sizeof reply.head, deadline_ns)) return false;
  if (reply.head.values > values_max || reply.head.text_bytes > text_max) return false;
  reply.values.resize(reply.head.values);
  reply.text.resize(reply.head.text_bytes);
  return receive_all(fd, reply.values.data(), reply.values.size() * sizeof(double), deadline_ns) &&
         receive_all(fd, reply.text.data(), reply.text.size(), deadline_ns);
}

}  // namespace kmem::bench::wire
