#include <bearing/reference/forgetting.hpp>

namespace bearing::reference {

double forgetting(View<const double, 1> log_forget, Index i, Index j) {
  double sum = 0;
  for (Index t = j + 1; t <= i; ++t) sum += log_forget(t);
  return sum;
}

}  // namespace bearing::reference
