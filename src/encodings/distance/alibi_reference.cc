#include <algorithm>
#include <bearing/reference/alibi.hpp>
#include <cmath>

namespace bearing::reference {

double alibi(const Alibi& alibi, Index h, double m, double n) {
  const double slope = alibi.slopes[static_cast<std::size_t>(h)];
  return alibi.form == AlibiForm::causal ? slope * std::min(n - m, 0.0) : -slope * std::abs(n - m);
}

double alibi_shifted(const Alibi& alibi, Index h, double n) { return alibi.slopes[static_cast<std::size_t>(h)] * n; }

}  // namespace bearing::reference
