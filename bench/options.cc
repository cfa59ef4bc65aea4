#include "bench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <map>

#include "bench/loop.h"
#include "bench/option_values.h"
#include "common/pages/page.h"

namespace kmem::bench {

namespace po = boost::program_options;

namespace {

enum : unsigned {
  in_list = 1,
  in_bulk = 2,
  in_replay = 4,
  in_geometry = 8,
  in_remote = 16,
  in_fastpath = 32,
  in_hackbench = 64,
  in_socket = 128,
  in_node = 256,
  in_footprint = 512,
  in_all = 1023
};

struct Command {
  const char* name;
  unsigned bit;
  const char* arguments;
  const char* question;
};
constexpr Command commands[] = {
    {"list", in_list, "", "what do this build and machine have?"},
    {"bulk", in_bulk, "", "what does bulk buy?"},
    {"replay", in_replay, " FILE...", "which design suits my load?"},
    {"geometry", in_geometry, "", "what does each design choose for my object sizes?"},
    {"remote", in_remote, "", "what does a free on another CPU cost?"},
    {"fastpath", in_fastpath, "", "what does the synchronisation of the fast path cost?"},
    {"hackbench", in_hackbench, "", "groups of senders and receivers: what does a message cost?"},
    {"socket", in_socket, "", "what does a storm of opens and closes of sockets cost?"},
    {"node", in_node, "", "what does a shared cache line cost? (SLUB)"},
    {"footprint", in_footprint, "", "how much memory per live byte, at the peak, and after it?"}};

using Apply = void (*)(Settings&, const std::string& option, const std::string& text);

struct Option {
  const char* name;
  const char* argument;  // empty: a switch
  const char* fallback;  // shown in the help; the value that Settings starts with
  const char* help;
  unsigned commands;
  Apply apply;
};

constexpr std::size_t kmalloc_max_bytes = pages::max_block_bytes;
constexpr std::size_t batch_max = 65536;
constexpr std::size_t working_set_max = std::size_t{1} << 40;

void set_format(Settings& s, const std::string& option, const std::string& text) {
  static constexpr const char* names[] = {"table", "csv", "json"};
  const std::string name = parse_choice(option, text, names);
  s.format = name == "json" ? Format::json : name == "csv" ? Format::csv : Format::table;
}

// Names are looked for when the run begins: which there are is the machine's business.
void set_rivals(Settings& s, const std::string& option, const std::string& text) {
  if (text == "none") return;
  s.rivals = parse_names(option, text);
}

void add_rival(Settings& s, const std::string& option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    throw BadRequest(fmt::format("{}: '{}' is not NAME=FILE.so", option, text));
  std::string path = text.substr(equals + 1);
  if (path.find_first_of(" :") != std::string::npos)
    throw BadRequest(fmt::format(
        "{}: '{}': a file to preload may have neither space nor colon in its path", option, path));
  s.rival_files.emplace_back(text.substr(0, equals), std::move(path));
}

// Numbers; for the subcommand bulk also the word random.
void set_batches(Settings& s, const std::string& option, const std::string& text) {
  for (const std::string& name : parse_names(option, text)) {
    const bool random = name == "random" && s.command == "bulk";
    s.batches.push_back(random ? random_batch : parse_unsigned(option, name, 1, batch_max));
  }
}

void set_threads(Settings& s, const std::string& option, const std::string& text) {
  for (const std::size_t value : parse_unsigned_list(option, text, 1, 1024)) {
    const auto threads = static_cast<unsigned>(value);
    const bool is_there =
        std::find(s.thread_counts.begin(), s.thread_counts.end(), threads) != s.thread_counts.end();
    if (is_there)
      throw BadRequest(fmt::format("{}: {} stands twice; give each once", option, threads));
    s.thread_counts.push_back(threads);
  }
  s.threads = s.thread_counts.front();
}

void set_transport(Settings& s, const std::string& option, const std::string& text) {
  static constexpr const char* names[] = {"queue", "socket"};
  s.over_sockets = parse_choice(option, text, names) == "socket";
}

void set_file(std::string& target, const std::string& option, const std::string& text) {
  if (text.empty()) throw BadRequest(fmt::format("{}: a file name is needed", option));
  target = text;
}

// clang-format off
using S = Settings&;
using T = const std::string&;
constexpr Option options[] = {
  {"backend", "NAME[,NAME]|all", "all", "slab, slub, slob, slqb",
   in_all & ~in_node, [](S s, T o, T t) { s.backends = parse_choices(o, t, backend_names); }},
  {"policy", "NAME", "rseq; replay: virtual", "rseq, locked, virtual; for slub also atomic",
   in_list | in_bulk | in_replay | in_remote | in_hackbench | in_socket | in_footprint,
   [](S s, T o, T t) { s.policy = parse_choice(o, t, policy_names); }},
  {"rivals", "none|all|NAME[,NAME]", "none", "others to compare with: those that list names",
   in_bulk | in_remote | in_hackbench | in_socket | in_footprint, set_rivals},
  {"rival", "NAME=FILE.so", "none", "one more malloc, to be preloaded; may be given several times",
   in_bulk | in_remote | in_hackbench | in_socket | in_footprint, add_rival},
  {"patience", "SECONDS", "60; footprint: 600",
   "with a rival that does not answer; footprint: with any subject",
   in_bulk | in_remote | in_hackbench | in_socket | in_footprint,
   [](S s, T o, T t) { s.patience_seconds = parse_seconds(o, t); }},
  {"size", "BYTES[,..]", "256; footprint: 64; geometry, fastpath: of kmalloc",
   "object sizes", in_bulk | in_geometry | in_remote | in_fastpath | in_footprint,
   [](S s, T o, T t) { s.sizes = parse_unsigned_list(o, t, 1, kmalloc_max_bytes); }},
  {"bulk", "N[,..]", "1,2,3,4,8,16,30,..,250; remote: 1,32,128",
   "batch sizes; bulk: also random, each drawn from 1 to 128", in_bulk | in_remote, set_batches},
  {"working-set", "BYTES[,..]", "none",
   "free the oldest of so many bytes of live objects, not the newest batch",
   in_bulk, [](S s, T o, T t) { s.working_sets = parse_unsigned_list(o, t, 1, working_set_max); }},
  {"published", "", "", "the published table whole, below (socket, node: always)",
   in_bulk | in_fastpath | in_socket | in_node, [](S s, T, T) { s.published = true; }},
  {"abi", "", "", "also the backends through the C interface of their shared libraries",
   in_bulk | in_remote | in_hackbench | in_socket, [](S s, T, T) { s.abi = true; }},
  {"steps", "", "", "batches of 1, 2, 4, .., 1024 too (always with the default batches)",
   in_bulk, [](S s, T, T) { s.steps = true; }},
  {"threads", "N", "1; socket: 1,8", "threads that do the same at once; socket: N[,..]",
   in_bulk | in_replay | in_socket, set_threads},
  {"rounds", "N", "31; replay: 7; remote, fastpath, hackbench, socket: 15",
   "rounds, in each of which all competitors take turns",
   in_bulk | in_replay | in_remote | in_fastpath | in_hackbench | in_socket | in_node,
   [](S s, T o, T t) { s.rounds = parse_unsigned(o, t, 1, 100000); }},
  {"seconds", "S", "no limit", "stop after the round in which this time is over",
   in_bulk | in_replay | in_remote | in_fastpath | in_hackbench | in_socket | in_node,
   [](S s, T o, T t) { s.seconds = parse_seconds(o, t); }},
  {"seed", "N", "1", "of random choices (footprint; bulk: random batches, working sets)",
   in_bulk | in_replay | in_footprint,
   [](S s, T o, T t) { s.seed = parse_unsigned(o, t, 0, UINT64_MAX); }},
  {"groups", "N", "1", "groups of senders and receivers (the kernel's tool: 10)",
   in_hackbench | in_node,
   [](S s, T o, T t) { s.groups = static_cast<unsigned>(parse_unsigned(o, t, 1, 64)); }},
  {"pairs", "N", "1", "senders, and as many receivers, of a group (the kernel's tool: 20)",
   in_hackbench | in_node,
   [](S s, T o, T t) { s.pairs = static_cast<unsigned>(parse_unsigned(o, t, 1, 64)); }},
  {"loops", "N", "20000", "messages from each sender to each receiver of its group, a turn",
   in_hackbench | in_node, [](S s, T o, T t) { s.loops = parse_unsigned(o, t, 1, 10'000'000); }},
  {"message", "BYTES", "100", "bytes of a message",
   in_hackbench | in_node, [](S s, T o, T t) { s.message_bytes = parse_unsigned(o, t, 1, 65536); }},
  {"transport", "queue|socket", "queue",
   "what carries the messages: lock-free rings, or socket pairs",
   in_hackbench | in_node, set_transport},
  {"objects", "N", "10000000; slob: 1000000", "live objects at the peak",
   in_footprint, [](S s, T o, T t) { s.objects = parse_unsigned(o, t, 2, 1'000'000'000); }},
  {"no-touch", "", "", "do not write to the objects, nor zero them",
   in_replay, [](S s, T, T) { s.touch = false; }},
  {"slabinfo-out", "FILE", "none",
   "slabinfo text of all caches at the end of the trace; -BACKEND is added for several",
   in_replay, [](S s, T o, T t) { set_file(s.slabinfo_out, o, t); }},
  {"cpus", "N", "this machine's; replay: the trace's", "CPUs to choose for",
   in_replay | in_geometry,
   [](S s, T o, T t) { s.cpus = static_cast<unsigned>(parse_unsigned(o, t, 1, 4096)); }},
  {"nodes", "N", "the trace's", "memory nodes of the virtual machine",
   in_replay, [](S s, T o, T t) { s.nodes = static_cast<int>(parse_unsigned(o, t, 1, 64)); }},
  {"align", "BYTES", "none", "alignment asked for",
   in_geometry, [](S s, T o, T t) { s.align = parse_align(o, t); }},
  {"flags", "NAME[,NAME]", "none", "HWCACHE_ALIGN, TYPESAFE_BY_RCU, RECLAIM_ACCOUNT, ACCOUNT, ...",
   in_geometry, [](S s, T o, T t) { s.flags = parse_flags(o, t); }},
  {"ctor", "", "", "the objects have a constructor",
   in_geometry, [](S s, T, T) { s.constructor = true; }},
  {"check", "FILE.csv", "none", "compare SLUB's choice with a kernel's: exit 1 if any row differs",
   in_geometry, [](S s, T o, T t) { set_file(s.check, o, t); }},
  {"format", "table|csv|json", "table", "shape of the report", in_all, set_format},
  {"output", "FILE", "standard output", "where the report goes",
   in_all, [](S s, T o, T t) { set_file(s.output, o, t); }},
  {"report", "FILE.html", "none", "the tables as a web page too",
   in_all, [](S s, T o, T t) { set_file(s.html, o, t); }},
  {"quiet", "", "", "no progress bar (there is none either where standard error is no terminal)",
   in_all, [](S s, T, T) { s.quiet = true; }},
};
// clang-format on

std::string command_names() {
  std::string all;
  for (const Command& command : commands)
    all += fmt::format("{}{}", all.empty() ? "" : ", ", command.name);
  return all;
}

const Command& find_command(const std::string& name) {
  for (const Command& command : commands)
    if (name == command.name) return command;
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  const std::string near = nearest(name, names);
  if (!near.empty())
    throw BadRequest(fmt::format("no subcommand '{}': is '{}' meant?", name, near));
  throw BadRequest(fmt::format("no subcommand '{}': there are {}", name, command_names()));
}

std::string spelled(const Option& option) { return fmt::format("--{}", option.name); }

// An option of another subcommand is not the same mistake as one that does not exist.
[[noreturn]] void refuse_unknown(const Command& command, const std::string& given) {
  std::vector<std::string> names;
  for (const Option& option : options) {
    if (given == spelled(option))
      throw BadRequest(fmt::format("{} does not apply to {}; see kmem-bench {} --help", given,
                                   command.name, command.name));
    if ((option.commands & command.bit) != 0) names.push_back(spelled(option));
  }
  const std::string near = nearest(given, names);
  if (!near.empty()) throw BadRequest(fmt::format("no option '{}': is '{}' meant?", given, near));
  throw BadRequest(fmt::format("no option '{}'; see kmem-bench {} --help", given, command.name));
}

po::options_description describe(const Command& command) {
  po::options_description description;
  for (const Option& option : options) {
    if ((option.commands & command.bit) == 0) continue;
    if (*option.argument == 0)
      description.add_options()(option.name, option.help);
    else
      description.add_options()(option.name, po::value<std::string>(), option.help);
  }
  description.add_options()("help", "this");
  description.add_options()("file", po::value<std::vector<std::string>>(), "");
  return description;
}

// Values by option, spelled without dashes; switches have none. Boost checks the shape of the
// command line only: what a value means is the table's business.
using Values = std::map<std::string, std::vector<std::string>>;

Values parse(const Command& command, const std::vector<std::string>& arguments) {
  const po::options_description description = describe(command);
  po::positional_options_description positional;
  positional.add("file", -1);
  const auto style =
      po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::command_line_parser parser(arguments);
  Values values;
  try {
    for (const po::option& option :
         parser.options(description).positional(positional).style(style).run().options) {
      auto& there = values[option.string_key];
      if (!there.empty() && option.string_key != "file" && option.string_key != "rival")
        throw BadRequest(fmt::format("--{} is given twice; give it once", option.string_key));
      there.insert(there.end(), option.value.begin(), option.value.end());
    }
  } catch (const po::unknown_option& error) {
    refuse_unknown(command, error.get_option_name());
  } catch (const po::error& error) {
    throw BadRequest(fmt::format("{}; see kmem-bench {} --help", error.what(), command.name));
  }
  return values;
}

void check_policy(const Settings& settings) {
  const bool only_slub = settings.backends.size() == 1 && settings.backends.front() == "slub";
  if (settings.policy == "atomic" && !only_slub)
    throw BadRequest("--policy: 'atomic' is SLUB's alone; add --backend slub");
  if (settings.command != "replay") return;
  if (!settings.policy.empty() && settings.policy != "virtual")
    throw BadRequest(fmt::format(
        "--policy: replay puts each event on its traced CPU, which takes 'virtual', not '{}'",
        settings.policy));
  if (settings.threads != 1)
    throw BadRequest("--threads: replay is serial, in the order of the trace; only 1 is possible");
}

void check_threads(const Settings& settings) {
  if (settings.thread_counts.size() > 1 && settings.command != "socket")
    throw BadRequest(fmt::format("--threads: {} takes one number", settings.command));
  constexpr unsigned threads_max = 1024;
  const unsigned threads = 2 * settings.groups * settings.pairs;
  if (threads > threads_max)
    throw BadRequest(
        fmt::format("--groups {} with --pairs {} are {} threads; at most {} are possible",
                    settings.groups, settings.pairs, threads, threads_max));
}

void check_files(const Settings& settings) {
  const bool takes_files = settings.command == "replay";
  if (takes_files && settings.files.empty())
    throw BadRequest("replay: at least one trace is needed: kmem-bench replay FILE...");
  if (!takes_files && !settings.files.empty())
    throw BadRequest(fmt::format("{} takes no file names ('{}'); see kmem-bench {} --help",
                                 settings.command, settings.files.front(), settings.command));
}

}  // namespace

bool Settings::has_backend(const std::string& name) const {
  return std::find(backends.begin(), backends.end(), name) != backends.end();
}

std::string help(const std::string& name) {
  std::string text;
  if (name.empty()) {
    text = "usage: kmem-bench SUBCOMMAND [options]; kmem-bench SUBCOMMAND --help\n\n";
    for (const Command& command : commands)
      text += fmt::format("  {:<10} {}\n", command.name, command.question);
    return text + "\nExit status: 0 measured, 1 a run failed, 2 a bad request.\n";
  }
  const Command& command = find_command(name);
  text = fmt::format("usage: kmem-bench {}{} [options]: {}\n\n", command.name, command.arguments,
                     command.question);
  for (const Option& option : options) {
    if ((option.commands & command.bit) == 0) continue;
    text += fmt::format("  {:<26} {}\n", fmt::format("--{} {}", option.name, option.argument),
                        option.help);
    if (*option.fallback != 0) text += fmt::format("  {:<26} (default: {})\n", "", option.fallback);
  }
  return text + fmt::format("  {:<26} this text\n", "--help");
}

std::optional<Settings> parse_command_line(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.empty())
    throw BadRequest(fmt::format("a subcommand is needed: {}; see --help", command_names()));
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    fmt::print("{}", help(""));
    return std::nullopt;
  }
  const Command& command = find_command(arguments[0]);
  const Values values = parse(command, {arguments.begin() + 1, arguments.end()});
  if (values.count("help") != 0) {
    fmt::print("{}", help(command.name));
    return std::nullopt;
  }
  Settings settings;
  settings.command = command.name;
  if (command.bit == in_footprint) settings.patience_seconds = 600;
  settings.backends.assign(std::begin(backend_names), std::end(backend_names));
  for (const Option& option : options) {
    if (values.count(option.name) == 0) continue;
    if (*option.argument == 0) option.apply(settings, spelled(option), "");
    for (const std::string& value : values.at(option.name))
      option.apply(settings, spelled(option), value);
  }
  if (values.count("file") != 0) settings.files = values.at("file");
  check_policy(settings);
  check_threads(settings);
  check_files(settings);
  return settings;
}

}  // namespace kmem::bench
