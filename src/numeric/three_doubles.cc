#include "numeric/wide.hpp"

namespace bearing::detail {

ThreeDoubles three_doubles(const Wide& w) {
  ThreeDoubles sum;
  sum.hi = w.to_double();
  const Wide after_hi = w - sum.hi;
  sum.mid = after_hi.to_double();
  sum.lo = (after_hi - sum.mid).to_double();
  return sum;
}

}  // namespace bearing::detail
