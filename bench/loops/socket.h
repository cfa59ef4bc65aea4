// The timed loop of socket: what a kernel allocates behind one open and one close of a TCP socket.
// The mix is that of kmem events of a loop of socket() and close() on Linux 6.18: of each cache one
// object an open, in this order. A close frees four of them at once and leaves both inode objects
// to RCU, which frees them some hundreds at a time.
#pragma once

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/loop.h"
#include "bench/threads.h"
#include "bench/world.h"

namespace kmem::bench {

struct SocketObject {
  const char* cache;
  std::size_t bytes;
  slab_flags_t flags;
  gfp_t gfp;  // beside gfp::kernel
};
// Those that the kernel asks to be zeroed carry gfp::zero; TCP and filp objects are cleared by
// whoever opens, since readers may still look at a type-safe object while it is free.
inline constexpr std::array<SocketObject, 6> socket_objects = {{
    {"sock_inode_cache", 768, slab_flag::hwcache_align | slab_flag::reclaim_account, 0},
    {"lsm_inode_cache", 32, 0, gfp::zero},
    {"TCP", 2304, slab_flag::hwcache_align | slab_flag::typesafe_by_rcu, 0},
    {"dentry", 192, slab_flag::reclaim_account, 0},
    {"filp", 184, slab_flag::hwcache_align | slab_flag::typesafe_by_rcu, 0},
    {"lsm_file_cache", 24, 0, gfp::zero},
}};
inline constexpr std::size_t socket_inode = 0, socket_lsm_inode = 1;
// In the order in which a close frees them.
inline constexpr std::array<std::size_t, 4> socket_freed_at_once = {2, 3, 5, 4};

// A worker's inodes that wait for RCU: at most so many, of which the oldest half is then freed.
inline constexpr std::size_t socket_deferred_max = 800;

template <ObjectWorld W>
class SocketLoop final : public Loop {
 public:
  explicit SocketLoop(const Job& job) : workers_(job.threads) {
    for (std::size_t i = 0; i < socket_objects.size(); ++i) {
      // One run holds such a loop for each number of workers.
      const std::string name =
          std::string(socket_objects[i].cache) + "-" + std::to_string(workers_);
      CacheSpec spec;
      spec.name = name.c_str();
      spec.object_bytes = socket_objects[i].bytes;
      spec.flags = socket_objects[i].flags;
      caches_[i] = W::create(spec);
      if (caches_[i] != nullptr) continue;
      destroy();
      throw std::runtime_error("a cache of the socket run cannot be created");
    }
  }
  ~SocketLoop() override { destroy(); }
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  // Turn::objects: opens of each worker. The cost of one open and close: the time that all workers
  // take, shared out among all opens. values: that time in seconds; opens.
  Outcome run(const Turn& turn) override {
    const double opens = static_cast<double>(turn.objects) * workers_;
    const Sample cost = total_on_threads(workers_, opens, [&](unsigned) { work(turn.objects); });
    return {cost, {cost.ns * 1e-9 * opens, opens}};
  }

 private:
  using Sockets = std::array<void*, socket_objects.size()>;

  [[gnu::noinline]] void work(std::uint64_t opens) {
    std::vector<Sockets> deferred;
    deferred.reserve(socket_deferred_max);
    for (std::uint64_t i = 0; i < opens; ++i) {
      Sockets socket{};
      if (!open(socket)) [[unlikely]] {
        free_inodes(deferred, deferred.size());
        throw std::runtime_error("no memory in the socket run");
      }
      close(socket, deferred);
    }
    free_inodes(deferred, deferred.size());
  }

  // All of them, or none.
  bool open(Sockets& socket) {
    for (std::size_t i = 0; i < socket.size(); ++i) {
      const SocketObject& kind = socket_objects[i];
      socket[i] = W::alloc(caches_[i], gfp::kernel | kind.gfp);
      if (socket[i] == nullptr) [[unlikely]] {
        while (i > 0) --i, W::free(caches_[i], socket[i]);
        return false;
      }
      if ((kind.flags & slab_flag::typesafe_by_rcu) != 0) {
        std::memset(socket[i], 0, kind.bytes);
        asm volatile("" : : "r"(socket[i]) : "memory");
      }
    }
    return true;
  }

  void close(const Sockets& socket, std::vector<Sockets>& deferred) {
    for (const std::size_t i : socket_freed_at_once) W::free(caches_[i], socket[i]);
    deferred.push_back(socket);
    if (deferred.size() == socket_deferred_max) free_inodes(deferred, socket_deferred_max / 2);
  }

  // Of the oldest n.
  void free_inodes(std::vector<Sockets>& deferred, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      W::free(caches_[socket_inode], deferred[i][socket_inode]);
      W::free(caches_[socket_lsm_inode], deferred[i][socket_lsm_inode]);
    }
    deferred.erase(deferred.begin(), deferred.begin() + static_cast<std::ptrdiff_t>(n));
  }

  void destroy() {
    for (auto* cache : caches_)
      if (cache != nullptr) W::destroy(cache);
  }

  unsigned workers_;
  std::array<typename W::Cache*, socket_objects.size()> caches_{};
};

}  // namespace kmem::bench
