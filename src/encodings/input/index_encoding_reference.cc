#include <bearing/reference/index_encoding.hpp>
#include <cmath>

namespace bearing::reference {

double index_encoding(const IndexEncoding& spec, Index d, double p) {
  if (spec.form == IndexForm::index) return p;
  if (spec.form == IndexForm::normalised) return p / static_cast<double>(spec.length - 1);
  return std::fmod(std::floor(std::ldexp(p, -static_cast<int>(d))), 2);
}

}  // namespace bearing::reference
