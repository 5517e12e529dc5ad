#include <bearing/reference/angle_rows.hpp>
#include <complex>

namespace bearing::reference {

void angle_row(const GivenAngles& spec, View<const double, 1> angles, View<const double, 1> x, View<double, 1> y) {
  const Index dim = spec.rotary_dim == 0 ? spec.head_dim : spec.rotary_dim;
  const Index begin = spec.part.where == RotaryPart::Where::last ? spec.head_dim - dim : spec.part.begin;
  for (Index d = 0; d < spec.head_dim; ++d) {
    if (d < begin || d >= begin + dim) y(d) = x(d);
  }
  for (Index i = 0; i < dim / 2; ++i) {
    const bool half = spec.pairing == Pairing::half;
    const Index u = begin + (half ? i : 2 * i), v = begin + (half ? i + dim / 2 : 2 * i + 1);
    const std::complex<double> turned = std::complex(x(u), x(v)) * std::polar(1.0, angles(i));
    y(u) = turned.real();
    y(v) = turned.imag();
  }
}

}  // namespace bearing::reference
