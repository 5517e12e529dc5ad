#include <bearing/reference/sam.hpp>

namespace bearing::reference {

double sam(const Sam& spec, View<const double, 2> height_table, View<const double, 2> width_table,
           View<const double, 1> q, const double* q_positions, const double* k_positions) {
  const auto dy = static_cast<Index>(q_positions[0] - k_positions[0]),
             dx = static_cast<Index>(q_positions[1] - k_positions[1]);
  double sum = 0;
  for (Index d = 0; d < q.shape[0]; ++d) {
    sum += q(d) * (height_table(dy + spec.height - 1, d) + width_table(dx + spec.width - 1, d));
  }
  return sum;
}

}  // namespace bearing::reference
