#include <bearing/reference/relative_logits.hpp>
#include <cmath>

namespace bearing::reference {

double relative_logits(const RelativeLogits& spec, View<const double, 3> table, View<const double, 4> r, Index b,
                       Index h, Index i, double m, double n) {
  if (m - n < 0 || m - n >= static_cast<double>(spec.extent)) return 0;
  const auto at = [&](Index u) { return r(r.shape[0] == 1 ? 0 : b, h, i, u); };
  double product = 0, squares = 0;
  for (Index u = 0; u < r.shape[3]; ++u) {
    product += at(u) * table(table.shape[0] == 1 ? 0 : h, static_cast<Index>(m - n), u);
    squares += at(u) * at(u);
  }
  if (spec.clip) product *= std::fmin(1, *spec.clip / (std::sqrt(squares) + 1e-6));
  return spec.temperature ? product * spec.temperature->factor(m) : product;
}

}  // namespace bearing::reference
