// kmem-bench-malloc: the loops of kmem-bench over malloc, in a process in which another malloc can
// be preloaded. Started by kmem-bench alone.
#include <dlfcn.h>
#include <sys/socket.h>

#include <cstdio>

#include "bench/rivals/malloc_world.h"
#include "bench/rivals/serve.h"

namespace {

// Where malloc and free come from, if from one file.
std::string file_of_malloc() {
  Dl_info malloc_info{}, free_info{};
  if (::dladdr(::dlsym(RTLD_DEFAULT, "malloc"), &malloc_info) == 0 ||
      ::dladdr(::dlsym(RTLD_DEFAULT, "free"), &free_info) == 0)
    return "";
  const std::string file = malloc_info.dli_fname;
  return file == free_info.dli_fname ? file : "";
}

}  // namespace

int main() {
  int kind = 0;
  socklen_t bytes = sizeof kind;
  if (::getsockopt(kmem::bench::wire::child_fd, SOL_SOCKET, SO_TYPE, &kind, &bytes) != 0) {
    std::fputs("kmem-bench-malloc: started by kmem-bench --rivals, not by hand\n", stderr);
    return 2;
  }
  kmem::bench::wire::serve<kmem::bench::MallocRivalWorld>(kmem::bench::wire::child_fd,
                                                          file_of_malloc());
  return 0;
}
