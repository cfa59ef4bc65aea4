// The only door to the operating system's memory: no other file includes <sys/mman.h>. On every
// call bytes is a non-zero multiple of page_bytes and addresses are page aligned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kmem::pages::os {

enum class Access : std::uint8_t { read, read_write };
enum class HugePages : std::uint8_t { as_system, never, wherever_possible };

// Address space that reads as zeros and costs memory only where it is written. align is a power of
// two. nullptr: none to be had.
void* reserve(std::size_t bytes, std::size_t align, Access access, HugePages huge) noexcept;
void unreserve(void* base, std::size_t bytes) noexcept;

// The physical pages behind the range go back to the system. It reads as zeros afterwards in any
// case: where the system refuses (locked memory), it is cleared instead.
void discard(void* base, std::size_t bytes) noexcept;

// A monotonic clock of a few milliseconds' resolution, cheap enough for every N-th page.
std::uint64_t coarse_clock_ms() noexcept;

// The CPU this thread was on a moment ago: a hint. 0 where the system cannot say.
unsigned current_cpu() noexcept;

}  // namespace kmem::pages::os
