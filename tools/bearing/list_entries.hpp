#pragma once

#include <bearing/catalog.hpp>
#include <string>
#include <vector>

// What a list says of an encoding, for JSON, text and Markdown.

namespace bearing::tool {

/// Small: what a list shows does not depend on the size.
inline constexpr inspect::SpecimenOptions list_size = {.heads = 2, .dim = 16, .length = 16};

const char* form_word(Form form);

/// A member of the spec or a setting, as a list shows it.
struct ShownMember {
  const MemberInfo* info;
  Value value;            ///< what it is if nobody says it; nothing where it must be given
  bool required = false;  ///< neither has it a default, nor does the name stand for one
  bool setting = false;   ///< which examples have no use for: only `attend` takes it
};

std::vector<ShownMember> members_of(const Description& entry);
/// The same, with the members of a record in place of the record where that is always of one type: its members are
/// keys, and it has no word.
std::vector<ShownMember> keys_of(const std::vector<ShownMember>& members);

/// Not in every model: it is computed there, or belongs to a term beside the encoding.
bool may_be_left_out(const Description& entry, const ParameterInfo& parameter);

// A member or a parameter in words.
std::string default_text(const ShownMember& member);
std::string member_text(const ShownMember& member);
std::string extents_text(const ParameterInfo& parameter);
std::string parameter_text(const Description& entry, const ParameterInfo& parameter);
/// "Raffel et al. 2020, arXiv 1910.10683"; empty if nobody published it.
std::string paper_text(const Paper& paper);

}  // namespace bearing::tool
