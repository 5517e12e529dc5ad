#include <algorithm>
#include <bearing/reference/swin.hpp>
#include <cmath>

namespace bearing::reference {

double swin(const Swin& spec, View<const double, 2> table, Index h, const double* q_positions,
            const double* k_positions) {
  const Index displacements = (2 * spec.height - 1) * (2 * spec.width - 1);
  const bool from_class = q_positions[0] < 0, to_class = k_positions[0] < 0;
  if (from_class && to_class) return table(displacements + 2, h);
  if (to_class) return table(displacements + 1, h);
  if (from_class) return table(displacements, h);
  const auto dy = static_cast<Index>(q_positions[0] - k_positions[0]),
             dx = static_cast<Index>(q_positions[1] - k_positions[1]);
  return table((dy + spec.height - 1) * (2 * spec.width - 1) + (dx + spec.width - 1), h);
}

double swin_v2(const SwinV2& spec, View<const double, 2> w1, View<const double, 1> b1, View<const double, 2> w2,
               Index h, Index dy, Index dx) {
  const auto scale = [](Index delta, Index trained, Index window) {
    const double c = 8 * static_cast<double>(delta) / static_cast<double>((trained > 0 ? trained : window) - 1);
    return (c < 0 ? -1 : 1) * std::log2(1 + std::abs(c)) / std::log2(8);
  };
  const double y = scale(dy, spec.trained_height, spec.window.height);
  const double x = scale(dx, spec.trained_width, spec.window.width);
  double z = 0;
  for (Index u = 0; u < b1.shape[0]; ++u) {
    z += w2(h, u) * std::max(w1(u, Index{0}) * y + w1(u, Index{1}) * x + b1(u), 0.0);
  }
  return 16 / (1 + std::exp(-z));
}

}  // namespace bearing::reference
