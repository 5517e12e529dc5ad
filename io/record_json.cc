#include "record_json.hpp"

#include <algorithm>
#include <bearing/io.hpp>
#include <cmath>

namespace bearing {
namespace json {
namespace {

constexpr std::size_t most_entries = 32'768;

std::string number_text(double value) {
  if (!std::isfinite(value)) {
    throw RangeError("[to_json] record: must hold finite numbers only, got " + shortest(value));
  }
  return shortest(value);
}

/// A text of ours: names and words.
std::string word_text(const std::string& word) {
  std::string out = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string record_text(const Record& record, Form form) {
  const std::string word = form == Form::brief ? scaling_word(record.type()) : "";
  const std::string members = members_text(record, form);
  return "{\"type\": " + word_text(word.empty() ? record.type().name : word) + (members.empty() ? "" : ", ") + members +
         "}";
}

/// A value that JSON has, of a described type.
class Reader {
 public:
  Reader(Notes& notes, const Reading& how) : notes_(notes), how_(how) {}

  Value read(const rapidjson::Value& from, const std::string& pointer, const ValueType& type) const {
    if (type.optional && from.IsNull()) return {};
    switch (type.kind) {
      case Kind::truth:
        if (!from.IsBool()) wrong(from, pointer, "true or false");
        return from.GetBool();
      case Kind::whole: {
        const auto whole = as_integer(from, how_.least, max_position);
        if (!whole) wrong(from, pointer, in_range(how_.least, max_position));
        return *whole;
      }
      case Kind::number: {
        const auto number = as_number(from, finite);
        if (!number) wrong(from, pointer, in_range(finite));
        return *number;
      }
      case Kind::word:
        return word(from, pointer, type);
      case Kind::list:
        return list(from, pointer, type);
      case Kind::record:
        return record(from, pointer, type);
      case Kind::tensor:
      case Kind::positions:
        break;
    }
    notes_.fail(pointer, "is an array: it has no place in JSON");
  }

 private:
  [[noreturn]] void wrong(const rapidjson::Value& from, const std::string& pointer, const std::string& wanted) const {
    notes_.fail(pointer, "must be " + wanted + ", got " + found(from));
  }

  Value word(const rapidjson::Value& from, const std::string& pointer, const ValueType& type) const {
    if (!from.IsString()) wrong(from, pointer, "a string");
    std::string got(from.GetString(), from.GetStringLength());
    if (type.words.empty() || std::find(type.words.begin(), type.words.end(), got) != type.words.end()) return got;
    std::string wanted;
    for (const std::string& one : type.words) wanted += (wanted.empty() ? "" : " or ") + json::quoted(one);
    wrong(from, pointer, wanted);
  }

  Value list(const rapidjson::Value& from, const std::string& pointer, const ValueType& type) const {
    const std::size_t count = type.items.size();
    if (!from.IsArray() || from.Size() > most_entries || (count > 1 && from.Size() != count)) {
      wrong(from, pointer,
            count > 1 ? "an array of " + std::to_string(count) : "an array of at most " + std::to_string(most_entries));
    }
    Values all;
    for (const auto& entry : from.GetArray()) {
      const ValueType& of = type.items[count > 1 ? all.size() : 0];
      all.push_back(read(entry, pointer + "/" + std::to_string(all.size()), of));
    }
    return all;
  }

  Value record(const rapidjson::Value& from, const std::string& pointer, const ValueType& type) const {
    if (type.records.size() == 1 && type.records[0] == typeid(RotaryPart)) return read_part(from, pointer, notes_);
    const Object object(from, pointer, notes_);
    std::vector<const RecordType*> among;
    for (const std::type_index one : type.records) among.push_back(registry().record(one));
    const RecordType& found = type_of(object, among);
    if (found.type == typeid(Rope)) return read_rope(object);
    return read_record(object, found.make(), {.tagged = among.size() > 1 || object.has("type"), .least = how_.least});
  }

  Notes& notes_;
  const Reading& how_;
};

/// What a member that must be there may be: "half" or "interleaved".
std::string wanted_text(const ValueType& type) {
  std::string words;
  for (const std::string& word : type.words) words += (words.empty() ? "" : " or ") + json::quoted(word);
  return words.empty() ? python_type(type) : words;
}

}  // namespace

std::string members_text(const Record& record, Form form) {
  std::string out;
  for (const MemberInfo& member : record.type().members) {
    const Value value = member.get(record.value());
    if (form == Form::brief && std::holds_alternative<std::monostate>(value)) continue;
    out += (out.empty() ? "\"" : ", \"") + member.name + "\": " + text_of(value, form);
  }
  return out;
}

std::string text_of(const Value& value, Form form) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const Index* whole = std::get_if<Index>(&value)) return std::to_string(*whole);
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  if (const std::string* word = std::get_if<std::string>(&value)) return word_text(*word);
  if (const Record* record = std::get_if<Record>(&value)) return record_text(*record, form);
  const Values* values = std::get_if<Values>(&value);
  if (values == nullptr) return "null";
  std::string out = "[";
  for (const Value& one : *values) out += (out.size() == 1 ? "" : ", ") + text_of(one, form);
  return out + "]";
}

Record read_record(const Object& object, const Record& initial, const Reading& how) {
  Record record = initial;
  const Reader reader(object.notes(), how);
  for (const MemberInfo& member : record.type().members) {
    const rapidjson::Value* value = object.find(member.name);
    if (value == nullptr) {
      if (member.required) object.missing(member.name, wanted_text(member.type));
      continue;
    }
    record.set(member.name, reader.read(*value, object.pointer(member.name), member.type));
  }
  std::string known = how.tagged ? "type" : "";
  for (const MemberInfo& member : record.type().members) known += (known.empty() ? "" : ", ") + member.name;
  for (const std::string_view key : object.keys()) {
    if (record.type().member(key) != nullptr || (how.tagged && key == "type")) continue;
    object.notes().fail(object.pointer(key), "must be one of: " + known);
  }
  return record;
}

const RecordType& type_of(const Object& object, const std::vector<const RecordType*>& among) {
  const auto tag = object.text("type");
  if (!tag && among.size() == 1) return *among[0];
  std::string known;
  for (const RecordType* type : among) {
    const std::string word = scaling_word(*type);
    if (tag && (*tag == type->name || *tag == word)) return *type;
    known += (known.empty() ? "" : ", ") + (word.empty() ? type->name : word);
  }
  if (!tag) object.missing("type", "one of " + known);
  object.wrong("type", "one of " + known);
}

}  // namespace json

std::string to_json(const Record& record) {
  if (!record) throw ShapeError("[to_json] record: must hold something, got an empty one");
  return json::text_of(record);
}

Record parse_record(std::string_view text, const std::string& name, const std::vector<const RecordType*>& among) {
  json::Notes notes(name);
  const json::Document document(std::string(text), notes);
  const json::Object object(document.root(), "", notes);
  std::vector<const RecordType*> types = among;
  if (types.empty()) {
    for (const RecordType& type : registry().records()) types.push_back(&type);
  }
  const bool may_be_rope =
      std::any_of(types.begin(), types.end(), [](const auto* one) { return one->type == typeid(Rope); });
  const bool rope = may_be_rope && object.has("pairing") && object.has("head_dim") && !object.has("type");
  const RecordType& type = rope ? *registry().record(typeid(Rope)) : json::type_of(object, types);
  Record record = type.type == typeid(Rope) ? json::read_rope(object) : json::read_record(object, type.make());
  // There is nowhere to put a warning, and a spec is short enough to be right.
  if (const auto warnings = notes.take(); !warnings.empty()) notes.fail(warnings[0].pointer, warnings[0].text);
  return record;
}

}  // namespace bearing
