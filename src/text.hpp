#pragma once

#include <bearing/error.hpp>
#include <bearing/kept.hpp>
#include <bearing/view.hpp>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

// Pieces of error messages, the same in every locale.

namespace bearing::text {

void append(std::string& to, std::string_view piece);
void append(std::string& to, const char* piece);
void append(std::string& to, std::int64_t number);
void append(std::string& to, std::uint64_t number);
void append(std::string& to, double number);                   // the shortest form that reads back
void append(std::string& to, const Device& device);            // "cuda:0"
void append(std::string& to, std::span<const Index> numbers);  // "[2, 3]"

template <std::integral Whole>
requires(sizeof(Whole) >= sizeof(int)) void append(std::string& to, Whole number) {
  append(to, static_cast<std::conditional_t<std::is_signed_v<Whole>, std::int64_t, std::uint64_t>>(number));
}
template <std::size_t Rank>
void append(std::string& to, const std::array<Index, Rank>& shape) {
  append(to, std::span<const Index>(shape));
}

/// concat("got ", 3, ", shape is ", shape)
template <class... Pieces>
std::string concat(const Pieces&... pieces) {
  std::string joined;
  (append(joined, pieces), ...);
  return joined;
}

/// A text as if `function` had said it.
std::string renamed(std::string_view function, std::string_view what);

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
