#include <fmt/format.h>

#include "commands.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

/// Small: what a list shows does not depend on the size.
constexpr inspect::SpecimenOptions small = {.heads = 2, .dim = 16, .length = 16};

std::string list_json() {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.list/1");
  json.key("encodings");
  json.begin_array();
  for (const Description& entry : inspect::catalog()) {
    const inspect::Specimen specimen = inspect::make(entry, small);
    json.begin_object();
    json.member("name", entry.name);
    json.member("title", entry.title);
    json.member("authors", entry.paper.authors);
    json.member("year", Index{entry.paper.year});
    json.member("source", entry.paper.source);
    json.member("does", entry.does);
    json.member("sites", inspect::sites(specimen));
    json.member("learned", specimen.parameters > 0);
    json.member("causal", specimen.causal);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

std::string list_text(const Style& style) {
  std::vector<std::vector<std::string>> rows;
  for (const Description& entry : inspect::catalog()) {
    rows.push_back({entry.name, inspect::sites(inspect::make(entry, small)), entry.does});
  }
  return text_table({"encoding", "acts on", "what it does"}, rows, style);
}

}  // namespace

Command list_command() {
  struct Options {
    bool json = false;
    std::string out;
  };
  const auto o = std::make_shared<Options>();
  Command command{"list", "List the encodings: where they act and what they do"};
  command.flag("--json", o->json, "JSON, with titles, authors and sources");
  command.output("-o,--out", o->out, "Where the list goes; else standard output");
  command.footer = "Example: bearing list --json | jq -r '.encodings[] | [.name, .source] | @tsv'";
  command.run = [o] { deliver(o->out, o->json ? list_json() : list_text(output_style(o->out))); };
  return command;
}

}  // namespace bearing::tool
