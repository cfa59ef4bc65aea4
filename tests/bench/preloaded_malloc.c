/* A malloc to preload: the libc's under its other names. With -DEXIT the process that loads it ends
 * at once, with -DHANG its first malloc never returns. */
#include <stddef.h>
#include <unistd.h>

extern void* __libc_malloc(size_t bytes);
extern void __libc_free(void* memory);

__attribute__((constructor)) static void start(void) {
#ifdef EXIT
  _exit(3);
#endif
}

void* malloc(size_t bytes) {
#ifdef HANG
  for (;;) pause();
#endif
  return __libc_malloc(bytes);
}

void free(void* memory) { __libc_free(memory); }
