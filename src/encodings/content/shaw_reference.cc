#include <algorithm>
#include <bearing/reference/shaw.hpp>
#include <cstdlib>

namespace bearing::reference {

double shaw_value(const Shaw& shaw, View<const double, 3> value, Index h, double m, double n, Index d) {
  const auto distance = static_cast<Index>(n - m);
  if (shaw.outside == ShawOutside::zero && std::abs(distance) > shaw.clip) return 0;
  const Index row = std::clamp(distance, -shaw.clip, shaw.clip) + shaw.clip;
  return value(value.shape[0] == 1 ? 0 : h, row, d);
}

double shaw_score(const Shaw& shaw, View<const double, 3> key, Index h, double m, double n, View<const double, 1> q,
                  double scale) {
  double product = 0;
  for (Index d = 0; d < q.shape[0]; ++d) product += q(d) * shaw_value(shaw, key, h, m, n, d);
  return scale * product;
}

}  // namespace bearing::reference
