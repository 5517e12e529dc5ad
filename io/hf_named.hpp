#pragma once

#include <span>
#include <string_view>

// Model types whose encoding is known by name, and why no spec says it.

namespace bearing::hf {

struct Named {
  std::string_view model_type, encoding;  ///< "none": nothing tells positions
  const char* why = "";                   ///< a sentence without its full stop; "" where there is nothing to add
  bool differs = false;                   ///< whether its code does something else than the encoding of that name
};
std::span<const Named> named_types();
const Named* find_named(std::string_view model_type);

}  // namespace bearing::hf
