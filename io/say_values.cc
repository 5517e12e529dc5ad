#include "say_values.hpp"

#include <algorithm>
#include <bearing/npy.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "record_json.hpp"

namespace bearing::say {
namespace {

/// k after it stands for 2^10, M for 2^20, as in lengths of contexts.
std::optional<Index> whole_number(std::string_view text) {
  Index value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) return {};
  if (last == end) return value;
  const Index unit = *last == 'k' ? Index{1} << 10 : *last == 'M' ? Index{1} << 20 : 0;
  if (unit == 0 || last + 1 != end || std::abs(value) > std::numeric_limits<Index>::max() / unit) return {};
  return value * unit;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end || !std::isfinite(value)) return {};
  return value;
}

std::string either(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
  }
  return out;
}

template <class T>
Values numbers_in(const NpyArray& array) {
  const T* from = reinterpret_cast<const T*>(array.bytes.data());
  Values all;
  for (std::size_t i = 0; i < array.bytes.size() / sizeof(T); ++i) {
    if constexpr (std::is_same_v<T, Index>) {
      all.emplace_back(from[i]);
    } else {
      all.emplace_back(static_cast<double>(from[i]));
    }
  }
  return all;
}

/// "1:2.5:4", or the numbers of a .npy file with one axis.
Parsed parse_list(const std::string& text, const ValueType& type) {
  const ValueType& item = type.items[0];
  if (text.ends_with(".npy")) {
    const NpyArray array = read_npy(text);
    const bool whole = item.kind == Kind::whole, f4 = array.dtype == "f4";
    if (array.shape.size() != 1 || (whole ? array.dtype != "i8" : !f4 && array.dtype != "f8")) {
      throw ConfigError(text + ": must be " + (whole ? "int64 (i8)" : "float32 or float64 (f4, f8)") +
                        " of one axis, got " + array.dtype + " of " + std::to_string(array.shape.size()));
    }
    return {whole ? numbers_in<Index>(array) : f4 ? numbers_in<float>(array) : numbers_in<double>(array)};
  }
  Values all;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(':', from), text.size());
    Parsed one = parse_value(text.substr(from, end - from), item);
    if (!one.wanted.empty()) return {{}, "a list, 1:2:3 or a .npy file"};
    all.push_back(std::move(one.value));
    from = end + 1;
  }
  if (type.items.size() > 1 && all.size() != type.items.size()) {
    return {{}, "a list of " + std::to_string(type.items.size())};
  }
  return {all};
}

/// A record by the word that tells it from others, "llama3", or by the one word that it has, "last"; its other members
/// have their defaults.
Parsed parse_record_word(const std::string& text, const ValueType& type) {
  std::vector<std::string> words;
  for (const std::type_index one : type.records) {
    const RecordType& record = *registry().record(one);
    const std::string word = json::scaling_word(record);
    if (type.records.size() > 1) {
      words.push_back(word.empty() ? record.name : word);
      if (text == words.back()) return {record.make()};
      continue;
    }
    for (const MemberInfo& member : record.members) {
      if (member.type.kind != Kind::word) continue;
      Record made = record.make();
      Parsed parsed = parse_value(text, member.type);
      if (parsed.wanted.empty()) return made.set(member.name, parsed.value), Parsed{made};
      return parsed;
    }
  }
  return {{}, words.empty() ? "said by its own members" : either(words)};
}

}  // namespace

Parsed parse_value(const std::string& text, const ValueType& type) {
  if (type.optional && text == "none") return {};
  switch (type.kind) {
    case Kind::truth:
      if (text == "true" || text == "yes") return {true};
      if (text == "false" || text == "no") return {false};
      return {{}, "true or false"};
    case Kind::whole:
      if (const auto value = whole_number(text)) return {*value};
      return {{}, "a whole number"};
    case Kind::number:
      if (const auto value = number(text)) return {*value};
      return {{}, "a finite number"};
    case Kind::word:
      if (type.words.empty() || std::find(type.words.begin(), type.words.end(), text) != type.words.end())
        return {text};
      return {{}, either(type.words)};
    case Kind::list:
      return parse_list(text, type);
    case Kind::record:
      return parse_record_word(text, type);
    case Kind::tensor:
    case Kind::positions:
      break;
  }
  return {{}, "nothing: it is an array"};
}

const ValueType* type_of_member(const Record& record, const std::string& name) {
  if (const MemberInfo* member = record.type().member(name)) return &member->type;
  for (const MemberInfo& member : record.type().members) {
    const Value value = record.get(member.name);
    const Record* inner = std::get_if<Record>(&value);
    const ValueType* found = inner == nullptr || !*inner ? nullptr : type_of_member(*inner, name);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace bearing::say
