#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/export.hpp>
#include <vector>

// The rotation, in double, scalar and as obvious as can be.

namespace bearing::reference {

/// cos and sin of p·θ_i, times the attention factor, with θ_i as the sum of two doubles. The product is split exactly
/// into a large part φ and the small rest ε that rounding left over; libm takes each, the addition theorem joins them:
/// cos(φ + ε) = cos φ cos ε − sin φ sin ε. Good to about 2^-52 of the attention factor, absolute, for |p| ≤ 2^31.
///
/// Of frequencies with Angles::as_float32, what Hugging Face's code computes: float(p)·float(θ) as a float, its cos as
/// a float, times float(attention factor) as a float.
struct CosSin {
  double cos, sin;
};
BEARING_EXPORT CosSin cos_sin(const RopeFrequencies& frequencies, Index pair, double position);

/// a·R(pθ)x for one head x [head_dim], p [axes]; written three ways, as the founding texts derive them, and shown to be
/// equal in the tests. All throw ShapeError if an extent is not the frequencies'; y may be x.
BEARING_EXPORT void rotate_elementwise(const RopeFrequencies& frequencies, View<const double, 1> p,
                                       View<const double, 1> x, View<double, 1> y);  ///< x ⊗ cos + partner(x) ⊗ sin
BEARING_EXPORT void rotate_complex(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                                   View<double, 1> y);  ///< (u + iv)·e^{iφ}
BEARING_EXPORT void rotate_matrix(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                                  View<double, 1> y);  ///< y = R x with the block-diagonal matrix below

/// a·R(pθ), [head_dim, head_dim] row by row, in the layout of the pairing; 1 on the diagonal of what does not turn.
BEARING_EXPORT std::vector<double> rotation_matrix(const RopeFrequencies& frequencies, View<const double, 1> p);

/// rotate() and its transpose for whole tensors [batch, heads, time, head_dim], in double: the elementwise form in a
/// loop. Errors as bearing::rotate(); the output may be the input.
BEARING_EXPORT void rotate(const RopeFrequencies& frequencies, View<const double, 4> x, const Positions& positions,
                           View<double, 4> y);
BEARING_EXPORT void rotate_backward(const RopeFrequencies& frequencies, View<const double, 4> d_y,
                                    const Positions& positions, View<double, 4> d_x);

/// xPos on one head; `exponent` is +1 for queries and −1 for keys.
BEARING_EXPORT void rotate_xpos(const Xpos& xpos, int exponent, View<const double, 1> p, View<const double, 1> x,
                                View<double, 1> y);

}  // namespace bearing::reference
