// The main loop of a rival's process: makes and runs the loops that it is asked for.
#pragma once

#include <exception>
#include <map>
#include <memory>

#include "bench/loops/make.h"
#include "bench/rivals/wire.h"
#include "bench/undisturbed.h"

namespace kmem::bench::wire {

// Until the other end is gone. greet(): the answer to hello, which throws what is missing.
template <class W, class Greet>
void serve(int fd, const Greet& greet) {
  std::map<std::uint32_t, std::unique_ptr<Loop>> loops;
  std::uint32_t last = 0;
  Request request;
  while (receive_all(fd, &request, sizeof request, 0)) {
    Reply reply;
    try {
      switch (request.ask) {
        case Ask::hello:
          reply.text = greet();
          break;
        case Ask::open:
          if (auto loop = make_loop<W>(request.job)) {
            loops[reply.head.loop = ++last] = std::move(loop);
          } else {
            reply.head.answer = Answer::none;
          }
          break;
        case Ask::run: {
          // Here, since only this process sees its own threads lose their CPU.
          Outcome outcome = undisturbed([&] { return loops.at(request.loop)->run(request.turn); });
          reply.head.cost = outcome.cost;
          reply.values = std::move(outcome.values);
          break;
        }
        case Ask::close:
          loops.erase(request.loop);
          break;
      }
    } catch (const std::exception& error) {
      reply.head.answer = Answer::failed;
      reply.text = error.what();
    }
    if (!send_reply(fd, reply)) return;
  }
}

}  // namespace kmem::bench::wire
