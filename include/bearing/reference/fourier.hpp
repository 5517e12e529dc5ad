#pragma once

#include <bearing/encodings/fourier.hpp>

namespace bearing::reference {

/// Column d of what Fourier adds to a token at p [axes].
BEARING_EXPORT double fourier(const Fourier& spec, View<const double, 2> frequencies, Index d, const double* p);

}  // namespace bearing::reference
