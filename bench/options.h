// The command line: one table of options, from which the parser, --help and the README's table are
// made. What is out of range is refused, never clamped; a bad request is one line and exit
// status 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/flags.h"

namespace kmem::bench {

enum class Format { table, csv, json };

struct Settings {
  std::string command;
  std::vector<std::string> backends;  // in the order slab, slub, slob, slqb unless told
  std::vector<std::string> rivals;    // names, or all; empty: none
  std::vector<std::pair<std::string, std::string>> rival_files;  // name, path
  double patience_seconds = 60;                                  // with a rival's process
  std::string policy;                                            // empty: the subcommand's own
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> batches;       // random_batch among them: of drawn sizes
  std::vector<std::size_t> working_sets;  // empty: none
  bool published = false;                 // their table as well
  bool abi = false;                       // the backends through their shared libraries too
  bool steps = false;                     // always when no batches are told
  unsigned threads = 1;                   // the first of:
  std::vector<unsigned> thread_counts;    // empty: the subcommand's own
  std::size_t rounds = 0;                 // 0: the subcommand's own
  double seconds = 0;                     // 0: no limit
  std::uint64_t seed = 1;
  Format format = Format::table;
  std::string output, html;  // empty: standard output; none
  bool quiet = false;
  bool touch = true;
  std::string slabinfo_out;
  unsigned cpus = 0;  // 0: the machine's
  int nodes = 0;      // 0: the trace's
  std::size_t align = 0;
  slab_flags_t flags = 0;
  bool constructor = false;
  std::string check;
  std::vector<std::string> files;
  unsigned groups = 1, pairs = 1;  // of senders and receivers
  std::uint64_t loops = 20000;     // messages from each sender to each receiver of its group
  std::size_t message_bytes = 100;
  bool over_sockets = false;
  std::uint64_t objects = 0;  // live at the peak; 0: the subject's own

  bool has_backend(const std::string& name) const;
};

// what() is the line to print; the status is 2.
class BadRequest : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline const char* const backend_names[] = {"slab", "slub", "slob", "slqb"};
inline const char* const policy_names[] = {"rseq", "locked", "virtual", "atomic"};

// Empty: help was asked for and printed. Throws BadRequest.
std::optional<Settings> parse_command_line(int argc, const char* const* argv);

std::string help(const std::string& command);  // empty: of the whole program

}  // namespace kmem::bench
