#pragma once

#include <bearing/view.hpp>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

// Pieces of error messages, the same in every locale.

namespace bearing::text {

inline void append(std::string& to, std::string_view piece) { to += piece; }
inline void append(std::string& to, const char* piece) { to += piece; }
inline void append(std::string& to, Index number) {
  char digits[24];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}
inline void append(std::string& to, double number) {  // the shortest form that reads back
  char digits[40];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}
template <std::size_t Rank>
void append(std::string& to, const std::array<Index, Rank>& shape) {
  to += '[';
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    if (axis > 0) to += ", ";
    append(to, shape[axis]);
  }
  to += ']';
}

inline void append(std::string& to, const std::vector<Index>& numbers) {
  to += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) to += ", ";
    append(to, numbers[i]);
  }
  to += ']';
}

/// concat("got ", 3, ", shape is ", shape)
template <class... Pieces>
std::string concat(const Pieces&... pieces) {
  std::string joined;
  (append(joined, pieces), ...);
  return joined;
}

}  // namespace bearing::text
