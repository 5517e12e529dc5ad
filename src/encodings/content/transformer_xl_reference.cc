#include <algorithm>
#include <bearing/reference/transformer_xl.hpp>
#include <cmath>

namespace bearing::reference {

double transformer_xl(const TransformerXL& xl, View<const double, 3> r, View<const double, 2> u,
                      View<const double, 2> v, Index h, double m, double n, View<const double, 1> q,
                      View<const double, 1> k, double scale) {
  if (xl.direction == TransformerXLDirection::causal && n > m) return 0;
  auto offset = static_cast<Index>(m - n);
  if (xl.clamp_len > 0) offset = std::clamp(offset, -xl.clamp_len, xl.clamp_len);
  double sum = 0;
  for (Index d = 0; d < q.shape[0]; ++d) {
    sum += u(h, d) * k(d) + (q(d) + v(h, d)) * r(h, offset - xl.first_offset, d);
  }
  return scale * sum;
}

double transformer_xl_relative(const TransformerXL& xl, View<const double, 2> w_r, Index dim, Index h, Index o, Index d,
                               double base) {
  Index offset = xl.first_offset + o;
  if (xl.clamp_len > 0) offset = std::clamp(offset, -xl.clamp_len, xl.clamp_len);
  const Index half = w_r.shape[1] / 2;
  double sum = 0;
  for (Index i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(offset) * std::pow(base, -static_cast<double>(2 * i) / static_cast<double>(w_r.shape[1]));
    sum += w_r(h * dim + d, i) * std::sin(angle) + w_r(h * dim + d, half + i) * std::cos(angle);
  }
  return sum;
}

}  // namespace bearing::reference
