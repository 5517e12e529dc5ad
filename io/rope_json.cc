#include <algorithm>
#include <bearing/io.hpp>
#include <utility>

#include "record_json.hpp"

// A rotary spec as JSON: short, as people write it. docs/guide/rope-json.md.

namespace bearing {
namespace json {
namespace {

constexpr Index most_head_dim = 65'536;
template <std::size_t I = 0>
const RecordType* named_scaling(const RecordType& type, std::string& word) {
  if constexpr (I < std::variant_size_v<RopeScaling>) {
    using Scaling = std::variant_alternative_t<I, RopeScaling>;
    if (type.type != typeid(Scaling)) return named_scaling<I + 1>(type, word);
    word = scaling_name(Scaling{});
  }
  return nullptr;
}

std::string part_text(const RotaryPart& part) {
  if (part.where == RotaryPart::Where::window) return "{\"begin\": " + std::to_string(part.begin) + "}";
  return part.where == RotaryPart::Where::last ? "\"last\"" : "\"first\"";
}

/// Pairs, order and frequencies; the other members where they are not as without axes.
std::string axes_text(const RopeAxes& axes) {
  const Record record = Record::of(axes), plain = Record::of(RopeAxes{});
  std::string text;
  for (const MemberInfo& member : record.type().members) {
    const bool always = member.name == "pairs" || member.name == "order" || member.name == "frequencies";
    const std::string value = text_of(record.get(member.name), Form::brief);
    if (!always && value == text_of(plain.get(member.name), Form::brief)) continue;
    text += (text.empty() ? "\"" : ", \"") + member.name + "\": " + value;
  }
  return '{' + text + '}';
}

/// The members that must be in range by themselves, whatever the others are.
void check_ranges(const Object& object) {
  const auto head_dim = object.integer("head_dim", 2, most_head_dim);
  if (!head_dim) object.missing("head_dim", in_range(2, most_head_dim));
  if (object.integer("rotary_dim", 0, *head_dim).value_or(0) % 2 != 0) object.wrong("rotary_dim", "even");
  object.number("base", positive);
  object.number("attention_factor", positive);
  if (const auto axes = object.object("axes")) axes->integers("pairs", most_head_dim / 2, 0, most_head_dim);
}

}  // namespace

std::string scaling_word(const RecordType& type) {
  std::string word;
  named_scaling(type, word);
  return word;
}

Record read_part(const rapidjson::Value& value, const std::string& pointer, Notes& notes) {
  const auto fail = [&](const std::string& wanted) {
    notes.fail(pointer, "must be " + wanted + ", got " + found(value));
  };
  if (value.IsString()) {
    const std::string_view word(value.GetString(), value.GetStringLength());
    if (word != "first" && word != "last") fail(R"("first" or "last")");
    return Record::of(word == "first" ? RotaryPart::first() : RotaryPart::last());
  }
  if (!value.IsObject()) fail(R"("first", "last" or {"begin": …})");
  const Object object(value, pointer, notes);
  if (object.has("where")) return read_record(object, Record::of(RotaryPart{}), {.least = 0});
  const auto begin = object.integer("begin", 0, most_head_dim);
  if (!begin) object.missing("begin", "the window's first dimension");
  for (const std::string_view key : object.keys()) {
    if (key != "begin") notes.fail(object.pointer(key), "must be one of: begin");
  }
  return Record::of(RotaryPart::window(*begin));
}

Record read_rope(const Object& object) {
  if (!object.has("type")) check_ranges(object);  // as people write it; the long form may leave a head_dim to others
  return read_record(object, registry().record(typeid(Rope))->make(), {.tagged = object.has("type"), .least = 0});
}

}  // namespace json

std::string to_json(const Rope& rope) {
  const Record record = Record::of(rope);
  std::vector<std::string> members;
  const auto write = [&](const char* name, const std::string& text) {
    members.push_back('"' + std::string(name) + "\": " + text);
  };
  const auto member = [&](const char* name) { write(name, json::text_of(record.get(name), json::Form::brief)); };
  member("head_dim");
  if (rope.rotary_dim != 0) member("rotary_dim");
  member("pairing"), member("base");
  if (!std::holds_alternative<NoScaling>(rope.scaling)) member("scaling");
  if (rope.part != RotaryPart::first()) write("part", json::part_text(rope.part));
  if (rope.axes != RopeAxes{}) write("axes", json::axes_text(rope.axes));
  if (rope.attention_factor != 1) member("attention_factor");
  if (!rope.log_factors.empty()) member("log_factors");
  std::string text;
  for (const std::string& one : members) text += (text.empty() ? "{" : ", ") + one;
  return text + '}';
}

Rope parse_rope(std::string_view text, const std::string& name) {
  return *parse_record(text, name, {registry().record(typeid(Rope))}).as<Rope>();
}

}  // namespace bearing
