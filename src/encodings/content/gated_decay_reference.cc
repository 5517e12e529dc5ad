#include <bearing/reference/gated_decay.hpp>
#include <cmath>

namespace bearing::reference {

double gated_decay(View<const double, 2> log_decay, View<const double, 1> q, View<const double, 1> k, double scale,
                   Index i, Index j) {
  double score = 0;
  for (Index c = 0; c < log_decay.shape[1]; ++c) {
    double sum = 0;
    for (Index t = j + 1; t <= i; ++t) sum += log_decay(t, c);
    score += scale * q(c) * k(c) * std::expm1(sum);
  }
  return score;
}

}  // namespace bearing::reference
