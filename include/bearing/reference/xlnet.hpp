#pragma once

#include <bearing/encodings/xlnet.hpp>

namespace bearing::reference {

/// What XLNet's segments add to head h's score: scale · (q + r_s)·seg_embed[σ], σ = 0 for tokens of one segment, 1 of
/// two. The rest of XLNet's score is transformer_xl().
BEARING_EXPORT double xlnet_segment(View<const double, 3> seg_embed, View<const double, 2> r_s, Index h, Index sigma,
                                    View<const double, 1> q, double scale);

}  // namespace bearing::reference
