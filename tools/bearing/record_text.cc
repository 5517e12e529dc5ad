#include "record_text.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "terminal.hpp"

namespace bearing::tool {

std::string value_text(const Value& value) {
  const auto join = [](std::string& to, const std::string& piece) { to += (to.empty() ? "" : ", ") + piece; };
  std::string out;
  if (const Values* all = std::get_if<Values>(&value)) {
    for (const Value& one : *all) join(out, value_text(one));
    return out;
  }
  if (const Record* record = std::get_if<Record>(&value)) {
    for (const MemberInfo& member : record->type().members) {
      const std::string text = value_text(record->get(member.name));
      if (!text.empty()) join(out, member.name + " " + text);
    }
    return out.empty() ? record->type().name : out;
  }
  if (const std::string* word = std::get_if<std::string>(&value)) return *word;
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "yes" : "no";
  if (const Index* count = std::get_if<Index>(&value)) return grouped(*count);
  if (const double* number = std::get_if<double>(&value)) return grouped(*number);
  return out;
}

std::string type_text(const ValueType& type) {
  const std::string or_none = type.optional ? " or none" : "";
  switch (type.kind) {
    case Kind::truth:
      return "true or false" + or_none;
    case Kind::whole:
      return "whole number" + or_none;
    case Kind::number:
      return "number" + or_none;
    case Kind::word:
      return (type.words.empty() ? "word" : either(type.words)) + or_none;
    case Kind::list:
      return "list of " + type_text(type.items[0]) + "s";
    case Kind::record:
    case Kind::tensor:
    case Kind::positions:
      break;
  }
  return python_type(type);
}

void write_value(JsonWriter& json, const Value& value) {
  if (const Values* all = std::get_if<Values>(&value)) {
    json.begin_array();
    for (const Value& one : *all) write_value(json, one);
    json.end_array();
  } else if (const Record* record = std::get_if<Record>(&value)) {
    json.begin_object();
    write_members(json, *record);
    json.end_object();
  } else if (const std::string* word = std::get_if<std::string>(&value)) {
    json.value(std::string_view(*word));
  } else if (const bool* truth = std::get_if<bool>(&value)) {
    json.value(*truth);
  } else if (const Index* count = std::get_if<Index>(&value)) {
    json.value(*count);
  } else if (const double* number = std::get_if<double>(&value)) {
    json.value(*number);
  } else {
    json.null();
  }
}

void write_members(JsonWriter& json, const Record& record) {
  if (!record) return;
  for (const MemberInfo& member : record.type().members) {
    const Value value = record.get(member.name);
    if (std::holds_alternative<std::monostate>(value)) continue;
    json.key(member.name);
    write_value(json, value);
  }
}

}  // namespace bearing::tool
