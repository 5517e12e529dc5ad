#pragma once

#include <bearing/encodings/dense_bias.hpp>

namespace bearing::reference {

/// bias[b, h, i, j], where an extent of 1 serves every index.
BEARING_EXPORT double dense_bias(View<const double, 4> bias, Index b, Index h, Index i, Index j);

}  // namespace bearing::reference
