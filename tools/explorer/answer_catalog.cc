#include <bearing/figures.hpp>
#include <bearing/say.hpp>

#include "answers.hpp"

namespace bearing::explorer {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::truth:
      return "truth";
    case Kind::whole:
      return "whole";
    case Kind::number:
      return "number";
    case Kind::word:
      return "word";
    default:
      return "list";
  }
}

void write_value(PageJson& to, const Value& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return to.value(*truth);
  if (const auto* whole = std::get_if<Index>(&value)) return to.value(*whole);
  if (const auto* number = std::get_if<double>(&value)) return to.value(*number);
  if (const auto* word = std::get_if<std::string>(&value)) return to.value(*word);
  if (const auto* list = std::get_if<Values>(&value)) {
    to.begin_array();
    for (const Value& one : *list) write_value(to, one);
    return to.end_array();
  }
  to.null();
}

void add_members(PageJson& to, const Record& spec) {
  for (const MemberInfo& member : spec.type().members) {
    const Value value = spec.get(member.name);
    if (const auto* record = std::get_if<Record>(&value)) {
      if (*record) add_members(to, *record);
      continue;
    }
    to.begin_object();
    to.member("name", member.name);
    to.member("text", member.text);
    to.member("kind", name_of(member.type.kind));
    to.member("optional", member.type.optional);
    to.list("words", member.type.words);
    to.key("value");
    write_value(to, value);
    to.end_object();
  }
}

std::string sites_of(const Description& one) {
  const EncodingInfo* info = one.encoding;
  if (info == nullptr) return "none";
  if (info->inputs) return "input";
  if (info->rows && !info->scores) return "query/key";
  if (info->values) return info->scores ? "score, value" : "value";
  return info->scores ? "score" : "none";
}

void write_colour(PageJson& to, const inspect::Colour& colour) {
  to.value(Index{colour.red});
  to.value(Index{colour.green});
  to.value(Index{colour.blue});
}

/// 256 steps of a map of colours, red, green and blue of each in turn.
void write_map(PageJson& to, const char* name, inspect::Colour (*at)(double)) {
  to.key(name);
  to.begin_array();
  for (int i = 0; i < 256; ++i) write_colour(to, at(i / 255.0));
  to.end_array();
}

void write_colours(PageJson& to) {
  to.key("colours");
  to.begin_object();
  to.key("palette");
  to.begin_array();
  for (const inspect::Colour& colour : inspect::palette()) write_colour(to, colour);
  to.end_array();
  write_map(to, "sequential", inspect::sequential_colour);
  write_map(to, "diverging", inspect::diverging_colour);
  write_map(to, "family", inspect::family_colour);
  to.end_object();
}

void write_encoding(PageJson& to, const Description& one) {
  to.begin_object();
  to.member("name", one.name);
  to.list("aliases", one.aliases);
  to.member("title", one.title);
  to.member("does", one.does);
  to.member("authors", one.paper.authors);
  to.member("year", static_cast<Index>(one.paper.year));
  to.member("source", one.paper.source);
  to.member("page", one.page);
  to.member("site", sites_of(one));
  write_members(to, "members", one.spec ? one.spec({}) : Record{});
  to.end_object();
}

}  // namespace

void write_members(PageJson& to, const char* name, const Record& spec) {
  to.key(name);
  to.begin_array();
  if (spec) add_members(to, spec);
  to.end_array();
}

void answer_catalog(PageJson& to) {
  to.begin_object();
  to.key("encodings");
  to.begin_array();
  for (const Description& one : inspect::catalog()) write_encoding(to, one);
  to.end_array();
  to.key("kinds");
  to.begin_array();
  for (const inspect::FigureKind& kind : inspect::figure_kinds()) {
    to.begin_object();
    to.member("name", kind.name);
    to.member("shows", kind.shows);
    to.member("fewest", kind.fewest);
    to.member("most", kind.most);
    to.list("takes", kind.takes);
    to.end_object();
  }
  to.end_array();
  write_colours(to);
  to.end_object();
}

}  // namespace bearing::explorer
