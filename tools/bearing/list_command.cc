#include <fmt/format.h>

#include <algorithm>

#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "json_writer.hpp"
#include "outputs.hpp"
#include "record_text.hpp"
#include "terminal.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

/// Small: what a list shows does not depend on the size.
constexpr inspect::SpecimenOptions small = {.heads = 2, .dim = 16, .length = 16};

const char* form_word(Form form) {
  switch (form) {
    case Form::distance:
      return "distance";
    case Form::grid:
      return "grid";
    case Form::rows_by_index:
      return "rows by index";
    case Form::positions:
      return "positions";
    case Form::per_query:
      return "per query";
    case Form::running_sum:
      return "running sum";
    case Form::dense:
      return "dense";
    case Form::none:
      break;
  }
  return "none";
}

/// A member of the spec or a setting, as a list shows it.
struct ShownMember {
  const MemberInfo* info;
  Value value;            ///< what it is if nobody says it; nothing where it must be given
  bool required = false;  ///< neither has it a default, nor does the name stand for one
  bool setting = false;   ///< which examples have no use for: only `attend` takes it
};

std::vector<ShownMember> members_of(const Description& entry) {
  std::vector<ShownMember> shown;
  const RecordType* spec = entry.spec ? &entry.spec(small).type() : nullptr;
  const auto add = [&](const RecordType& type) {
    for (const MemberInfo& member : type.members) {
      if (&type != spec && spec != nullptr && spec->member(member.name) != nullptr) continue;  // one key says both
      const auto fixed = &type == spec ? stands_for(entry, member) : std::nullopt;
      shown.push_back({&member, fixed ? *fixed : type.otherwise(member), member.required && !fixed, &type != spec});
    }
  };
  if (spec != nullptr) add(*spec);
  const EncodingInfo* info = entry.encoding;
  if (info != nullptr && !info->by_hand && info->settings != nullptr) add(*info->settings);
  return shown;
}

/// The same, with the members of a record in place of the record where that is always of one type: its members are
/// keys, and it has no word.
std::vector<ShownMember> keys_of(const std::vector<ShownMember>& members) {
  std::vector<ShownMember> keys;
  for (const ShownMember& member : members) {
    const Record* record = std::get_if<Record>(&member.value);
    if (record == nullptr || !*record || member.info->type.records.size() > 1) {
      keys.push_back(member);
      continue;
    }
    std::vector<ShownMember> inner;
    for (const MemberInfo& one : record->type().members) inner.push_back({&one, record->get(one.name), one.required});
    const std::vector<ShownMember> of_record = keys_of(inner);
    keys.insert(keys.end(), of_record.begin(), of_record.end());
  }
  return keys;
}

std::string extents_text(const ParameterInfo& parameter) {
  std::vector<std::string> names;
  for (const Extent& extent : parameter.extents) names.push_back(extent.name + (extent.or_one ? " or 1" : ""));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

/// Not in every model: it is computed there, or belongs to a term beside the encoding.
bool may_be_left_out(const Description& entry, const ParameterInfo& parameter) {
  const auto has = [&](const EncodingInfo* info) {
    return std::ranges::any_of(info->parameters, [&](const ParameterInfo& one) { return &one == &parameter; });
  };
  const bool computed = entry.computed != nullptr && &entry.computed->parameter() == &parameter;
  return parameter.optional || computed || std::ranges::any_of(entry.beside, has);
}

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
    const inspect::Specimen specimen = inspect::make(*entry, small);
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
    rows.push_back({entry->name, inspect::sites(inspect::make(*entry, small)), entry->does});
  }
  return text_table({"encoding", "acts on", "what it does"}, rows, style);
}

using Rows = std::vector<std::vector<std::string>>;

std::string paper_text(const Paper& paper) {
  return paper.year > 0 ? fmt::format("{} {}, {}", paper.authors, paper.year, paper.source) : "";
}

/// A row for each name, in Markdown; `pages`: the folder of the pages.
std::string markdown_names(const std::vector<const Description*>& entries, const std::string& pages) {
  Rows rows;
  for (const Description* entry : entries) {
    const std::string sites = inspect::sites(inspect::make(*entry, small));
    rows.push_back({fmt::format("[{}]({}/{}.md)", entry->title, pages, entry->page), fmt::format("`{}`", entry->name),
                    sites, entry->does, paper_text(entry->paper)});
  }
  return markdown_table({"encoding", "name", "acts on", "what it does", "paper"}, rows);
}

