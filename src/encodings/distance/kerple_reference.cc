#include <bearing/reference/kerple.hpp>
#include <cmath>

namespace bearing::reference {

double kerple(const Kerple& kerple, double r1, double r2, double m, double n) {
  const double x = std::abs(n - m);
  if (kerple.form == KerpleForm::logarithmic) return -r1 * std::log(1 + r2 * x);
  return -r1 * std::pow(x, r2);
}

}  // namespace bearing::reference
