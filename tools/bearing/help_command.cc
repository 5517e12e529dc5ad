#include "command_line.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"

namespace bearing::tool {
namespace {

const char* name_of(Takes takes) {
  switch (takes) {
    case Takes::nothing:
      return "nothing";
    case Takes::text:
      return "text";
    case Takes::word:
      return "word";
    case Takes::words:
      return "words";
    case Takes::encoding:
      return "encoding";
    case Takes::spec:
      return "spec";
    case Takes::input:
      return "input file";
    case Takes::output:
      return "output file";
  }
  return "";
}

void write_option(JsonWriter& json, const Option& option) {
  json.begin_object();
  json.member("name", option.name());
  json.member("takes", name_of(option.takes));
  json.member("value", option.type);
  json.list("words", option.words);
  json.member("required", option.required);
  json.member("several", std::holds_alternative<std::vector<std::string>*>(option.value));
  json.member("help", option.help);
  json.end_object();
}

std::string help_json(const std::vector<Command>& all) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.help/1");
  json.key("commands");
  json.begin_array();
  for (const Command& command : all) {
    json.begin_object();
    json.member("name", command.name);
    json.member("does", command.summary);
    json.key("options");
    json.begin_array();
    for (const Option& option : command.options) write_option(json, option);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

}  // namespace

Command help_command(const std::vector<Command>& all) {
  struct HelpOptions {
    std::string command, out;
    bool json = false;
  };
  const auto o = std::make_shared<HelpOptions>();
  Command command{"help", "Show this help, or that of a command"};
  std::vector<std::string> names;
  names.reserve(all.size() + 2);
  for (const Command& one : all) names.push_back(one.name);
  names.insert(names.end(), {"help", "version"});
  command.word("COMMAND", o->command, "", names, "Whose help");
  command.flag("--json", o->json, "All commands and options, as JSON of a stable schema");
  command.output("-o,--out", o->out, "Where it goes; else standard output");
  command.run = [o, &all] {
    if (o->json && !o->command.empty()) throw UsageError("help: --json is about all commands");
    deliver(o->out, o->json              ? help_json(all)
                    : o->command.empty() ? help_text(all)
                                         : help_text(command_named(all, o->command)));
  };
  return command;
}

}  // namespace bearing::tool