/// A row for each page, with the titles of what stands on it.
std::string markdown_pages(const std::vector<const Description*>& entries, const std::string& pages) {
  Rows rows;
  for (const Description* entry : entries) {
    const std::string link = fmt::format("[{0}]({1}/{0}.md)", entry->page, pages);
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one[0] == link; });
    if (row == rows.end()) {
      rows.push_back({link, entry->title, inspect::sites(inspect::make(*entry, small))});
    } else {
      (*row)[1] += "; " + entry->title;
    }
  }
  return markdown_table({"page", "encodings", "acts on"}, rows);
}

/// Everything that is known of one encoding, but what it measures.
std::string entry_text(const Description& entry, const Style& style) {
  const std::string source = entry.paper.year > 0 ? fmt::format(" ({})", paper_text(entry.paper)) : "";
  std::string out = wrapped(fmt::format("{}: {}{}", entry.name, entry.title, source), style.width, 0);
  out += wrapped(entry.does, style.width, 0);
  const inspect::Specimen specimen = inspect::make(entry, small);
  std::string facts = "acts on: " + inspect::sites(specimen);
  if (entry.encoding != nullptr && entry.encoding->form != Form::none) {
    facts += fmt::format("; form: {}", form_word(entry.encoding->form));
  }
  out += wrapped(facts + (specimen.causal ? "; causal" : ""), style.width, 0);
  if (!entry.aliases.empty()) out += wrapped(fmt::format("also: {}", fmt::join(entry.aliases, ", ")), style.width, 0);
  std::vector<std::vector<std::string>> rows;
  for (const ShownMember& member : keys_of(members_of(entry))) {
    const std::string value = member.required ? "must be given" : value_text(member.value);
    const std::string words = member.info->type.words.empty() ? "" : type_text(member.info->type) + ". ";
    rows.push_back({member.info->name, value.empty() ? "-" : value,
                    words + member.info->text + (member.setting ? " Only attend takes it." : "")});
  }
  if (!rows.empty()) out += '\n' + text_table({"key", "default", "what it is"}, rows, style);
  rows.clear();
  for (const ParameterInfo* parameter : entry.parameters()) {
    std::string text = extents_text(*parameter) + (may_be_left_out(entry, *parameter) ? ", may be left out" : "") +
                       ". " + parameter->text;
    if (!parameter->start.text.empty()) text += " Starts " + parameter->start.text + ".";
    rows.push_back({parameter->name, text});
  }
  if (!rows.empty()) out += '\n' + text_table({"parameter", "what it is"}, rows, style);
  return out;
}

struct Options {
  std::vector<std::string> encodings;
  bool json = false, markdown = false;
  std::string by, pages, out;
};

std::string listed(const Options& options) {
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
  return options.by == "page" ? markdown_pages(entries, pages) : markdown_names(entries, pages);
}

}  // namespace

Command list_command() {
  const auto o = std::make_shared<Options>();
  Command command{"list", "List the encodings, or what is known of some"};
  command.options.push_back(
      {"ENCODING", "...", "Which ones, as check takes them (default: all)", Takes::encoding, &o->encodings});
  command.flag("--json", o->json, "JSON, with keys, parameters and sources");
  command.flag("--markdown", o->markdown, "A table in Markdown, with links to the pages");
  command.word("--by", o->by, "WHAT", {"name", "page"}, "What has a row of --markdown (default: each name)");
  command.text("--pages", o->pages, "DIR", "Where the pages lie to which --markdown links (default\ndocs/encodings)");
  command.output("-o,--out", o->out, "Where the list goes; else standard output");
  command.footer =
      "Of an encoding that is named: its keys with words and defaults, and its\n"
      "parameters with their extents and how they start.\n"
      "\n"
      "Examples:\n"
      "  bearing list\n"
      "  bearing list t5\n"
      "  bearing list --json | jq -r '.encodings[] | [.name, .source] | @tsv'";
  command.run = [o] { deliver(o->out, listed(*o)); };
  return command;
}

}  // namespace bearing::tool
