#pragma once

#include <bearing/load.hpp>

// Parameters that are computed from what the weights hold: Swin V2's table, and the rows of Transformer-XL.

namespace bearing::load {

/// Puts the parameter that is computed in the place of those that it is computed from. `heads` and `dim` as far as the
/// config states them; `distances` are those that an encoding by distance must serve.
void compute_parameter(LoadedEncoding& to, const ComputedInfo& computed, const Sizes& sizes,
                       const DistanceRange& distances);

}  // namespace bearing::load
