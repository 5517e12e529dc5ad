#pragma once

#include <bearing/description.hpp>
#include <string>
#include <string_view>
#include <vector>

// Values of members from the text after KEY=.

namespace bearing::say {

/// A value, or what had to be there instead.
struct Parsed {
  Value value = {};
  std::string wanted = {};  ///< empty: the value is right
};
Parsed parse_value(const std::string& text, const ValueType& type);

/// The type of a member of a record, or of a record in it; null if none is called so.
const ValueType* type_of_member(const Record& record, const std::string& name);

}  // namespace bearing::say
