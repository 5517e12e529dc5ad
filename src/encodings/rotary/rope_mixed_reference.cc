#include <bearing/reference/rope_mixed.hpp>
#include <complex>

namespace bearing::reference {

void rope_mixed(const RopeMixed& mixed, View<const double, 3> frequencies, Index set, const double* p,
                View<const double, 1> x, View<double, 1> y) {
  const Index pairs = mixed.head_dim / 2;
  for (Index i = 0; i < pairs; ++i) {
    const Index u = mixed.pairing == Pairing::half ? i : 2 * i;
    const Index v = mixed.pairing == Pairing::half ? i + pairs : 2 * i + 1;
    double angle = 0;
    for (Index axis = 0; axis < mixed.axes; ++axis) angle += p[axis] * frequencies(axis, set, i);
    const std::complex<double> turned = std::complex(x(u), x(v)) * std::polar(1.0, angle);
    y(u) = turned.real();
    y(v) = turned.imag();
  }
}

}  // namespace bearing::reference
