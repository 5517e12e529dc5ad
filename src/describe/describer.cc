#include "describe/describer.hpp"

#include <string_view>

namespace bearing {

namespace {

struct NamedSize {
  std::string_view name;
  Index Sizes::*size;
};
constexpr NamedSize named_sizes[] = {
    {"batch", &Sizes::batch}, {"heads", &Sizes::heads}, {"kv_heads", &Sizes::kv_heads},   {"q_len", &Sizes::q_len},
    {"k_len", &Sizes::k_len}, {"dim", &Sizes::dim},     {"value_dim", &Sizes::value_dim},
};

}  // namespace

Extent NamedExtent::named(const char* called) {
  Extent extent{called, {}, called};
  extent.size = [called](const Record& spec, const Sizes& of) -> Index {
    if (spec && spec.type().member(called) != nullptr) return std::get<Index>(spec.get(called));
    for (const NamedSize& one : named_sizes) {
      if (one.name == called && of.*one.size != 0) return of.*one.size;
    }
    return any;
  };
  return extent;
}

Parameter::Parameter(const char* called, std::initializer_list<NamedExtent> axes, const char* about) {
  name = called;
  if constexpr (kept_whole) text = about;
  extents.assign(axes.begin(), axes.end());
}

void describe::add_member(RecordType& type, const char* name, const char* text, const MemberAccess& access,
                          void* (*object)(std::any&), std::ptrdiff_t offset) {
  MemberInfo info{name, text, access.type(), access.required, {}, {}};
  const auto place = [=](std::any& of) { return static_cast<char*>(object(of)) + offset; };
  info.get = [place, &access](const std::any& of) { return access.get(place(const_cast<std::any&>(of))); };
  info.set = [place, &access](std::any& of, const Value& value) { access.set(place(of), value); };
  type.members.push_back(std::move(info));
}

void describe::check_memory(const EncodingInfo& info, const Record& spec, std::span<const ParameterMemory> memory) {
  std::vector<bool> given;
  for (const ParameterMemory& one : memory) given.push_back(one.value != nullptr || !one.shape.empty());
  info.check_given(spec, given);
}

Description& EncodingNames::add(const char* name, const char* title, const char* does) const {
  Description one{name, {}, title, does, paper, home, &info};
  one.page = home;
  one.computed = computed;
  names.push_back(std::move(one));
  return names.back();
}

RecordType& Describer::add_record(const char* name, const char* text, std::type_index type, std::any initial) {
  to_.records_.push_back({name, kept_whole ? text : "", type, std::move(initial), {}, {}, {}, {}, {}});
  return to_.records_.back();
}

EncodingInfo& Describer::add_encoding(const char* name, const char* text, std::vector<ParameterInfo> parameters) {
  EncodingInfo& info = to_.encodings_.emplace_back();
  info.name = name, info.parameters = std::move(parameters);
  if constexpr (kept_whole) info.text = text;
  return info;
}

void Describer::add_specs(EncodingInfo& info, const ValueType& type) {
  info.spec_optional = type.optional;
  for (const std::type_index one : type.records) info.specs.push_back(to_.record(one));
}

Description& Describer::name(Description one) {
  if (one.home.empty()) one.home = home_;
  if (one.page.empty()) one.page = one.home;
  if (one.paper.authors.empty()) one.paper = paper_;
  return to_.descriptions_.emplace_back(std::move(one));
}

}  // namespace bearing
