#include <bearing/reference/dense_bias.hpp>

namespace bearing::reference {

double dense_bias(View<const double, 4> bias, Index b, Index h, Index i, Index j) {
  const auto at = [&](std::size_t axis, Index index) { return bias.shape[axis] == 1 ? Index{0} : index; };
  return bias(at(0, b), at(1, h), at(2, i), at(3, j));
}

}  // namespace bearing::reference
