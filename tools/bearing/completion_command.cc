#include <fmt/format.h>

#include <algorithm>
#include <bearing/catalog.hpp>
#include <memory>

#include "commands.hpp"
#include "encoding_spec.hpp"
#include "errors.hpp"
#include "outputs.hpp"

namespace bearing::tool {
namespace {

using Words = std::vector<std::string>;

/// What an option's value may begin with; empty for files, numbers and the like.
Words words_of(const Option& option) {
  if (option.takes == Takes::spec) return readable_names();
  if (option.takes != Takes::encoding) return option.words;
  Words names;
  for (const Description& entry : inspect::catalog()) names.emplace_back(entry.name);
  return names;
}

bool is_file(const Option& option) { return option.takes == Takes::input || option.takes == Takes::output; }

/// "-o --out" → {"-o", "--out"}.
Words spellings(const Option& option) {
  const std::size_t comma = option.names.find(',');
  return comma == option.names.npos ? Words{option.names} : Words{option.names.substr(0, comma), option.name()};
}

/// What can stand where no value is due: options, and the words of what is positional.
Words words_of(const Command& command) {
  Words words = {"--help"};
  for (const Option& option : command.options) {
    const Words more = option.positional() ? words_of(option) : Words{option.name()};
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

/// Names of commands and options, and words, hold nothing that a shell would read as more than text.
std::string bash_script(const std::vector<Command>& all) {
  std::string cases;
  Words names = {"--help", "--version"};
  for (const Command& command : all) {
    names.push_back(command.name);
    cases += fmt::format("    '{} '*) words='{}' ;;\n", command.name, fmt::join(words_of(command), " "));
    std::string values;
    for (const Option& option : command.options) {
      if (option.positional() || option.takes == Takes::nothing) continue;
      for (const std::string& name : spellings(option)) {
        values += fmt::format("    '{} {}') words='{}' ;;\n", command.name, name, fmt::join(words_of(option), " "));
      }
    }
    cases.insert(0, values);  // the first pattern that fits counts
  }
  return fmt::format(
      "_bearing() {{\n"
      "  local words='{}' here=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  if [ \"$COMP_CWORD\" -gt 1 ]; then case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{}  esac; "
      "fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$here\"))\n"
      "}}\n"
      "complete -o default -F _bearing bearing\n",
      fmt::join(names, " "), cases);
}

/// In fish's single quotes.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "'";
}

std::string fish_option(const Command& command, const Option& option) {
  std::string line = fmt::format("complete -c bearing -n '__fish_seen_subcommand_from {}'", command.name);
  const Words words = words_of(option);
  if (!option.positional()) {
    for (const std::string& name : spellings(option)) {
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (option.takes != Takes::nothing) line += is_file(option) ? " -r -F" : " -x";
  } else if (is_file(option)) {
    line += " -F";
  }
  if (!words.empty()) line += fmt::format(" -a '{}'", fmt::join(words, " "));
  return line + " -d " + fish_quoted(option.help) + '\n';
}

std::string fish_script(const std::vector<Command>& all) {
  std::string script = "complete -c bearing -f\n";
  for (const Command& command : all) {
    script += fmt::format("complete -c bearing -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          fish_quoted(command.summary));
    for (const Option& option : command.options) script += fish_option(command, option);
  }
  return script;
}

}  // namespace

Command completion_command(const std::vector<Command>& all) {
  struct Options {
    std::string shell, out;
  };
  const auto o = std::make_shared<Options>();
  Command command{"completion", "Print a completion script for a shell"};
  command.word("SHELL", o->shell, "", {"bash", "zsh", "fish"}, "bash, zsh or fish").required = true;
  command.output("-o,--out", o->out, "Where the script goes; else standard output");
  command.footer = "Example: bearing completion bash > /etc/bash_completion.d/bearing";
  command.run = [o, &all] {
    const std::string zsh = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n";
    deliver(o->out, o->shell == "fish" ? fish_script(all) : (o->shell == "zsh" ? zsh : "") + bash_script(all));
  };
  return command;
}

}  // namespace bearing::tool
