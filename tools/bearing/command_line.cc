#include "command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bearing/whole_files.hpp>
#include <map>

#include "arguments.hpp"
#include "errors.hpp"

namespace bearing::tool {
namespace {

constexpr const char* footer =
    "Examples:\n"
    "  bearing config config.json                what a model does with positions\n"
    "  bearing config config.json --json | jq '.groups[0].inv_freq'\n"
    "  bearing rotate --config config.json --q q.npy --k k.npy --positions 4096 \\\n"
    "                 --out-q q_rotated.npy --out-k k_rotated.npy\n"
    "  bearing attend --q q.npy --k k.npy --v v.npy --mask causal \\\n"
    "                 --encoding alibi --out o.npy\n"
    "  bearing check rope                        what an encoding does, measured\n"
    "  bearing compare alibi rope t5             the same of several, side by side\n"
    "\n"
    "Exit status: 0 done, 1 a check failed, 2 a wrong command line,\n"
    "3 a file that cannot be read, understood or written.";

/// Options that had another name once.
const std::map<std::string, std::string>& renamed() {
  static const std::map<std::string, std::string> names = {{"--offset", "--positions"},
                                                           {"--first", "--positions"},
                                                           {"--seq-len", "--length"},
                                                           {"--q-at", "--q-positions"},
                                                           {"--k-at", "--k-positions"}};
  return names;
}

CLI::Option* add(CLI::App& app, const Option& option) {
  const auto to = [&](auto* value) -> CLI::Option* {
    if constexpr (std::is_same_v<decltype(value), bool*>) {
      return app.add_flag(option.names, *value, option.help);
    } else {
      return app.add_option(option.names, *value, option.help)->type_name(option.type);
    }
  };
  CLI::Option* added = std::visit(to, option.value);
  // Each value of an option that can be there several times has the option's name before it.
  if (std::holds_alternative<std::vector<std::string>*>(option.value) && !option.positional()) {
    added->allow_extra_args(false);
  }
  return added->required(option.required);
}

void fill(CLI::App& app, const Command& command) {
  app.set_help_flag("-h,--help", "This help");
  app.get_formatter()->column_width(26);
  app.footer(command.footer);
  app.allow_extras();
  for (const Option& option : command.options) add(app, option);
}

const Option* find(const Command& command, const std::string& name) {
  for (const Option& option : command.options) {
    if (option.name() == name) return &option;
  }
  return nullptr;
}

void check_leftovers(const Command& command, const std::vector<std::string>& left) {
  if (left.empty()) return;
  const std::string word = left.front().substr(0, left.front().find('='));
  if (word.rfind('-', 0) != 0) {
    throw UsageError(fmt::format("{}: '{}' is one argument too many", command.name, word));
  }
  const auto now = renamed().find(word);
  if (now != renamed().end() && find(command, now->second) != nullptr) {
    throw UsageError(fmt::format("{}: {} is called {} now", command.name, word, now->second));
  }
  std::vector<std::string> known = {"--help"};
  for (const Option& option : command.options) {
    if (!option.positional()) known.push_back(option.name());
  }
  throw UsageError(fmt::format("{}: '{}' is not an option{}", command.name, word, suggestion(word, known)));
}

/// "--out=": CLI11 would take the next word for the value.
void check_equals(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.rfind("--", 0) == 0 && word.size() > 2 && word.find('=') == word.size() - 1) {
      throw UsageError(word.substr(0, word.size() - 1) + ": must not be empty");
    }
  }
}

void check_value(const Option& option, const std::string& value) {
  if (value.empty()) throw UsageError(option.name() + ": must not be empty");
  if (option.takes == Takes::word && std::find(option.words.begin(), option.words.end(), value) == option.words.end()) {
    const std::string words = option.listed.empty() ? either(option.words) : option.listed;
    throw UsageError(
        fmt::format("{}: must be {}, got '{}'{}", option.name(), words, value, suggestion(value, option.words)));
  }
}

/// What CLI11 says for people.
[[noreturn]] void refuse(const std::string& text) {
  const std::string option = text.substr(0, text.find(':'));
  // "--k: At most 1 required but received 2", "--layer: 1 required N missing"
  throw UsageError(option +
                   (text.find("received") != std::string::npos ? " is there more than once" : " needs a value"));
}

}  // namespace

const Command& command_named(const std::vector<Command>& all, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : all) {
    if (command.name == word) return command;
    names.push_back(command.name);
  }
  if (word.empty()) throw UsageError(fmt::format("a command is needed: {}", fmt::join(names, ", ")));
  names.insert(names.end(), {"--help", "--version"});
  throw UsageError(fmt::format("'{}' is not a command{}", word, suggestion(word, names)));
}

std::optional<std::string> parse(const Command& command, const std::vector<std::string>& words) {
  CLI::App app{command.summary, "bearing " + command.name};
  fill(app, command);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ArgumentMismatch& error) {
    check_equals(words);
    refuse(error.what());
  } catch (const CLI::ParseError& error) {
    check_equals(words);
    check_leftovers(command, app.remaining());
    throw UsageError(error.what());
  }
  check_equals(words);
  check_leftovers(command, app.remaining());
  std::vector<std::pair<std::string, std::string>> outputs;
  for (const Option& option : command.options) {
    const CLI::Option* given = app.get_option(option.name());
    if (option.takes == Takes::nothing || given->count() == 0) continue;
    for (const std::string& value : given->results()) {
      check_value(option, value);
      if (option.takes == Takes::output) outputs.emplace_back(option.name(), value);
    }
  }
  check_different(outputs);
  return {};
}

std::string help_text(const Command& command) {
  CLI::App app{command.summary, "bearing " + command.name};
  fill(app, command);
  return app.help();
}

std::string help_text(const std::vector<Command>& all) {
  CLI::App app{"bearing: shows, measures and does what a transformer does with positions.", "bearing"};
  app.set_help_flag("-h,--help", "This help; also of each command");
  app.set_version_flag("-V,--version", "", "Version, SIMD target and build");
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);
  app.footer(footer);
  for (const Command& command : all) app.add_subcommand(command.name, command.summary);
  return app.help();
}

void check_different(const std::vector<std::pair<std::string, std::string>>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!same_file(outputs[i].second, outputs[j].second)) continue;
      throw UsageError(fmt::format("{} and {} must be different files, got {} and {}", outputs[j].first,
                                   outputs[i].first, outputs[j].second, outputs[i].second));
    }
  }
}

std::string in_options_words(const Command& command, const std::string& error) {
  const std::string text = without_function(error);
  if (text == error) return error;
  std::string option = "--" + text.substr(0, text.find(':'));
  const std::size_t length = option.size() - 2;
  std::replace(option.begin(), option.end(), '_', '-');
  return find(command, option) == nullptr ? text : option + text.substr(length);
}

}  // namespace bearing::tool
