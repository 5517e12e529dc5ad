#include <algorithm>
#include <bearing/description.hpp>
#include <bearing/error.hpp>
#include <stdexcept>

#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

const MemberInfo& member_of(const RecordType& type, std::string_view name) {
  const MemberInfo* found = type.member(name);
  if (found == nullptr) throw std::out_of_range(concat("[", type.name, "] has no member ", name));
  return *found;
}

bool fits(const ValueType& type, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return type.optional;
  switch (type.kind) {
    case Kind::truth:
      return std::holds_alternative<bool>(value);
    case Kind::whole:
      return std::holds_alternative<Index>(value);
    case Kind::number:
      return std::holds_alternative<Index>(value) || std::holds_alternative<double>(value);
    case Kind::word: {
      const auto* word = std::get_if<std::string>(&value);
      return word != nullptr &&
             (type.words.empty() || std::find(type.words.begin(), type.words.end(), *word) != type.words.end());
    }
    case Kind::list: {
      const auto* all = std::get_if<Values>(&value);
      if (all == nullptr || (type.items.size() > 1 && all->size() != type.items.size())) return false;
      return std::all_of(all->begin(), all->end(), [&](const Value& one) { return fits(type.items[0], one); });
    }
    case Kind::record: {
      const auto* record = std::get_if<Record>(&value);
      return record != nullptr && *record &&
             std::find(type.records.begin(), type.records.end(), record->type().type) != type.records.end();
    }
    case Kind::tensor:
    case Kind::positions:
      return std::holds_alternative<Tensor>(value);
  }
  return false;
}

/// In lower case, with _ for - and spaces.
std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    out += c == '-' || c == ' ' ? '_' : upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

template <class All>
auto named(const All& all, std::string_view name) -> decltype(&all[0]) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

void EncodingInfo::check_given(const Record& spec, const std::vector<bool>& given) const {
  const auto fail = [&](const std::string& arguments, const char* must) {
    throw ShapeError(concat("[", name, "] ", arguments, ": must be ", must));
  };
  std::string all = spec_optional ? "spec" : "";
  bool any = spec_optional && spec;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ParameterInfo& one = parameters[p];
    if (!one.optional) continue;
    all += (all.empty() ? "" : ", ") + one.name;
    any = any || given[p];
    if (!one.wanted || one.wanted(spec) == given[p]) continue;
    if (spec_optional) {
      fail(one.name,
           given[p] ? "given, in a spec or as an array, got both" : "given, in a spec or as an array, got neither");
    }
    fail(one.name, given[p] ? "left out, as the spec has none, got an array" : "given, as the spec has it, got none");
  }
  if (needs_one && !any) fail(all, "given, one of them at least, got none");
}

Value Record::get(std::string_view member) const { return member_of(type(), member).get(value_); }

void Record::set(std::string_view member, const Value& value) {
  const MemberInfo& info = member_of(type(), member);
  if (!fits(info.type, value)) {
    throw ConfigError(concat("[", type().name, "] ", member, ": must be ", python_type(info.type)));
  }
  info.set(value_, value);
}

bool Record::operator==(const Record& other) const {
  if (type_ != other.type_) return false;
  return type_ == nullptr || type_->equal == nullptr || type_->equal(value_, other.value_);
}

const RecordType& Record::type_of(std::type_index type) {
  const RecordType* found = registry().record(type);
  if (found == nullptr) throw std::logic_error("[Record] of: must be of a type that is described");
  return *found;
}

const MemberInfo* RecordType::member(std::string_view called) const { return named(members, called); }

std::size_t ParameterInfo::fewest() const {
  std::size_t axes = extents.size();
  for (const Extent& extent : extents) {
    if (!extent.or_one) break;
    --axes;
  }
  return axes;
}

const ParameterInfo& ComputedInfo::parameter() const { return *named(encoding->parameters, gives); }

Record ComputedInfo::spec_of(const ComputedCall& call) const { return encoding_spec ? encoding_spec(call) : call.spec; }

std::vector<Index> ComputedInfo::shape(const ComputedCall& call) const {
  const Record spec = spec_of(call);
  std::vector<Index> shape;
  for (const Extent& extent : parameter().extents) {
    const Index size = extent.size(spec, call.sizes);
    shape.push_back(size == Extent::any && any_extent ? any_extent(call) : size);
  }
  return shape;
}

const RecordType* Registry::record(std::string_view name) const { return named(records_, name); }

const RecordType* Registry::record(std::type_index type) const {
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const auto& one) { return one.type == type; });
  return found == records_.end() ? nullptr : &*found;
}

const EncodingInfo* Registry::encoding(std::string_view name) const { return named(encodings_, name); }

bool Description::is(std::string_view other) const {
  const std::string wanted = plain_name(other);
  return plain_name(name) == wanted || std::any_of(aliases.begin(), aliases.end(), [&](const std::string& alias) {
           return plain_name(alias) == wanted;
         });
}

std::vector<const ParameterInfo*> Description::parameters() const {
  std::vector<const ParameterInfo*> all;
  const EncodingInfo* info = computed == nullptr ? encoding : computed->encoding;
  if (info == nullptr) return all;
  for (const ParameterInfo& parameter : info->parameters) {
    const bool is_computed = computed != nullptr && parameter.name == computed->gives;
    if (is_computed) {
      for (const ParameterInfo& learned : computed->from) all.push_back(&learned);
    }
    if (!is_computed || encoding != nullptr) all.push_back(&parameter);
  }
  for (const EncodingInfo* other : beside) {
    for (const ParameterInfo& parameter : other->parameters) all.push_back(&parameter);
  }
  return all;
}

const Description* Registry::find(std::string_view name) const {
  const auto found =
      std::find_if(descriptions_.begin(), descriptions_.end(), [&](const Description& one) { return one.is(name); });
  return found == descriptions_.end() ? nullptr : &*found;
}

std::string python_type(const ValueType& type) {
  std::string name;
  const auto listed = [](const auto& all, const auto& text, const char* between) {
    std::string out;
    for (const auto& one : all) out += (out.empty() ? "" : between) + text(one);
    return out;
  };
  switch (type.kind) {
    case Kind::truth:
      name = "bool";
      break;
    case Kind::whole:
      name = "int";
      break;
    case Kind::number:
      name = "float";
      break;
    case Kind::word:
      name = type.words.empty() ? "str"
                                : "Literal[" +
                                      listed(
                                          type.words, [](const std::string& word) { return "'" + word + "'"; }, ", ") +
                                      "]";
      break;
    case Kind::list:
      name = type.items.size() == 1 ? "Sequence[" + python_type(type.items[0]) + "]"
                                    : "tuple[" + listed(type.items, python_type, ", ") + "]";
      break;
    case Kind::record:
      name = listed(
          type.records, [](std::type_index one) { return registry().record(one)->name; }, " | ");
      break;
    case Kind::tensor:
      name = "ArrayLike";
      break;
    case Kind::positions:
      name = "Positions";
      break;
  }
  return type.optional ? name + " | None" : name;
}

}  // namespace bearing
