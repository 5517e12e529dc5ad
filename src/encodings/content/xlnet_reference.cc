#include <bearing/reference/xlnet.hpp>

namespace bearing::reference {

double xlnet_segment(View<const double, 3> seg_embed, View<const double, 2> r_s, Index h, Index sigma,
                     View<const double, 1> q, double scale) {
  double product = 0;
  for (Index d = 0; d < q.shape[0]; ++d) product += (q(d) + r_s(h, d)) * seg_embed(sigma, h, d);
  return scale * product;
}

}  // namespace bearing::reference
