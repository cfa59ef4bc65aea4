// kmem-bench-malloc: the loops of kmem-bench over malloc, in a process in which another malloc can
// be preloaded. Started by kmem-bench alone.
#include <dlfcn.h>

#include "bench/rivals/child_main.h"
#include "bench/rivals/malloc_world.h"

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
  return kmem::bench::wire::child_main<kmem::bench::MallocRivalWorld>("kmem-bench-malloc",
                                                                      "--rivals", file_of_malloc);
}
