// What the main() of every child does.
#pragma once

#include <sys/socket.h>

#include <cstdio>

#include "bench/rivals/serve.h"

namespace kmem::bench::wire {

// greet: see serve(). 2, and a line, for who starts it by hand.
template <class W, class Greet>
int child_main(const char* program, const char* option, const Greet& greet) {
  int kind = 0;
  socklen_t bytes = sizeof kind;
  if (::getsockopt(child_fd, SOL_SOCKET, SO_TYPE, &kind, &bytes) != 0) {
    std::fprintf(stderr, "%s: started by kmem-bench %s, not by hand\n", program, option);
    return 2;
  }
  serve<W>(child_fd, greet);
  return 0;
}

}  // namespace kmem::bench::wire
