#include "bench/apart.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include "bench/rivals/wire.h"

namespace kmem::bench {

namespace {

// Ends without the exit handlers and buffers that are the parent's.
[[noreturn]] void answer(int fd, const std::function<Outcome()>& measure) noexcept {
  wire::Reply reply;
  try {
    Outcome outcome = measure();
    reply.head.cost = outcome.cost;
    reply.values = std::move(outcome.values);
  } catch (const std::exception& error) {
    reply.head.answer = wire::Answer::failed;
    reply.text = error.what();
  }
  ::_exit(wire::send_reply(fd, reply) ? 0 : 1);
}

int wait_for(pid_t pid) noexcept {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Outcome run_apart(const std::string& name, double patience_seconds,
                  const std::function<Outcome()>& measure) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error(fmt::format("{}: no socket pair: {}", name, strerror(errno)));
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    answer(ends[1], measure);
  }
  const int error = errno;
  ::close(ends[1]);
  wire::Reply reply;
  const std::uint64_t deadline_ns = now_ns() + static_cast<std::uint64_t>(patience_seconds * 1e9);
  const bool has_answered = pid > 0 && wire::receive_reply(ends[0], reply, deadline_ns);
  const bool is_late = !has_answered && now_ns() >= deadline_ns;
  ::close(ends[0]);
  if (pid < 0) throw std::runtime_error(fmt::format("{}: no process: {}", name, strerror(error)));
  if (is_late) ::kill(pid, SIGKILL);
  const int status = wait_for(pid);
  if (is_late)
    throw std::runtime_error(
        fmt::format("{}: no answer for {} seconds; see --patience", name, patience_seconds));
  if (!has_answered)
    throw std::runtime_error(
        fmt::format("{}: its process {} {}", name,
                    WIFSIGNALED(status) ? "was killed by signal" : "ended with status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
  if (reply.head.answer == wire::Answer::failed)
    throw std::runtime_error(fmt::format("{}: {}", name, reply.text));
  return {reply.head.cost, std::move(reply.values)};
}

}  // namespace kmem::bench
