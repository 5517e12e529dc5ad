#include <fmt/format.h>

#include "commands.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

/// "--all --json …"
std::string options_of(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
  }
  return words;
}

std::string bash_script(const CLI::App& app) {
  std::string cases, commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += command->get_name() + " ";
    cases += fmt::format("    {}) words='{}' ;;\n", command->get_name(), options_of(*command));
  }
  return fmt::format(
      "_bearing() {{\n"
      "  local words='{0}{1}' here=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  if [ \"$COMP_CWORD\" -gt 1 ]; then case ${{COMP_WORDS[1]}} in\n{2}  esac; fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$here\"))\n"
      "}}\n"
      "complete -o default -F _bearing bearing\n",
      commands, options_of(app), cases);
}

std::string fish_script(const CLI::App& app) {
  std::string script;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    script += fmt::format("complete -c bearing -n __fish_use_subcommand -f -a {} -d '{}'\n", command->get_name(),
                          command->get_description());
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        script += fmt::format("complete -c bearing -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n",
                              command->get_name(), name, option->get_description());
      }
    }
  }
  return script;
}

}  // namespace

Action add_completion_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->type_name("SHELL");
  command->footer("Example: bearing completion bash > /etc/bash_completion.d/bearing");
  return [&app, shell] {
    if (*shell == "bash") {
      print(bash_script(app));
    } else if (*shell == "zsh") {
      print("autoload -U +X bashcompinit && bashcompinit\n" + bash_script(app));
    } else if (*shell == "fish") {
      print(fish_script(app));
    } else {
      throw UsageError(fmt::format("completion: the shell must be bash, zsh or fish, got '{}'", *shell));
    }
  };
}

}  // namespace bearing::tool
