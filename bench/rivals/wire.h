// What kmem-bench and a rival's process say to each other, over a socket pair: a request of fixed
// size, a reply of fixed size, then the reply's numbers and text. One request is answered before
// the next is sent. The end of the stream ends the child.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/loop.h"

namespace kmem::bench::wire {

inline constexpr int child_fd = 3;  // the child's end

enum class Ask : std::uint32_t { hello, open, run, close };

struct Request {
  Ask ask = Ask::hello;
  std::uint32_t loop = 0;  // run, close: what open answered
  Job job;                 // open
  Turn turn;               // run
};
static_assert(std::is_trivially_copyable_v<Request>);

// done; none: there is no such work; failed: the text says why.
enum class Answer : std::uint32_t { done, none, failed };

struct ReplyHead {
  Answer answer = Answer::done;
  std::uint32_t loop = 0;  // open
  Sample cost;             // run
  std::uint32_t values = 0, text_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<ReplyHead>);

struct Reply {
  ReplyHead head;
  std::vector<double> values;
  std::string text;  // hello: who is there (malloc: its file); failed: why
};

// All of it, within the deadline (of now_ns(); 0: none). False: the other end is gone or silent.
bool send_all(int fd, const void* data, std::size_t bytes) noexcept;
bool receive_all(int fd, void* data, std::size_t bytes, std::uint64_t deadline_ns) noexcept;
bool send_reply(int fd, Reply& reply) noexcept;
bool receive_reply(int fd, Reply& reply, std::uint64_t deadline_ns);

}  // namespace kmem::bench::wire
