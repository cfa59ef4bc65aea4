#include "common/pages/os.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <cstring>

#include "common/base/assert.h"
#include "common/base/bits.h"
#include "common/pages/page.h"

namespace kmem::pages::os {

void* reserve(std::size_t bytes, std::size_t align, Access access, HugePages huge) noexcept {
  KMEM_ASSERT(bytes % page_bytes == 0);
  const std::size_t slack = align > page_bytes ? align : 0;
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* mapped =
      mmap(nullptr, bytes + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(mapped);
  if (slack != 0) {
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    const std::size_t before = align_up(address, align) - address;
    if (before != 0) munmap(start, before);
    start += before;
    if (before != slack) munmap(start + bytes, slack - before);
  }
  // Sparse tables must not cost 2 MiB for a few bytes. A kernel without huge pages refuses: fine.
  if (huge == HugePages::never) madvise(start, bytes, MADV_NOHUGEPAGE);
  if (huge == HugePages::wherever_possible) madvise(start, bytes, MADV_HUGEPAGE);
  return start;
}

void unreserve(void* base, std::size_t bytes) noexcept { munmap(base, bytes); }

void discard(void* base, std::size_t bytes) noexcept {
  KMEM_ASSERT(bytes % page_bytes == 0);
  if (madvise(base, bytes, MADV_DONTNEED) != 0) std::memset(base, 0, bytes);
}

std::uint64_t coarse_clock_ms() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

unsigned current_cpu() noexcept {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<unsigned>(cpu);
}

}  // namespace kmem::pages::os
