#include <bearing/reference/fourier.hpp>
#include <cmath>
#include <numbers>

namespace bearing::reference {

double fourier(const Fourier& spec, View<const double, 2> frequencies, Index d, const double* p) {
  if (spec.coordinates == FourierCoordinates::first) {
    if (d < spec.axes) return p[d];
    d -= spec.axes;
  }
  const FourierLayout layout = spec.layout;
  const Index half = spec.frequencies;
  const Index f = layout == FourierLayout::interleaved ? d / 2 : d % half;
  const bool sine =
      layout == FourierLayout::interleaved ? d % 2 == 0 : (d < half) == (layout == FourierLayout::sines_first);
  double angle = 0;
  for (Index axis = 0; axis < spec.axes; ++axis) angle += frequencies(f, axis) * p[axis];
  if (spec.unit == FourierUnit::half_turns) angle *= std::numbers::pi;
  if (spec.unit == FourierUnit::turns) angle *= 2 * std::numbers::pi;
  return spec.scale * (sine ? std::sin(angle) : std::cos(angle));
}

}  // namespace bearing::reference
