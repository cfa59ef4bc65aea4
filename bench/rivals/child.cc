#include "bench/rivals/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

namespace kmem::bench {

namespace {

// This environment, with LD_PRELOAD as told.
std::vector<std::string> environment_with(const std::string& preload) {
  std::vector<std::string> environment;
  for (char** at = environ; *at != nullptr; ++at)
    if (std::strncmp(*at, "LD_PRELOAD=", 11) != 0) environment.emplace_back(*at);
  if (!preload.empty()) environment.push_back("LD_PRELOAD=" + preload);
  return environment;
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

// What the loader has to say about a preload is told by the comparison of the greeting; what a
// library prints has no place in a report.
int spawn(const ChildProgram& program, int fd, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, wire::child_fd);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> environment = environment_with(program.preload);
  std::vector<char*> pointers;
  pointers.reserve(environment.size() + 1);
  for (std::string& variable : environment) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  std::string path = program.path, argument = program.argument;
  char* arguments[] = {path.data(), argument.empty() ? nullptr : argument.data(), nullptr};
  const int error = posix_spawn(pid, path.c_str(), &actions, nullptr, arguments, pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Child::Child(std::string name, const ChildProgram& program, double patience_seconds)
    : name_(std::move(name)), patience_ns_(static_cast<std::uint64_t>(patience_seconds * 1e9)) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error(fmt::format("no socket pair for {}: {}", name_, strerror(errno)));
  // Both above the number that the child's end gets: a dup2 onto itself would keep CLOEXEC.
  const int here = ::fcntl(ends[0], F_DUPFD_CLOEXEC, wire::child_fd + 1);
  const int there = ::fcntl(ends[1], F_DUPFD_CLOEXEC, wire::child_fd + 1);
  ::close(ends[0]);
  ::close(ends[1]);
  const int error = spawn(program, there, &pid_);
  ::close(there);
  if (error != 0) {
    ::close(here);
    throw std::runtime_error(fmt::format("cannot start {}: {}", program.path, strerror(error)));
  }
  fd_ = here;
}

Child::~Child() {
  if (pid_ > 0) reap(true);
  if (fd_ >= 0) ::close(fd_);
}

int Child::reap(bool kill_first) noexcept {
  int status = 0;
  if (kill_first) ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

void Child::give_up(const std::string& why) { throw std::runtime_error(name_ + ": " + why); }

wire::Reply Child::ask(const wire::Request& request) {
  if (pid_ < 0) give_up("its process is gone");
  wire::Reply reply;
  const std::uint64_t deadline_ns = now_ns() + patience_ns_;
  if (!wire::send_all(fd_, &request, sizeof request) ||
      !wire::receive_reply(fd_, reply, deadline_ns)) {
    const bool silent = now_ns() >= deadline_ns;
    const int status = reap(silent);
    give_up(silent ? fmt::format("no answer for {} seconds; see --patience", patience_ns_ / 1e9)
                   : "its process " + end_of(status));
  }
  if (reply.head.answer == wire::Answer::failed) give_up(reply.text);
  return reply;
}

std::string beside_this_program(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

}  // namespace kmem::bench
