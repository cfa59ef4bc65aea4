#include "api/slabinfo.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/log.h"

namespace kmem {

SlabinfoWriter::SlabinfoWriter(int fd) noexcept : fd_(fd) {
  append("slabinfo - version: 2.1\n");
  append(
      "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables "
      "<limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n");
}

void SlabinfoWriter::row(const char* name, const Geometry& geometry, const CacheUsage& usage,
                         const Tunables& tunables) noexcept {
  char line[512];
  format_line(line, sizeof(line),
              "%-17s %6zu %6zu %6u %4u %4d : tunables %4u %4u %4u : slabdata %6zu %6zu %6zu\n",
              name, usage.active_objects, usage.total_objects,
              static_cast<unsigned>(geometry.slot_bytes), geometry.objects, 1 << geometry.order,
              tunables.limit, tunables.batchcount,
              static_cast<unsigned>(tunables.shared > 0 ? tunables.shared : 0), usage.active_slabs,
              usage.slabs, usage.shared_available);
  append(line);
}

int SlabinfoWriter::finish() noexcept {
  flush();
  if (error_ == 0) return 0;
  errno = error_;
  return -1;
}

void SlabinfoWriter::append(const char* text) noexcept {
  const std::size_t bytes = std::strlen(text);
  if (bytes > buffer_bytes - used_) flush();
  std::memcpy(buffer_ + used_, text, bytes);
  used_ += bytes;
}

// Goes on after a partial write and EINTR; gives up at the first other error.
void SlabinfoWriter::flush() noexcept {
  std::size_t done = 0;
  while (done < used_ && error_ == 0) {
    const ssize_t written = ::write(fd_, buffer_ + done, used_ - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  used_ = 0;
}

}  // namespace kmem
