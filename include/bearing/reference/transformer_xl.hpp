#pragma once

#include <bearing/encodings/transformer_xl.hpp>

namespace bearing::reference {

/// What Transformer-XL adds to scale · q·k: scale · [ u_h·k + (q + v_h)·r_{m−n} ], 0 for keys after the query if
/// causal.
BEARING_EXPORT double transformer_xl(const TransformerXL& xl, View<const double, 3> r, View<const double, 2> u,
                                     View<const double, 2> v, Index h, double m, double n, View<const double, 1> q,
                                     View<const double, 1> k, double scale);

/// Feature d of head h's vector for row o: Σ_x w_r[h·dim + d][x] · [sin | cos](offset), offset = first_offset + o.
BEARING_EXPORT double transformer_xl_relative(const TransformerXL& xl, View<const double, 2> w_r, Index dim, Index h,
                                              Index o, Index d, double base = 10'000);

}  // namespace bearing::reference
