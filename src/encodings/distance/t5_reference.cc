#include <algorithm>
#include <bearing/reference/t5.hpp>
#include <cmath>
#include <limits>

namespace bearing::reference {

Index t5_bucket(const T5& t5, Index distance) {
  constexpr Index far = std::numeric_limits<Index>::max();
  Index buckets = t5.buckets, first = 0, x = distance < 0 ? -std::max(distance, -far) : 0;
  if (t5.direction == T5Direction::bidirectional) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    x = std::max(x, distance);
  }
  const Index exact = buckets / 2;
  if (x < exact) return first + x;
  const auto e = static_cast<double>(exact);
  const double part = std::log(static_cast<double>(x) / e) / std::log(static_cast<double>(t5.max_distance) / e);
  const Index past = static_cast<Index>(part * static_cast<double>(buckets - exact));
  return first + std::min(buckets - 1, exact + past);
}

double t5(const T5& t5, View<const double, 2> table, Index h, double m, double n) {
  return table(reference::t5_bucket(t5, static_cast<Index>(n - m)), h);
}

}  // namespace bearing::reference
