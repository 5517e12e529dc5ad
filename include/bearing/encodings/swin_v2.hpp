#pragma once

#include <bearing/encodings/swin.hpp>
#include <bearing/export.hpp>
#include <vector>

// Swin V2's continuous position bias (Liu et al. 2022, arXiv 2111.09883, §3.3): a small network computes the table of
// SwinBias from displacements on a logarithmic scale, so that there is a table for any window:
//
//     c(Δ) = sign(Δ) · log2(1 + 8·|Δ|/(W − 1)) / log2 8          per axis; W: the window that it was trained with
//     B[Δy, Δx] = 16 · σ( w2 · relu(w1 · (c(Δy), c(Δx)) + b1) )
//
// Make the table once per step and layer, pass it to SwinBias with a gradient, then pass that gradient to
// swin_v2_table_backward(). The paper has no 16·σ; the authors' code has it, and models are trained with it. Swin V2's
// cosine attention and its learned logit scale are not part of the encoding.

namespace bearing {

struct SwinV2 {
  Swin window;
  Index trained_height = 0, trained_width = 0;  ///< the window of pretraining, which sets the scale; 0: this one
  bool operator==(const SwinV2&) const = default;
};

/// The network: w1 [hidden, 2] of (y, x), b1 [hidden], w2 [heads, hidden]; 512 hidden units in the published models.
template <class A>
struct SwinV2Network {
  Param<A, 2> w1;
  Param<A, 1> b1;
  Param<A, 2> w2;
};

/// What the network sees: (c(Δy), c(Δx)) of every displacement, query minus key, [window.rows(), 2], in the table's
/// order. Errors as swin_v2_table().
BEARING_EXPORT std::vector<double> swin_v2_coordinates(const SwinV2& spec);

/// Writes the table [window.rows(), heads]. Throws ShapeError if shapes do not fit, if the window has rows for a class
/// token, or if it is one token high or wide and no larger trained window gives the scale; nothing is written then.
template <class A>
BEARING_EXPORT void swin_v2_table(const SwinV2& spec, const SwinV2Network<A>& network,
                                  std::type_identity_t<View<A, 2>> table);

/// Adds to the network's gradients, from d_table [window.rows(), heads], the table's gradient. Errors as
/// swin_v2_table().
template <class A>
BEARING_EXPORT void swin_v2_table_backward(const SwinV2& spec, const SwinV2Network<A>& network,
                                           std::type_identity_t<View<const A, 2>> d_table);

}  // namespace bearing
