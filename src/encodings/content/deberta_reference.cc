#include <algorithm>
#include <bearing/reference/deberta.hpp>
#include <cmath>

namespace bearing::reference {

namespace {

double bucket(const Deberta& deberta, double x) {
  const Index last_exact = deberta.position_buckets / 2;
  const auto mid = static_cast<double>(last_exact);
  const double size = std::abs(x);
  if (deberta.position_buckets == 0 || size <= mid) return x;
  const double reach = static_cast<double>(deberta.max_relative_positions - 1) / mid;
  return std::copysign(mid + std::ceil(std::log(size / mid) / std::log(reach) * (mid - 1)), x);
}

Index row(const Deberta& deberta, double x) {
  const auto span = static_cast<double>(deberta.span());
  return static_cast<Index>(std::clamp(bucket(deberta, x) + span, 0.0, 2 * span - 1));
}

}  // namespace

double deberta(const Deberta& deberta, View<const double, 3> key, View<const double, 3> query, Index h,
               View<const double, 1> q, View<const double, 1> k, double m, double n, double scale) {
  double sum = 0;
  for (Index d = 0; d < q.shape[0]; ++d) {
    if (deberta.c2p()) sum += q(d) * key(h, row(deberta, m - n), d);
    if (deberta.p2c()) sum += k(d) * query(h, row(deberta, deberta.index == DebertaIndex::code ? m - n : n - m), d);
  }
  return scale * sum;
}

}  // namespace bearing::reference
