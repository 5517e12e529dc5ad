#include "list_markdown.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bearing/io.hpp>

#include "list_entries.hpp"
#include "text_table.hpp"

namespace bearing::tool {
namespace {

using Entries = std::vector<const Description*>;
using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

std::string sites_of(const Description& entry) { return inspect::sites(inspect::make(entry, list_size)); }

/// A row for each name.
std::string by_name(const Entries& entries, const std::string& pages) {
  Rows rows;
  for (const Description* entry : entries) {
    rows.push_back({fmt::format("[{}]({}/{}.md)", entry->title, pages, entry->page), code(entry->name),
                    sites_of(*entry), entry->does, paper_text(entry->paper)});
  }
  return markdown_table({"encoding", "name", "acts on", "what it does", "paper"}, rows);
}

/// A row for each page, with the titles of what stands on it.
std::string by_page(const Entries& entries, const std::string& pages) {
  Rows rows;
  for (const Description* entry : entries) {
    const std::string link = fmt::format("[{0}]({1}/{0}.md)", entry->page, pages);
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one[0] == link; });
    if (row == rows.end()) {
      rows.push_back({link, entry->title, sites_of(*entry)});
    } else {
      (*row)[1] += "; " + entry->title;
    }
  }
  return markdown_table({"page", "encodings", "acts on"}, rows);
}

/// A row for each name, for the page on which they stand: without a link to it.
std::string by_fact(const Entries& entries) {
  Rows rows;
  for (const Description* entry : entries) {
    std::string names = code(entry->name);
    for (const std::string& alias : entry->aliases) names += ", " + code(alias);
    rows.push_back({names, sites_of(*entry), entry->does, paper_text(entry->paper)});
  }
  return markdown_table({"name", "acts on", "what it does", "paper"}, rows);
}

/// Rows that several encodings have alike become one; the last column says whose it is, where not all have it.
class SharedRows {
 public:
  void add(const Row& row, const std::string& name) {
    const auto same = std::find_if(rows_.begin(), rows_.end(), [&](const Shared& one) { return one.row == row; });
    if (same == rows_.end()) {
      rows_.push_back({row, {name}});
    } else {
      same->names.push_back(name);
    }
  }

  /// Empty if there are no rows.
  std::string table(Row headings, std::size_t encodings) const {
    if (rows_.empty()) return "";
    const bool alike =
        std::all_of(rows_.begin(), rows_.end(), [&](const Shared& one) { return one.names.size() == encodings; });
    if (!alike) headings.emplace_back("of");
    Rows rows;
    for (const Shared& one : rows_) {
      rows.push_back(one.row);
      if (alike) continue;
      rows.back().push_back(one.names.size() == encodings ? "all" : fmt::format("{}", fmt::join(one.names, ", ")));
    }
    return markdown_table(headings, rows);
  }

 private:
  struct Shared {
    Row row;
    std::vector<std::string> names;
  };
  std::vector<Shared> rows_;
};

/// What may be said of an encoding: its keys, then its parameters.
std::string by_key(const Entries& entries) {
  SharedRows keys, parameters;
  for (const Description* entry : entries) {
    const std::string name = code(entry->name);
    for (const ShownMember& member : keys_of(members_of(*entry))) {
      keys.add({code(member.info->name), default_text(member), member_text(member)}, name);
    }
    for (const ParameterInfo* parameter : entry->parameters()) {
      parameters.add({code(parameter->name), parameter_text(*entry, *parameter)}, name);
    }
  }
  const std::string first = keys.table({"key", "default", "what it is"}, entries.size());
  const std::string second = parameters.table({"parameter", "what it is"}, entries.size());
  if (first.empty() && second.empty()) return "There are no keys and no parameters.\n";
  return first + (first.empty() || second.empty() ? "" : "\n") + second;
}

/// The model types that have them, of whose files the reader knows it without a key.
std::string by_model(const Entries& entries) {
  Rows rows;
  for (const Description* entry : entries) {
    std::vector<std::string> types = model_types_of(entry->name);
    for (std::string& type : types) type = code(type);
    if (!types.empty()) rows.push_back({code(entry->name), fmt::format("{}", fmt::join(types, ", "))});
  }
  if (rows.empty()) return "No `model_type` that *bearing* reads has it by its name alone.\n";
  return markdown_table({"encoding", "`model_type` that has it by its name alone"}, rows);
}

}  // namespace

std::vector<std::string> markdown_words() { return {"name", "page", "fact", "key", "model"}; }

std::string list_markdown(const Entries& entries, const std::string& by, const std::string& pages) {
  if (by == "page") return by_page(entries, pages);
  if (by == "fact") return by_fact(entries);
  if (by == "key") return by_key(entries);
  if (by == "model") return by_model(entries);
  return by_name(entries, pages);
}

}  // namespace bearing::tool
