#include "bench/memory_series.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

namespace kmem::bench {

namespace {

constexpr std::size_t numbers_per_sample = 4;

}  // namespace

const char* text(Phase phase) noexcept {
  static constexpr std::array<const char*, phase_count> names = {
      "start", "fill", "half free", "refill", "free all", "shrink", "passing"};
  return names[static_cast<std::size_t>(phase)];
}

std::vector<double> pack(std::span<const MemorySample> samples) {
  std::vector<double> values;
  values.reserve(samples.size() * numbers_per_sample);
  for (const MemorySample& sample : samples)
    for (const double value :
         {static_cast<double>(sample.phase), sample.seconds, sample.rss_bytes, sample.slab_bytes})
      values.push_back(value);
  return values;
}

std::vector<MemorySample> unpack(std::span<const double> values) {
  if (values.size() % numbers_per_sample != 0)
    throw std::runtime_error("a series of memory samples is cut");
  std::vector<MemorySample> samples;
  for (; !values.empty(); values = values.subspan(numbers_per_sample)) {
    if (!(values[0] >= 0 && values[0] < static_cast<double>(phase_count)))
      throw std::runtime_error("a memory sample is of no phase");
    const auto phase = static_cast<Phase>(static_cast<std::uint32_t>(values[0]));
    samples.push_back({phase, values[1], values[2], values[3]});
  }
  return samples;
}

ResidentSet::ResidentSet()
    : fd_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)),
      page_bytes_(static_cast<double>(::sysconf(_SC_PAGESIZE))) {
  if (fd_ < 0) throw std::runtime_error("/proc/self/statm cannot be opened");
}

ResidentSet::~ResidentSet() { ::close(fd_); }

// "size resident shared ...", in pages.
double ResidentSet::bytes() const {
  char line[256];
  const ssize_t got = ::pread(fd_, line, sizeof line - 1, 0);
  if (got <= 0) throw std::runtime_error("/proc/self/statm cannot be read");
  line[got] = '\0';
  char* resident = nullptr;
  std::strtoull(line, &resident, 10);
  return static_cast<double>(std::strtoull(resident, nullptr, 10)) * page_bytes_;
}

}  // namespace kmem::bench
