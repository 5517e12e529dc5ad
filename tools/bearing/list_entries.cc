#include "list_entries.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bearing/say.hpp>

#include "record_text.hpp"

namespace bearing::tool {

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

std::vector<ShownMember> members_of(const Description& entry) {
  std::vector<ShownMember> shown;
  const RecordType* spec = entry.spec ? &entry.spec(list_size).type() : nullptr;
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

bool may_be_left_out(const Description& entry, const ParameterInfo& parameter) {
  const auto has = [&](const EncodingInfo* info) {
    return std::ranges::any_of(info->parameters, [&](const ParameterInfo& one) { return &one == &parameter; });
  };
  const bool computed = entry.computed != nullptr && &entry.computed->parameter() == &parameter;
  return parameter.optional || computed || std::ranges::any_of(entry.beside, has);
}

std::string default_text(const ShownMember& member) {
  const std::string value = member.required ? "must be given" : value_text(member.value);
  return value.empty() ? "-" : value;
}

std::string member_text(const ShownMember& member) {
  const std::string words = member.info->type.words.empty() ? "" : type_text(member.info->type) + ". ";
  return words + member.info->text + (member.setting ? " Only attend takes it." : "");
}

std::string parameter_text(const Description& entry, const ParameterInfo& parameter) {
  std::string text =
      extents_text(parameter) + (may_be_left_out(entry, parameter) ? ", may be left out" : "") + ". " + parameter.text;
  if (!parameter.start.text.empty()) text += " Starts " + parameter.start.text + ".";
  return text;
}

std::string paper_text(const Paper& paper) {
  return paper.year > 0 ? fmt::format("{} {}, {}", paper.authors, paper.year, paper.source) : "";
}

}  // namespace bearing::tool
