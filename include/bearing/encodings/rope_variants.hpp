#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>

// Encodings that are RoPE with other frequencies. These are computed once; rotations cost the same as RoPE's and have
// the same accuracy.
//
//     RopeTable<float> table(high_frequency(resolve(rope), 4'096), 131'072);

namespace bearing {

/// High-frequency RoPE (Chen et al. 2024, arXiv 2410.21216, one of three papers that call themselves HoPE): pairs that
/// complete no turn within the trained length (θ < 2π/trained_length) do not turn at all, and so match content alone.
/// Throws RangeError for a trained length below 1.
BEARING_EXPORT RopeFrequencies high_frequency(RopeFrequencies frequencies, Index trained_length);

/// RoPE that turns the other way, by −pθ: (u, v) ← a·(u cos pθ + v sin pθ, v cos pθ − u sin pθ). NanoChat's models
/// do, and weights that were trained with one sign give other scores with the other: the score of a key at distance k
/// is that of RoPE at distance −k. Cached keys differ too.
BEARING_EXPORT RopeFrequencies negative_angle(RopeFrequencies frequencies);

}  // namespace bearing
