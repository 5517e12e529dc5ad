#pragma once

#include <bearing/encodings/gated_t5.hpp>

namespace bearing::reference {

/// What GatedT5 adds to head h's score of query i at m and a key at n, in sequence b.
BEARING_EXPORT double gated_t5(const GatedT5& spec, View<const double, 2> table, View<const double, 3> gate, Index b,
                               Index h, Index i, double m, double n);

/// WavLM's gate of one token and head h, whose features are x [head_dim].
BEARING_EXPORT double wavlm_gate(View<const double, 2> weight, View<const double, 1> bias,
                                 View<const double, 1> constant, Index h, View<const double, 1> x);

}  // namespace bearing::reference
