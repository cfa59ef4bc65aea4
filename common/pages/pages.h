// Pages: the only door to the operating system's memory. One reserved address range (the arena,
// KMEM_ARENA_BYTES, 64 GiB unless told, halved until it can be had), cut into 4 KiB pages; a buddy
// allocator a node (orders 0..10); a short list of single pages a CPU in front of it. Free pages go
// back to the system after KMEM_DECAY_MS (1000), checked when pages are allocated or freed, or at
// once by release_free(). KMEM_LIMIT_BYTES bounds what is allocated at one time.
//
// All functions are safe on any thread. Starts itself at first use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/flags.h"
#include "common/pages/page.h"

namespace kmem::pages {

// Reserves the arena; called by every creator of caches; cheap when done. False: no address space.
bool start() noexcept;

// A block of 1 << order pages, naturally aligned. node is a preference unless gfp has thisnode; any
// node will do for no_node (the caller's CPU's first). kind == slab|large, head and node are set in
// every page; owner and owner_tag are null; contents are undefined unless gfp has zero. nullptr: no
// memory, over the limit, or told to fail.
Page* alloc(unsigned order, int node, gfp_t gfp, PageKind kind) noexcept;
void free(Page* head) noexcept;

// Writes owner and tag in every page of a slab, before its first object is handed out; free()
// clears them. Release and acquire of whatever hands the object over orders them for other threads.
void set_owner(Page* head, void* owner, std::uint8_t tag) noexcept;

// visit(context, head) for each slab of owner, by address, with no lock held: a look at every page
// in use, for reports and checks. Beside traffic it is racy: slabs that come or go may be missed,
// and one that visit() gets may go while it looks, unless a lock of the owner's keeps it.
using SlabVisitor = void (*)(void* context, Page* head);
void for_each_slab(const void* owner, SlabVisitor visit, void* context) noexcept;

// A run of whole chunks for blocks over max_block_bytes (kvmalloc); freed by free_run().
Page* alloc_run(std::size_t bytes, int node, gfp_t gfp) noexcept;
void free_run(Page* head) noexcept;
std::size_t run_bytes(const Page* head) noexcept;  // 0: not a run

// Gives every free page back to the system now; returns the bytes given back.
std::size_t release_free() noexcept;

struct Usage {
  std::size_t allocated_bytes;       // in blocks and runs now
  std::size_t allocated_bytes_peak;  // since the last reset_peak()
  std::size_t free_resident_bytes;   // free, not yet given back
  std::uint64_t allocations, frees, releases, failures;
};
Usage usage() noexcept;
void reset_peak() noexcept;

// For tests: the k-th allocation from now (1 = the next) fails, and those after it if all_after.
// k = 0 stops that. Counts alloc(), alloc_run() and metadata allocations alike.
void fail_allocation(std::uint64_t k, bool all_after = false) noexcept;
std::uint64_t allocation_attempts() noexcept;      // since start; to learn how many k there are
void set_limit_bytes(std::size_t bytes) noexcept;  // 0: none

// A part of the address space that is zero until written, for page arrays and per-CPU areas; never
// given back. read_only: a mapping of zeros. nullptr if there is no address space.
void* reserve_zeroed(std::size_t bytes, bool read_only) noexcept;
// The physical pages of [base, base + bytes) go back to the system; they read as zeros after.
void discard(void* base, std::size_t bytes) noexcept;

// Small zeroed blocks for the library's own structures (caches, nodes, names), 64-byte aligned.
// Counted and failed like pages. bytes must be given back as they were asked for.
void* metadata_alloc(std::size_t bytes) noexcept;
void metadata_free(void* block, std::size_t bytes) noexcept;

// Around fork(): all locks of this layer are held while the child's memory is copied. after_fork()
// in parent and child. The caller holds no lock of rank pages_cpu or above.
void prepare_fork() noexcept;
void after_fork() noexcept;

}  // namespace kmem::pages
