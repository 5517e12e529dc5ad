#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/xpos.hpp>
#include <complex>

// Every operation again, in double, scalar and as obvious as can be: what kernels are compared with, and the place to
// read what an encoding does.

namespace bearing::reference {

/// cos and sin of p·θ_i, for θ as the sum of two doubles: the product is split exactly, libm takes the large part, and
/// the small rest ε turns it on: cos(φ + ε) = cos φ − ε sin φ.
struct CosSin {
  double cos, sin;
};
CosSin cos_sin(const RopeFrequencies& frequencies, Index pair, double position);

/// a·R(pθ)x for one head x [head_dim], p [axes]; written three ways, as the founding texts derive them, and shown to be
/// equal in the tests.
void rotate_elementwise(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                        View<double, 1> y);  ///< x ⊗ cos + partner(x) ⊗ sin
void rotate_complex(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                    View<double, 1> y);  ///< (u + iv)·e^{iφ}
void rotate_matrix(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                   View<double, 1> y);  ///< y = R x with the block-diagonal matrix below

/// a·R(pθ), [head_dim, head_dim], in the layout of the pairing; 1 on the diagonal of what does not turn.
std::vector<double> rotation_matrix(const RopeFrequencies& frequencies, View<const double, 1> p);

/// rotate() and its transpose for whole tensors, in double: the elementwise form in a loop.
void rotate(const RopeFrequencies& frequencies, View<const double, 4> x, const Positions& at, View<double, 4> y);
void rotate_backward(const RopeFrequencies& frequencies, View<const double, 4> d_y, const Positions& at,
                     View<double, 4> d_x);

/// xPos on one head; `exponent` is +1 for queries and −1 for keys.
void rotate_xpos(const Xpos& xpos, int exponent, View<const double, 1> p, View<const double, 1> x, View<double, 1> y);

}  // namespace bearing::reference
