#include <bearing/reference/retention.hpp>
#include <cmath>

namespace bearing::reference {

double retention(const Retention& retention, Index h, double m, double n) {
  return n < m ? std::exp(-retention.rates[static_cast<std::size_t>(h)] * (m - n)) : 1;
}

}  // namespace bearing::reference
