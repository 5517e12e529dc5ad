#pragma once

#include <array>
#include <bearing/view.hpp>

namespace bearing::inspect {

/// to(i, x · y_i) for every row of y. Each sum is taken in order; eight run side by side, as one alone waits for its
/// additions.
template <class To>
void dots(View<const double, 1> x, View<const double, 2> y, To&& to) {
  constexpr Index side = 8;
  Index i = 0;
  for (; i + side <= y.shape[0]; i += side) {
    std::array<double, side> sums{};
    for (Index d = 0; d < x.shape[0]; ++d) {
      for (Index r = 0; r < side; ++r) sums[static_cast<std::size_t>(r)] += x(d) * y(i + r, d);
    }
    for (Index r = 0; r < side; ++r) to(i + r, sums[static_cast<std::size_t>(r)]);
  }
  for (; i < y.shape[0]; ++i) {
    double sum = 0;
    for (Index d = 0; d < x.shape[0]; ++d) sum += x(d) * y(i, d);
    to(i, sum);
  }
}

/// Row i of x.
inline View<const double, 1> row(View<const double, 2> x, Index i) {
  return {x.data + i * x.stride[0], {x.shape[1]}, {x.stride[1]}, x.device};
}

}  // namespace bearing::inspect
