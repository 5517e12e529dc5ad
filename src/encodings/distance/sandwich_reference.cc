#include <bearing/reference/sandwich.hpp>
#include <cmath>

namespace bearing::reference {

double sandwich(const Sandwich& sandwich, Index h, double m, double n) {
  double sum = 0;
  for (Index i = 0; i < sandwich.dim / 2; ++i) {
    sum += std::cos((n - m) * std::pow(sandwich.base, -2 * static_cast<double>(i) / static_cast<double>(sandwich.dim)));
  }
  return sum * static_cast<double>(sandwich.heads) / (8 * static_cast<double>(h + 1));
}

}  // namespace bearing::reference
