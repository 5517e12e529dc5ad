#pragma once

#include <bearing/view.hpp>

namespace bearing {

/// The largest dimension of a head or of the model that encodings serve. Models have up to some 20,000; what is worked
/// out for each column beforehand takes no noticeable time or memory here.
inline constexpr Index largest_dim = 65'536;

/// Windows of tokens, a side: an image of 16,384 pixels in patches of 16. A table has a row for each displacement, four
/// million of them.
inline constexpr Index largest_window = 1024;

}  // namespace bearing
