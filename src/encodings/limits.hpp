#pragma once

#include <bearing/view.hpp>

namespace bearing {

/// The largest dimension of a head or of the model that encodings serve. Models have up to some 20,000; what is worked
/// out for each column beforehand takes no noticeable time or memory here.
inline constexpr Index largest_dim = 65'536;

/// The largest number that a position is multiplied with. Positions go to 2^31, and the angle is a sum over four axes:
/// it stays below 10^300.
inline constexpr double largest_rate = 1e290;

/// Windows of tokens, a side: an image of 16,384 pixels in patches of 16. A table has a row for each displacement, four
/// million of them.
inline constexpr Index largest_window = 1024;

}  // namespace bearing
