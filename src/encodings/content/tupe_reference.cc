#include <algorithm>
#include <bearing/reference/tupe.hpp>
#include <cmath>

namespace bearing::reference {

namespace {

/// T5's bucket of n − m in both directions.
Index bucket(const Tupe& tupe, double distance) {
  const Index half = tupe.rel_pos_bins / 2, exact = half / 2, after = distance > 0 ? half : 0;
  const double x = std::abs(distance);
  if (x < static_cast<double>(exact)) return after + static_cast<Index>(x);
  const double from = static_cast<double>(exact);
  const double part = std::log(x / from) / std::log(static_cast<double>(tupe.max_rel_pos) / from);
  return after + std::min(half - 1, exact + static_cast<Index>(part * static_cast<double>(half - exact)));
}

}  // namespace

double tupe(const Tupe& tupe, View<const double, 3> query, View<const double, 3> key, View<const double, 2> bias,
            Index h, double m, double n) {
  auto row = static_cast<Index>(m), col = static_cast<Index>(n);
  Index bin = tupe.rel_pos_bins > 0 ? bucket(tupe, n - m) : 0;
  if (tupe.cls == TupeCls::untied) {
    row = m == 0 ? 0 : n == 0 ? 1 : row + 1;
    col = m == 0 ? 0 : n == 0 ? 1 : col + 1;
    if (n == 0) bin = tupe.rel_pos_bins;
    if (m == 0) bin = tupe.rel_pos_bins / 2;
  }
  double product = 0;
  for (Index d = 0; d < query.shape[2]; ++d) product += query(h, row, d) * key(h, col, d);
  const double b = tupe.rel_pos_bins > 0 ? bias(bin, h) : 0;
  return product / std::sqrt(2 * static_cast<double>(query.shape[2])) + b;
}

}  // namespace bearing::reference
