#include "load_arranged.hpp"

#include <algorithm>

namespace bearing::load {
namespace {

using Shape = std::vector<Index>;

std::vector<float> transposed(const Shape& shape, const std::vector<float>& numbers) {
  std::vector<float> out;
  out.reserve(numbers.size());
  for (Index column = 0; column < shape[1]; ++column) {
    for (Index row = 0; row < shape[0]; ++row) {
      out.push_back(numbers[static_cast<std::size_t>(row * shape[1] + column)]);
    }
  }
  return out;
}

std::vector<float> sines_first(const Shape& shape, const std::vector<float>& numbers) {
  const std::size_t columns = static_cast<std::size_t>(shape[1]);
  std::vector<float> out;
  out.reserve(numbers.size());
  for (std::size_t row = 0; row < numbers.size(); row += columns) {
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
      for (std::size_t column = first; column < columns; column += 2) out.push_back(numbers[row + column]);
    }
  }
  return out;
}

/// Of each table, the last row `first` times, then the others down to row 0.
std::vector<float> reversed(const Shape& shape, const std::vector<float>& numbers, int first) {
  const Index rows = shape[shape.size() - 2], columns = shape.back();
  std::vector<float> out;
  out.reserve(numbers.size());
  for (auto table = numbers.begin(); table != numbers.end(); table += rows * columns) {
    for (int again = 1; again < first; ++again) {
      out.insert(out.end(), table + (rows - 1) * columns, table + rows * columns);
    }
    for (Index row = rows; row-- > 0;) {
      out.insert(out.end(), table + row * columns, table + (row + 1) * columns);
    }
  }
  return out;
}

}  // namespace

Shape arranged_shape(Arranged how, Shape shape, Index heads) {
  if (how == Arranged::as_it_is) return shape;
  if (how == Arranged::flat_transposed) {
    const bool fits = shape.size() == 3 && shape[0] > 0 && shape[0] % 2 == 0 && (heads == 0 || shape[1] == heads);
    return fits ? Shape{shape[1] * shape[2], shape[0]} : Shape{};
  }
  if (how == Arranged::joined) {
    if (shape.size() < 2) return {};
    Index rows = 1;
    for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
    return {rows, shape.back()};
  }
  if (how == Arranged::first_of_two || how == Arranged::second_of_two) {
    return shape.size() == 3 && shape[0] == 2 ? Shape{shape[1], shape[2]} : Shape{};
  }
  if (how == Arranged::sines_first) {
    return shape.size() == 2 && shape[1] > 0 && shape[1] % 2 == 0 ? shape : Shape{};
  }
  if (shape.size() < 2 || (how == Arranged::transposed && shape.size() > 2)) return {};
  if (how == Arranged::transposed) std::swap(shape[0], shape[1]);
  if (how == Arranged::reversed_short) ++shape[shape.size() - 2];
  return shape;
}

std::vector<float> arranged(Arranged how, const Shape& shape, std::vector<float> numbers) {
  if (numbers.empty()) return numbers;
  switch (how) {
    case Arranged::transposed:
      return transposed(shape, numbers);
    case Arranged::reversed:
      return reversed(shape, numbers, 1);
    case Arranged::reversed_short:
      return reversed(shape, numbers, 2);
    case Arranged::flat_transposed:
      return transposed({shape[0], shape[1] * shape[2]}, numbers);
    case Arranged::sines_first:
      return sines_first(shape, numbers);
    case Arranged::first_of_two:
      numbers.resize(numbers.size() / 2);
      break;
    case Arranged::second_of_two:
      numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2));
      break;
    case Arranged::as_it_is:
    case Arranged::joined:
      break;
  }
  return numbers;
}

const char* arranged_text(Arranged how) {
  switch (how) {
    case Arranged::transposed:
      return ", transposed";
    case Arranged::reversed_short:
      return ", with a row more";
    case Arranged::flat_transposed:
      return ", transposed, heads and dim on axes of their own, d_model even";
    case Arranged::sines_first:
      return ", d_model even";
    case Arranged::first_of_two:
    case Arranged::second_of_two:
      return ", one of two on an axis before";
    case Arranged::joined:
      return ", with all axes but the last joined";
    case Arranged::as_it_is:
    case Arranged::reversed:
      break;
  }
  return "";
}

}  // namespace bearing::load
