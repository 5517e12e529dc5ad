#pragma once

#include <algorithm>
#include <array>
#include <bearing/description.hpp>
#include <bearing/error.hpp>
#include <new>
#include <string>

#include "describe/values.hpp"
#include "text.hpp"

// Functions of descriptions that take and give arrays.

namespace bearing::describe {

/// An array's numbers, of one type.
template <class A, int Rank>
View<const A, Rank> view_of(const char* argument, const Tensor& tensor) {
  const auto* numbers = std::get_if<std::vector<A>>(&tensor.numbers);
  if (numbers == nullptr) throw ShapeError(text::concat(argument, ": must be of the type of the arguments before it"));
  if (tensor.shape.size() != Rank) {
    throw ShapeError(text::concat(argument, ": must have ", Index{Rank}, " axes, got shape ", tensor.shape));
  }
  std::array<Index, Rank> shape{};
  std::copy_n(tensor.shape.begin(), Rank, shape.begin());
  return row_major(numbers->data(), shape);
}

/// How many numbers an array of that shape has; none where an extent is negative, which the function that fills it
/// refuses. Throws std::bad_alloc for more bytes than can be counted.
template <class A, std::size_t Rank>
std::size_t count_of(const std::array<Index, Rank>& shape) {
  if (*std::min_element(shape.begin(), shape.end()) <= 0) return 0;
  constexpr Index most = (Index{1} << 60) / static_cast<Index>(sizeof(A));
  Index count = 1;
  for (const Index extent : shape) {
    if (extent > most / count) throw std::bad_alloc();
    count *= extent;
  }
  return static_cast<std::size_t>(count);
}

/// A new array of zeros, and its view.
template <class A, int Rank>
struct NewTensor {
  explicit NewTensor(std::array<Index, Rank> shape) : tensor{{shape.begin(), shape.end()}, {}} {
    std::vector<A>& numbers = tensor.numbers.template emplace<std::vector<A>>(count_of<A>(shape));
    view = row_major(numbers.data(), shape);
  }

  Tensor tensor;
  View<A, Rank> view{};
};

/// f.template operator()<A>() in the arithmetic of an array: float or double. Throws ShapeError for another one.
template <class F>
auto in_arithmetic_of(const char* argument, const Tensor& tensor, const F& f) {
  if (std::holds_alternative<std::vector<float>>(tensor.numbers)) return f.template operator()<float>();
  if (std::holds_alternative<std::vector<double>>(tensor.numbers)) return f.template operator()<double>();
  throw ShapeError(text::concat(argument, ": must be float32 or float64, got whole numbers"));
}

/// Numbers in double, [count].
inline Tensor doubles(std::vector<double> numbers) {
  const auto count = static_cast<Index>(numbers.size());
  return {{count}, std::move(numbers)};
}

/// Positions as a caller gives them: nothing (0, 1, 2, …), the first one of a row of them, or an array [time] or
/// [batch, time].
struct GivenPositions {
  Value given;

  /// Empty for those that are counted.
  std::vector<Index> shape() const {
    const auto* array = std::get_if<Tensor>(&given);
    return array == nullptr ? std::vector<Index>{} : array->shape;
  }
  /// Refers to the array.
  Positions positions() const {
    const auto* array = std::get_if<Tensor>(&given);
    if (array == nullptr) {
      const auto* first = std::get_if<Index>(&given);
      return Positions(first == nullptr ? Index{0} : *first);
    }
    const bool rows = array->shape.size() == 2;
    const Index batch = rows ? array->shape[0] : 1, time = array->shape.back();
    return std::visit(
        [&]<class T>(const std::vector<T>& numbers) -> Positions {
          if constexpr (std::is_same_v<T, float>) {
            throw ShapeError("positions: must be whole or float64 numbers, got float32");
          } else {
            return rows ? Positions(dense(numbers.data(), batch, time)) : Positions(dense(numbers.data(), time));
          }
        },
        array->numbers);
  }
};

template <>
struct ValueOf<GivenPositions> {
  static Value to(const GivenPositions& positions) { return positions.given; }
  static GivenPositions from(const Value& value) { return {value}; }
  static ValueType type() { return {.kind = Kind::positions, .optional = true}; }
};

}  // namespace bearing::describe
