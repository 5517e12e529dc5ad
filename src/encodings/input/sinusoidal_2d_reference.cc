#include <bearing/reference/sinusoidal.hpp>
#include <bearing/reference/sinusoidal_2d.hpp>

namespace bearing::reference {

double sinusoidal_2d(const Sinusoidal2d& spec, Index d, double y, double x) {
  const Index half = spec.dim / 2;
  const Sinusoidal one{.dim = half, .base = spec.base, .layout = spec.layout};
  const bool in_y = (d < half) == (spec.first == FirstHalf::y);
  return sinusoidal(one, d % half, in_y ? y : x);
}

}  // namespace bearing::reference
