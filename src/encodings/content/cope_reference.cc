#include <algorithm>
#include <bearing/reference/cope.hpp>
#include <cmath>

namespace bearing::reference {

double cope_position(const Cope& cope, View<const double, 1> q, View<const double, 2> keys, double m,
                     View<const double, 1> k_positions, Index j, double scale) {
  const double gate_scale = cope.gate_scale == CopeScale::softmax ? scale : 1;
  double position = 0;
  for (Index t = j; t < k_positions.shape[0]; ++t) {
    if (k_positions(t) > m) continue;
    double product = 0;
    for (Index d = 0; d < q.shape[0]; ++d) product += q(d) * keys(t, d);
    position += 1 / (1 + std::exp(-gate_scale * product));
  }
  return position;
}

double cope(const Cope& cope, View<const double, 3> embeddings, Index h, View<const double, 1> q,
            View<const double, 2> keys, double m, View<const double, 1> k_positions, Index j, double scale) {
  if (k_positions(j) > m) return 0;
  const Index last = cope.max_pos - 1, table = embeddings.shape[0] == 1 ? 0 : h;
  const double p = std::min(cope_position(cope, q, keys, m, k_positions, j, scale), static_cast<double>(last));
  const auto below = static_cast<Index>(std::floor(p)), above = std::min(below + 1, last);
  double at_below = 0, at_above = 0;
  for (Index d = 0; d < q.shape[0]; ++d) {
    at_below += q(d) * embeddings(table, below, d);
    at_above += q(d) * embeddings(table, above, d);
  }
  const double w = p - static_cast<double>(below);
  return (cope.score_scale == CopeScale::softmax ? scale : 1) * ((1 - w) * at_below + w * at_above);
}

}  // namespace bearing::reference
