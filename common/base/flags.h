// The flag values of <kmem/slab.h>, for the layers below it (the C header repeats them as macros;
// api/c_abi.cc asserts that both agree). Names and, where the kernel ever fixed them, values are
// those of Linux 6.1; a program must not rely on the values.
#pragma once

#include <cstdint>

namespace kmem {

using slab_flags_t = std::uint32_t;
using gfp_t = std::uint32_t;

namespace slab_flag {
inline constexpr slab_flags_t consistency_checks = 0x100, red_zone = 0x400, poison = 0x800,
                              kmalloc = 0x1000, hwcache_align = 0x2000, cache_dma = 0x4000,
                              cache_dma32 = 0x8000, store_user = 0x10000, reclaim_account = 0x20000,
                              panic = 0x40000, typesafe_by_rcu = 0x80000, mem_spread = 0x100000,
                              trace = 0x200000, debug_objects = 0x400000, noleaktrace = 0x800000,
                              no_merge = 0x1000000, failslab = 0x2000000, account = 0x4000000,
                              kasan = 0x8000000, no_user_flags = 0x10000000,
                              skip_kfence = 0x20000000;
inline constexpr slab_flags_t debug = consistency_checks | red_zone | poison | store_user | trace;
// What kmem_cache_create() accepts from a caller (kmalloc is the library's own mark).
inline constexpr slab_flags_t permitted = debug | hwcache_align | cache_dma | cache_dma32 |
                                          reclaim_account | panic | typesafe_by_rcu | mem_spread |
                                          debug_objects | noleaktrace | no_merge | failslab |
                                          account | kasan | no_user_flags | skip_kfence;
}  // namespace slab_flag

namespace gfp {
inline constexpr gfp_t dma = 0x01, highmem = 0x02, dma32 = 0x04, movable = 0x08, reclaimable = 0x10,
                       high = 0x20, io = 0x40, fs = 0x80, zero = 0x100, direct_reclaim = 0x400,
                       kswapd_reclaim = 0x800, write = 0x1000, nowarn = 0x2000,
                       retry_mayfail = 0x4000, nofail = 0x8000, noretry = 0x10000,
                       memalloc = 0x20000, comp = 0x40000, nomemalloc = 0x80000,
                       hardwall = 0x100000, thisnode = 0x200000, account = 0x400000;
inline constexpr gfp_t reclaim = direct_reclaim | kswapd_reclaim;
inline constexpr gfp_t kernel = reclaim | io | fs, nowait = kswapd_reclaim | nowarn,
                       atomic = high | kswapd_reclaim;
}  // namespace gfp

inline constexpr int no_node = -1;  // NUMA_NO_NODE: any node will do, this CPU's first

}  // namespace kmem
