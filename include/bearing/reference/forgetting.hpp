#pragma once

#include <bearing/encodings/forgetting.hpp>

namespace bearing::reference {

/// What forgetting adds to the score of tokens i (query) and j (key), from one head's ln f [time]: Σ_{j < t ≤ i} ln
/// f_t.
BEARING_EXPORT double forgetting(View<const double, 1> log_forget, Index i, Index j);

}  // namespace bearing::reference
