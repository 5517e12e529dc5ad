#include <algorithm>
#include <bearing/reference/fire.hpp>
#include <cmath>

namespace bearing::reference {

double fire(const Fire& fire, const FireParams<double>& params, Index h, double m, double n) {
  const auto psi = [c = params.c.value(0)](double d) { return std::log(std::abs(c * d) + 1); };
  const double least = std::abs(params.multiplier.value(0) * fire.threshold);
  const double x = psi(std::abs(m - n)) / (psi(std::max(m, least)) + fire.eps);
  double f = params.out_bias.value(h);
  for (Index u = 0; u < fire.mlp_width; ++u) {
    f += params.out_weight.value(h, u) * std::max(params.hidden_weight.value(u) * x + params.hidden_bias.value(u), 0.0);
  }
  return f;
}

}  // namespace bearing::reference
