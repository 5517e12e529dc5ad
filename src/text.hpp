#pragma once

#include <bearing/error.hpp>
#include <bearing/kept.hpp>
#include <bearing/view.hpp>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

// Pieces of error messages, the same in every locale.

namespace bearing::text {

inline void append(std::string& to, std::string_view piece) { to += piece; }
inline void append(std::string& to, const char* piece) { to += piece; }
template <std::integral Whole>
requires(sizeof(Whole) >= sizeof(int)) void append(std::string& to, Whole number) {
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

/// "cuda:0"
inline void append(std::string& to, const Device& device) {
  append(to, name(device.kind));
  to += ':';
  append(to, Index{device.index});
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

/// A text as if `function` had said it.
inline std::string renamed(std::string_view function, std::string_view what) {
  const std::size_t end = what.find("] ");
  return concat("[", function, end == what.npos ? std::string_view("] ") : std::string_view(""),
                end == what.npos ? what : what.substr(end));
}

/// The functions in whose names a call runs, the last first: what a build that only draws has in place of catching, as
/// an exception ends its calls.
struct Naming {
  std::string_view function;
  const Naming* outer;
};
inline const Naming* namings = nullptr;

/// Calls body(); its errors name the function that the user called, not the one that found them.
template <class Body>
auto in_the_name_of(std::string_view function, const Body& body) {
  if constexpr (!kept_whole) {
    struct Named : Naming {
      explicit Named(std::string_view called) : Naming{called, namings} { namings = this; }
      ~Named() { namings = outer; }
    } const named(function);
    return body();
  }
  try {
    return body();
  } catch (const ShapeError& error) {
    throw ShapeError(renamed(function, error.what()));
  } catch (const RangeError& error) {
    throw RangeError(renamed(function, error.what()));
  }
}

}  // namespace bearing::text
