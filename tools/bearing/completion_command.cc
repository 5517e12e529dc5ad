#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bearing/catalog.hpp>
#include <memory>
#include <utility>

#include "commands.hpp"
#include "errors.hpp"
#include "outputs.hpp"

namespace bearing::tool {
namespace {

using Strings = std::vector<std::string>;

/// What an option's value may begin with; empty for files, numbers and the like.
Strings words_of(const Option& option) {
  if (option.takes != Takes::spec && option.takes != Takes::encoding) return option.words;
  Strings names;
  for (const Description& entry : inspect::catalog()) {
    const EncodingInfo* info = entry.encoding;  // what acts on the input alone is nothing that attention takes
    if (option.takes == Takes::encoding || info == nullptr || !info->inputs) names.push_back(entry.name);
  }
  return names;
}

bool takes_encoding(const Option& option) { return option.takes == Takes::spec || option.takes == Takes::encoding; }

using Keys = std::vector<std::pair<std::string, Strings>>;

/// The keys of an encoding, and what may stand for each. Settings and parameters are `attend`'s alone.
Keys keys_of(const Description& entry, bool of_attend) {
  Keys keys;
  const auto add = [&](const auto& self, const Record& record) -> void {
    for (const MemberInfo& member : record.type().members) {
      Strings words = member.type.words;
      if (member.type.kind == Kind::truth) words = {"true", "false"};
      const Value value = record.get(member.name);
      const Record* inner = std::get_if<Record>(&value);
      const bool is_record = inner != nullptr && *inner;
      if (!is_record || member.type.records.size() > 1) keys.emplace_back(member.name, words);
      if (is_record) self(self, *inner);
    }
  };
  if (entry.spec) add(add, entry.spec({}));
  const EncodingInfo* info = entry.encoding;
  if (!of_attend || (info != nullptr && info->inputs)) return keys;
  if (info != nullptr && !info->by_hand && info->settings != nullptr) add(add, info->settings->make());
  for (const ParameterInfo* parameter : entry.parameters()) keys.emplace_back(parameter->name, Strings{});
  return keys;
}

/// What may stand after "NAME:" and after "NAME:KEY=", by patterns of "COMMAND NAME KEY" as a shell writes its cases.
template <class Case>
std::string key_cases(const Case& written) {
  std::string cases;
  const auto add = [&](const std::string& command, const std::string& name, const Keys& keys, const Keys& known) {
    Strings names;
    for (const auto& [key, words] : keys) {
      if (std::find(names.begin(), names.end(), key + '=') != names.end()) continue;
      names.push_back(key + '=');
      const bool new_here = std::find(known.begin(), known.end(), Keys::value_type(key, words)) == known.end();
      if (!words.empty() && new_here)
        cases += written(command, fmt::format("{} {}", name, key), fmt::format("{}", fmt::join(words, " ")));
    }
    if (!names.empty()) cases += written(command, name + ' ', fmt::format("{}", fmt::join(names, " ")));
  };
  for (const Description& entry : inspect::catalog()) {  // the first pattern that fits counts
    const Keys all = keys_of(entry, true), of_spec = keys_of(entry, false);
    if (all != of_spec) add("attend", entry.name, all, of_spec);
    add("", entry.name, of_spec, {});
  }
  return cases;
}

bool is_file(const Option& option) { return option.takes == Takes::input || option.takes == Takes::output; }

/// "-o --out" → {"-o", "--out"}.
Strings spellings(const Option& option) {
  const std::size_t comma = option.names.find(',');
  return comma == option.names.npos ? Strings{option.names} : Strings{option.names.substr(0, comma), option.name()};
}

/// What can stand where no value is due: options, and the words of what is positional.
Strings words_of(const Command& command) {
  Strings words = {"--help"};
  for (const Option& option : command.options) {
    const Strings more = option.positional() ? words_of(option) : Strings{option.name()};
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

/// Names of commands and options, and words, hold nothing that a shell would read as more than text. No command: any.
std::string bash_case(const std::string& command, const std::string& pattern, const std::string& words) {
  return fmt::format("      {}' {}') words='{}' ;;\n", command.empty() ? "*" : command, pattern, words);
}

std::string bash_function(const std::vector<Command>& all) {
  std::string cases;
  Strings names = {"--help", "--version"};
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
      "  local all=${{COMP_LINE:0:${{COMP_POINT:-0}}}}; all=${{all##* }}\n"
      "  if [ \"${{all#*:}}\" != \"$all\" ]; then  # an encoding's keys: NAME:KEY=WORD,KEY=\n"
      "    local name=${{all%%:*}} part=${{all#*:}} key=; part=${{part##*,}}; words=\n"
      "    if [ \"${{part#*=}}\" != \"$part\" ]; then key=${{part%%=*}} part=${{part#*=}}; fi\n"
      "    case \"${{COMP_WORDS[1]}} $name $key\" in\n{}    esac\n"
      "    case \"$here\" in :|=) here= ;; esac  # the shell breaks words at these\n"
      "    COMPREPLY=($(compgen -P \"${{here%\"$part\"}}\" -W \"$words\" -- \"$part\"))\n"
      "    [ -n \"$key\" ] || compopt -o nospace 2> /dev/null\n"
      "    return\n"
      "  fi\n"
      "  if [ \"$COMP_CWORD\" -gt 1 ]; then case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{}  esac; "
      "fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$here\"))\n"
      "}}\n",
      fmt::join(names, " "), key_cases(bash_case), cases);
}

/// Its emulation of bash's completion knows no `compopt`: a word ends in a space unless a value is to follow. The same
/// script is for `source` and, as a file `_bearing`, for a folder of $fpath: there zsh reads it as the body of the
/// function that completes, when it is first asked to.
std::string zsh_script(const std::vector<Command>& all) {
  return "#compdef bearing\n"
         "whence compdef > /dev/null || { autoload -U +X compinit && compinit; }\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_function(all) +
         "_bearing_zsh() {\n"
         "  _bearing\n"
         "  local i\n"
         "  for ((i = 0; i < ${#COMPREPLY[@]}; ++i)); do\n"
         "    case \"${COMPREPLY[$i]}\" in *=) ;; *) COMPREPLY[$i]=\"${COMPREPLY[$i]} \" ;; esac\n"
         "  done\n"
         "}\n"
         "complete -o default -o nospace -F _bearing_zsh bearing\n"
         "[ \"${funcstack[1]}\" != _bearing ] || _bash_complete -o default -o nospace -F _bearing_zsh\n";
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
  const Strings words = words_of(option);
  if (!option.positional()) {
    for (const std::string& name : spellings(option)) {
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (option.takes != Takes::nothing) line += is_file(option) ? " -r -F" : " -x";
  } else if (is_file(option)) {
    line += " -F";
  }
  std::string choices = fmt::format("{}", fmt::join(words, " "));
  if (takes_encoding(option)) choices += " (__bearing_keys)";
  if (!choices.empty()) line += fmt::format(" -a '{}'", choices);
  return line + " -d " + fish_quoted(option.help) + '\n';
}

/// What is begun of NAME:KEY=WORD,KEY=, with each key or word that may follow.
std::string fish_keys() {
  const auto written = [](const std::string& command, const std::string& pattern, const std::string& words) {
    return fmt::format("    case '{} {}'\n      set words {}\n", command.empty() ? "*" : command, pattern, words);
  };
  return "function __bearing_keys\n"
         "  set -l all (commandline -ct)\n"
         "  string match -q '*:*' -- $all; or return\n"
         "  set -l name (string replace -r ':.*' '' -- $all)\n"
         "  set -l before (string replace -r '[^:,=]*$' '' -- $all)\n"
         "  set -l key (string match -r '([^:,=]*)=$' -- $before)[2]\n"
         "  set -l words\n"
         "  set -l typed (commandline -opc)\n"
         "  switch \"$typed[2] $name $key\"\n" +
         key_cases(written) +
         "  end\n"
         "  for word in $words\n"
         "    echo $before$word\n"
         "  end\n"
         "end\n";
}

std::string fish_script(const std::vector<Command>& all) {
  std::string script = fish_keys() + "complete -c bearing -f\n";
  for (const Command& command : all) {
    script += fmt::format("complete -c bearing -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          fish_quoted(command.summary));
    for (const Option& option : command.options) script += fish_option(command, option);
  }
  return script;
}

}  // namespace

Command completion_command(const std::vector<Command>& all) {
  struct CompletionOptions {
    std::string shell, out;
  };
  const auto o = std::make_shared<CompletionOptions>();
  Command command{"completion", "Print a completion script for a shell"};
  command.word("SHELL", o->shell, "", {"bash", "zsh", "fish"}, "bash, zsh or fish").required = true;
  command.output("-o,--out", o->out, "Where the script goes; else standard output");
  command.footer = "Example: bearing completion bash > /etc/bash_completion.d/bearing";
  command.run = [o, &all] {
    const std::string bash = "complete -o default -F _bearing bearing\n";
    deliver(o->out, o->shell == "fish"  ? fish_script(all)
                    : o->shell == "zsh" ? zsh_script(all)
                                        : bash_function(all) + bash);
  };
  return command;
}

}  // namespace bearing::tool
