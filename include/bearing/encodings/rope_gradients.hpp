#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>

namespace bearing {

/// Where the gradients of a rotation's parameters are added (+=); what is left null is not computed.
struct RopeGradients {
  View<double, 1> inv_freq = {};   ///< [pairs] d loss / dθ_i: Σ p·dφ over all rotated pairs i
  View<double, 3> positions = {};  ///< [axes, batch, time] d loss / dp: Σ_i θ_i dφ_i; axes of the call's positions
  double* attention_factor = nullptr;  ///< d loss / da: Σ g·y / a
  View<double, 1> log_factors = {};    ///< [pairs] d loss / dα_i of Rope::log_factors: θ_i · d loss / dθ_i
};

/// Adds the gradients of frequencies, positions, attention factor and learned factors.
///
/// y [batch, heads, time, head_dim] is what rotate() returned, d_y its gradient, `positions` those it was given. With
/// (y0, y1) a rotated pair and (g0, g1) its gradient, the angle's is dφ = g1·y0 − g0·y1. Summed in double in a fixed
/// order: the same bits for any executor. Throws ShapeError on mismatched shapes; nothing is added then.
template <class T>
BEARING_EXPORT void rotate_parameter_gradients(const RopeFrequencies& frequencies, View<const T, 4> y,
                                               View<const T, 4> d_y, const Positions& positions,
                                               const RopeGradients& gradients, const Executor& on = {});

/// d loss / d base, from d loss / dθ: Σ_i dθ_i · ∂θ_i/∂base, through the scaling and its dependence on the base.
/// Zero for explicit frequencies and for axes with bases of their own. Errors as resolve().
BEARING_EXPORT double base_gradient(const Rope& rope, View<const double, 1> d_inv_freq, Index seq_len = 0);

}  // namespace bearing
