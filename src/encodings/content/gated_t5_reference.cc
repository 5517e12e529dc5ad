#include <bearing/reference/gated_t5.hpp>
#include <bearing/reference/t5.hpp>
#include <cmath>

namespace bearing::reference {

double gated_t5(const GatedT5& spec, View<const double, 2> table, View<const double, 3> gate, Index b, Index h, Index i,
                double m, double n) {
  return gate(gate.shape[0] == 1 ? 0 : b, h, i) * reference::t5(spec.t5(), table, h, m, n);
}

double wavlm_gate(View<const double, 2> weight, View<const double, 1> bias, View<const double, 1> constant, Index h,
                  View<const double, 1> x) {
  double sums[2] = {0, 0};
  for (Index u = 0; u < 8; ++u) {
    sums[u / 4] += bias(u);
    for (Index d = 0; d < x.shape[0]; ++d) sums[u / 4] += weight(u, d) * x(d);
  }
  const double r = 1 / (1 + std::exp(-sums[0])), s = 1 / (1 + std::exp(-sums[1]));
  return r * (s * constant(h) - 1) + 2;
}

}  // namespace bearing::reference
