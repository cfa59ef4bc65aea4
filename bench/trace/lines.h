// Lines of a text file, plain or compressed by xz, gzip or zstd: told apart by the first bytes,
// never by the name. Reads files and pipes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bench/trace/event.h"

namespace kmem::bench::trace {

class LineSource {
 public:
  // Throws TraceError if the file cannot be read or is empty.
  explicit LineSource(const std::string& path);
  ~LineSource();

  // The next line without its end, valid until the next call. complete is false for a last line
  // that has no line end: the file was cut there. False at the end; throws TraceError where the
  // compression is damaged or cut.
  bool next(std::string_view& line, bool& complete);

  const char* compression() const noexcept;  // "xz", "gzip", "zstd" or "none"

 private:
  struct Stream;
  bool fill();

  std::unique_ptr<Stream> stream_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;  // unread part of buffer_
  bool at_end_ = false;
};

}  // namespace kmem::bench::trace
