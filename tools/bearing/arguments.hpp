#pragma once

#include <bearing/view.hpp>
#include <string>
#include <string_view>
#include <vector>

// What CLI11 2.1.2 leaves to do: numbers without locale and with their range named, and suggestions for typing errors.

namespace bearing::tool {

/// A whole number in [lowest, highest]; k after it stands for 2^10, M for 2^20, as in lengths of contexts. Throws
/// UsageError naming the option for anything else.
Index parse_index(std::string_view option, std::string_view text, Index lowest, Index highest);

/// Whether text is meant as a whole number, not as a file's name.
bool is_index(std::string_view text);

/// "npy, csv or text"
std::string either(const std::vector<std::string>& words);

/// A library's error without the function's name: "[resolve] base: …" → "base: …".
std::string without_function(const std::string& error);

/// "2", "1e-3": throws UsageError naming the option for anything else, and for what is not finite.
double parse_number(const std::string& option, const std::string& text);

/// "; did you mean 'config'?", or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace bearing::tool
