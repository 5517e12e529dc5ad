#pragma once

#include <bearing/encodings/alibi.hpp>

namespace bearing::reference {

/// What ALiBi adds to head h's score of a query at m and a key at n: −slope·|n − m|, or slope·min(n − m, 0).
BEARING_EXPORT double alibi(const Alibi& alibi, Index h, double m, double n);

/// The row-shifted form: slope·n.
BEARING_EXPORT double alibi_shifted(const Alibi& alibi, Index h, double n);

}  // namespace bearing::reference
