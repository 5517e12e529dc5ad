#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "list_entries.hpp"
#include "list_markdown.hpp"
#include "outputs.hpp"
#include "record_text.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

void write_list(JsonWriter& json, const char* key, const std::vector<std::string>& words) {
  json.key(key);
  json.begin_array();
  for (const std::string& word : words) json.value(std::string_view(word));
  json.end_array();
}

void write_members_of(JsonWriter& json, const Description& entry) {
  json.key("members");
  json.begin_array();
  for (const ShownMember& member : members_of(entry)) {
    json.begin_object();
    json.member("name", std::string_view(member.info->name));
    json.member("type", std::string_view(type_text(member.info->type)));
    write_list(json, "words", member.info->type.words);
    json.member("required", member.required);
    json.key("default");
    write_value(json, member.value);
    json.member("does", std::string_view(member.info->text));
    json.end_object();
  }
  json.end_array();
}

void write_parameters_of(JsonWriter& json, const Description& entry) {
  json.key("parameters");
  json.begin_array();
  for (const ParameterInfo* parameter : entry.parameters()) {
    json.begin_object();
    json.member("name", std::string_view(parameter->name));
    json.key("extents");
    json.begin_array();
    for (const Extent& extent : parameter->extents) json.value(std::string_view(extent.name));
    json.end_array();
    json.member("optional", may_be_left_out(entry, *parameter));
    json.member("learned", parameter->learned);
    json.member("start", std::string_view(parameter->start.text));
    json.member("does", std::string_view(parameter->text));
    json.end_object();
  }
  json.end_array();
}

std::string list_json(const std::vector<const Description*>& entries) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.list/1");
  json.key("encodings");
  json.begin_array();
  for (const Description* entry : entries) {
    const inspect::Specimen specimen = inspect::make(*entry, list_size);
    json.begin_object();
    json.member("name", entry->name);
    json.member("title", entry->title);
    json.member("authors", entry->paper.authors);
    json.member("year", Index{entry->paper.year});
    json.member("source", entry->paper.source);
    json.member("does", entry->does);
    json.member("sites", inspect::sites(specimen));
    json.member("learned", specimen.parameters > 0);
    json.member("causal", specimen.causal);
    write_list(json, "aliases", entry->aliases);
    json.member("page", std::string_view(entry->page));
    json.member("form", form_word(entry->encoding == nullptr ? Form::none : entry->encoding->form));
    write_members_of(json, *entry);
    write_parameters_of(json, *entry);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

std::string list_text(const std::vector<const Description*>& entries, const Style& style) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(entries.size());
  for (const Description* entry : entries) {
    rows.push_back({entry->name, inspect::sites(inspect::make(*entry, list_size)), entry->does});
  }
  return text_table({"encoding", "acts on", "what it does"}, rows, style);
}

/// Everything that is known of one encoding, but what it measures.
std::string entry_text(const Description& entry, const Style& style) {
  const std::string source = entry.paper.year > 0 ? fmt::format(" ({})", paper_text(entry.paper)) : "";
  std::string out = wrapped(fmt::format("{}: {}{}", entry.name, entry.title, source), style.width, 0);
  out += wrapped(entry.does, style.width, 0);
  const inspect::Specimen specimen = inspect::make(entry, list_size);
  std::string facts = "acts on: " + inspect::sites(specimen);
  if (entry.encoding != nullptr && entry.encoding->form != Form::none) {
    facts += fmt::format("; form: {}", form_word(entry.encoding->form));
  }
  out += wrapped(facts + (specimen.causal ? "; causal" : ""), style.width, 0);
  if (!entry.aliases.empty()) out += wrapped(fmt::format("also: {}", fmt::join(entry.aliases, ", ")), style.width, 0);
  std::vector<std::vector<std::string>> rows;
  for (const ShownMember& member : keys_of(members_of(entry))) {
    rows.push_back({member.info->name, default_text(member), member_text(member)});
  }
  if (!rows.empty()) out += '\n' + text_table({"key", "default", "what it is"}, rows, style);
  rows.clear();
  for (const ParameterInfo* parameter : entry.parameters()) {
    rows.push_back({parameter->name, parameter_text(entry, *parameter)});
  }
  if (!rows.empty()) out += '\n' + text_table({"parameter", "what it is"}, rows, style);
  return out;
}

struct ListOptions {
  std::vector<std::string> encodings;
  bool json = false, markdown = false;
  std::string by, pages, out;
};

std::string listed(const ListOptions& options) {
  if (options.json && options.markdown) throw UsageError("--json and --markdown exclude each other");
  if (!options.markdown && !options.by.empty()) throw UsageError("--by needs --markdown");
  if (!options.markdown && !options.pages.empty()) throw UsageError("--pages needs --markdown");
  std::vector<const Description*> entries;
  for (const std::string& text : options.encodings) {
    with_library_errors("list", [&] {
      for (const Said& said : say_encodings(text)) {
        said.as_description();  // refuses keys that are none
        entries.push_back(&said.description());
      }
    });
  }
  const Style style = output_style(options.out);
  if (!entries.empty() && !options.json && !options.markdown) {
    std::string out;
    for (const Description* entry : entries) out += (out.empty() ? "" : "\n") + entry_text(*entry, style);
    return out;
  }
  if (entries.empty()) {
    for (const Description& entry : inspect::catalog()) entries.push_back(&entry);
  }
  if (options.json) return list_json(entries);
  const std::string pages = options.pages.empty() ? "docs/encodings" : options.pages;
  if (!options.markdown) return list_text(entries, style);
  return list_markdown(entries, options.by, pages);
}

}  // namespace

Command list_command() {
  const auto o = std::make_shared<ListOptions>();
  Command command{"list", "List the encodings, or what is known of some"};
  command.options.push_back(
      {"ENCODING", "...", "Which ones, as check takes them (default: all)", Takes::encoding, &o->encodings});
  command.flag("--json", o->json, "JSON, with keys, parameters and sources");
  command.flag("--markdown", o->markdown, "A table in Markdown, with links to the pages");
  command.word("--by", o->by, "WHAT", markdown_words(),
               "What has a row of --markdown: each name, page,\nfact, key or model type (default name)");
  command.text("--pages", o->pages, "DIR", "Where the pages lie to which --markdown links (default\ndocs/encodings)");
  command.output("-o,--out", o->out, "Where the list goes; else standard output");
  command.footer =
      "Of each encoding that is named it shows the keys, with their words and\n"
      "defaults, and the parameters, with their extents and starts.\n"
      "\n"
      "Examples:\n"
      "  bearing list\n"
      "  bearing list t5\n"
      "  bearing list --json | jq -r '.encodings[] | [.name, .source] | @tsv'";
  command.run = [o] { deliver(o->out, listed(*o)); };
  return command;
}

}  // namespace bearing::tool
