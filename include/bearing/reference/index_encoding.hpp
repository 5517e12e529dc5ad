#pragma once

#include <bearing/encodings/index_encoding.hpp>

namespace bearing::reference {

/// Column d of the row at p.
BEARING_EXPORT double index_encoding(const IndexEncoding& spec, Index d, double p);

}  // namespace bearing::reference
