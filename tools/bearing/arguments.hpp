#pragma once

#include <bearing/view.hpp>
#include <string>
#include <string_view>
#include <vector>

// What CLI11 2.1.2 leaves to do: numbers without locale and with their range named, and suggestions for typing errors.

namespace bearing::tool {

/// A whole number in [lowest, highest]; throws UsageError naming the option otherwise.
Index parse_index(std::string_view option, std::string_view text, Index lowest, Index highest);

/// The closest of the known words, or "" if none is near.
std::string closest(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean 'config'?", or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace bearing::tool
