#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bearing/error.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <new>

#include "arguments.hpp"
#include "commands.hpp"
#include "terminal.hpp"

// Exit status: 0 done, 1 a check failed, 2 a wrong command line, 3 a file that cannot be read, understood or written.

namespace bearing::tool {
namespace {

constexpr int check_failed = 1, usage_error = 2, bad_file = 3;

constexpr const char* footer =
    "Examples:\n"
    "  bearing config config.json                what a model does with positions\n"
    "  bearing config config.json --json | jq '.groups[0].inv_freq'\n"
    "  bearing rotate --config config.json --q q.npy --k k.npy --offset 4096 \\\n"
    "                 --out-q q_rotated.npy --out-k k_rotated.npy\n"
    "  bearing attend --q q.npy --k k.npy --v v.npy --mask causal \\\n"
    "                 --encoding alibi --out o.npy\n"
    "  bearing check rope                        what an encoding does, measured\n"
    "  bearing compare alibi rope t5             the same of several, side by side\n"
    "\n"
    "Exit status: 0 done, 1 a check failed, 2 a wrong command line,\n"
    "3 a file that cannot be read, understood or written.";

std::vector<std::string> names(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    all.push_back(command->get_name());
  }
  return all;
}

/// CLI11 would say "A subcommand is required" for a typing error.
void check_first_word(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) throw UsageError("a command is needed: " + fmt::format("{}", fmt::join(names(app), ", ")));
  const std::string word = argv[1];
  std::vector<std::string> known = names(app);
  known.insert(known.end(), {"-h", "--help", "--version"});
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  throw UsageError(fmt::format("'{}' is not a command{}", word, suggestion(word, known)));
}

void check_leftovers(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string word = left.front().substr(0, left.front().find('='));
  if (word.rfind('-', 0) != 0) {
    throw UsageError(fmt::format("{}: '{}' is one argument too many", command.get_name(), word));
  }
  throw UsageError(fmt::format("{}: '{}' is not an option{}", command.get_name(), word, suggestion(word, known)));
}

int run(int argc, char** argv) {
  CLI::App app{"bearing: what a transformer does with positions, and doing it.", "bearing"};
  app.set_help_flag("-h,--help", "This help; also of each command");
  app.set_version_flag("--version", version_text, "Version, SIMD target and build");
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);
  app.footer(footer);
  std::map<std::string, Action> actions;
  actions["config"] = add_config_command(app);
  actions["rotate"] = add_rotate_command(app);
  actions["attend"] = add_attend_command(app);
  actions["list"] = add_list_command(app);
  actions["check"] = add_check_command(app);
  actions["compare"] = add_compare_command(app);
  actions["table"] = add_table_command(app);
  actions["completion"] = add_completion_command(app);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) command->allow_extras();
  try {
    check_first_word(app, argc, argv);
    app.parse(argc, argv);
    const CLI::App* command = app.get_subcommands().front();
    check_leftovers(*command);
    actions.at(command->get_name())();
    return 0;
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print(version.what());
    return 0;
  } catch (const CLI::ArgumentMismatch& error) {  // "--seq-len: 1 required N missing"
    const std::string text = error.what();
    throw UsageError(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

int complain(const std::exception& error, int status) {
  fmt::print(stderr, "bearing: {}\n", printable(error.what()));
  if (status == usage_error) fmt::print(stderr, "See 'bearing --help'.\n");
  return status;
}

}  // namespace
}  // namespace bearing::tool

int main(int argc, char** argv) {
  using namespace bearing::tool;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is reported like a full disk
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    return complain(error, usage_error);
  } catch (const CheckFailed& error) {
    return complain(error, check_failed);
  } catch (const std::bad_alloc&) {
    return complain(std::runtime_error("not enough memory"), bad_file);
  } catch (const std::exception& error) {
    return complain(error, bad_file);
  }
}
