#include <bearing/reference/t5.hpp>
#include <bearing/reference/t5_axis.hpp>

namespace bearing::reference {

double t5_axis(const T5Axis& spec, View<const double, 2> table, Index h, double m, double n) {
  return spec.scale * table(reference::t5_bucket(spec.t5(), static_cast<Index>(spec.multiplier * (n - m))), h);
}

}  // namespace bearing::reference
