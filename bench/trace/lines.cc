#include "bench/trace/lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/iostreams/categories.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <cerrno>
#include <cstring>

#include "bench/trace/zstd_frames.h"

namespace kmem::bench::trace {

namespace io = boost::iostreams;

namespace {

constexpr std::size_t chunk_bytes = 256 << 10;
constexpr std::size_t magic_bytes = 6;  // of the longest magic, xz's
// No format has longer lines; a file of one endless line is no trace.
constexpr std::size_t line_bytes_max = 1 << 20;

struct Compression {
  const char* name;
  std::string_view magic;
};
constexpr Compression plain{"none", ""};
constexpr Compression compressions[] = {{"xz", std::string_view("\xFD\x37zXZ\0", 6)},
                                        {"gzip", "\x1F\x8B"},
                                        {"zstd", "\x28\xB5\x2F\xFD"}};

const Compression& detect(std::string_view head) noexcept {
  for (const Compression& compression : compressions)
    if (head.starts_with(compression.magic)) return compression;
  return plain;
}

}  // namespace

// The compressed bytes, by descriptor: what was read to detect the compression, then the rest.
struct LineSource::Stream {
  struct Device {
    using char_type = char;
    using category = io::source_tag;
    Stream* stream;
    std::streamsize read(char* out, std::streamsize count) { return stream->read_raw(out, count); }
  };

  explicit Stream(const std::string& path);
  ~Stream() { ::close(descriptor); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::streamsize read_raw(char* out, std::streamsize count);
  [[noreturn]] void fail(const char* what) const;

  std::string path;
  int descriptor = -1;
  std::string head;
  std::size_t head_used = 0;
  const Compression* compression = &plain;
  ZstdFrames frames;
  bool read_failed = false;
  io::filtering_istreambuf text;
};

LineSource::Stream::Stream(const std::string& file_path)
    : path(file_path), descriptor(::open(file_path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor < 0)
    throw TraceError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode))
    throw TraceError(fmt::format("{} is a directory, not a trace", path));
  head.resize(magic_bytes);
  std::size_t have = 0;
  while (have < magic_bytes) {
    const ssize_t got = ::read(descriptor, head.data() + have, magic_bytes - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw TraceError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  head.resize(have);
  if (have == 0) throw TraceError(fmt::format("{} is empty", path));
  compression = &detect(head);
  const std::string_view name = compression->name;
  if (name == "xz") text.push(io::lzma_decompressor());
  if (name == "gzip") text.push(io::gzip_decompressor());
  if (name == "zstd") text.push(io::zstd_decompressor());
  text.push(Device{this});
}

std::streamsize LineSource::Stream::read_raw(char* out, std::streamsize count) {
  std::streamsize got = 0;
  if (head_used < head.size()) {
    got = std::min<std::streamsize>(count, static_cast<std::streamsize>(head.size() - head_used));
    std::copy_n(head.data() + head_used, got, out);
    head_used += static_cast<std::size_t>(got);
  } else {
    do got = ::read(descriptor, out, static_cast<std::size_t>(count));
    while (got < 0 && errno == EINTR);
  }
  if (got < 0) read_failed = true;
  if (got > 0 && compression->name == std::string_view("zstd"))
    frames.feed(out, static_cast<std::size_t>(got));
  return got > 0 ? got : -1;
}

void LineSource::Stream::fail(const char* what) const {
  throw TraceError(fmt::format("{}: {} (compression: {})", path, what, compression->name));
}

LineSource::LineSource(const std::string& path) : stream_(std::make_unique<Stream>(path)) {}
LineSource::~LineSource() = default;

const char* LineSource::compression() const noexcept { return stream_->compression->name; }

// More text behind the unread part; false at the end of the file.
bool LineSource::fill() {
  buffer_.erase(0, begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ > line_bytes_max)
    throw TraceError(fmt::format("{}: a line of more than {} bytes: is it a trace?", stream_->path,
                                 line_bytes_max));
  buffer_.resize(end_ + chunk_bytes);
  std::streamsize got = 0;
  try {
    got = stream_->text.sgetn(buffer_.data() + end_, chunk_bytes);
  } catch (const std::exception&) {
    stream_->fail("the compressed data is damaged or cut short");
  }
  if (stream_->read_failed) stream_->fail(std::strerror(EIO));
  buffer_.resize(end_ + static_cast<std::size_t>(std::max<std::streamsize>(got, 0)));
  end_ = buffer_.size();
  if (got > 0) return true;
  at_end_ = true;
  if (stream_->compression->name == std::string_view("zstd") && !stream_->frames.between_frames())
    stream_->fail("the compressed data is cut short");
  return false;
}

bool LineSource::next(std::string_view& line, bool& complete) {
  std::size_t searched = begin_;
  for (;;) {
    const std::size_t newline = buffer_.find('\n', searched);
    if (newline != std::string::npos) {
      line = {buffer_.data() + begin_, newline - begin_};
      if (line.ends_with('\r')) line.remove_suffix(1);
      begin_ = newline + 1;
      complete = true;
      return true;
    }
    const std::size_t unread = end_ - begin_;
    if (at_end_ || !fill()) break;
    searched = unread;
  }
  if (begin_ == end_) return false;
  line = {buffer_.data() + begin_, end_ - begin_};
  begin_ = end_;
  complete = false;
  return true;
}

}  // namespace kmem::bench::trace
