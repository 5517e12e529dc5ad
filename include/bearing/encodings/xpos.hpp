#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>

namespace bearing {

/// xPos (Sun et al. 2022, arXiv 2212.10554): RoPE whose pair i also shrinks with distance, by ζ_i^((m−n)/scale_base):
///
///     q at m: ζ_i^(+(m − centre)/scale_base) · R(mθ_i) q        ζ_i = (2i/r + gamma) / (1 + gamma)
///     k at n: ζ_i^(−(n − centre)/scale_base) · R(nθ_i) k
///
/// It is meant for causal attention: with n > m the score would grow. The centre cancels in every score as long as
/// queries and keys share it, cached ones included; it only keeps the two factors within range. Choose one and keep it.
/// Where implementations disagree: torchscale, flash-attention and lucidrains each take the centre from the length of
/// the current call, so that keys cached by an earlier call no longer fit.
struct Xpos {
  Rope rope;
  double scale_base = 512;
  double gamma = 0.4;
  double centre = 0;  ///< tokens
  bool operator==(const Xpos&) const = default;
};

/// cos and sin with the decay multiplied in, one table for queries and one for keys. Use them with rotate() and
/// rotate_backward() as any RopeTable: rotate(xpos.q, q, at); rotate(xpos.k, k, at).
///
/// In float the factors must stay finite: RangeError if ζ_0^(±(p − centre)/scale_base) leaves [2^-100, 2^100] for a
/// position of the table, or for one that is passed to a rotation. Where the frequencies depend on the length,
/// options.seq_len says which they serve, as for a RopeTable.
/// In double a number's relative error is about |p − centre|/scale_base · 2^-52, that of the exponent of ζ.
template <class T>
struct BEARING_EXPORT XposTable {
  XposTable(const Xpos& xpos, Index length, const TableOptions& options = {}, const Executor& on = {});

  RopeTable<T> q, k;
};

/// ζ, one per pair.
BEARING_EXPORT std::vector<double> xpos_decay(const Xpos& xpos);

/// Moves cached xPos keys from `old_positions` to `new_positions`, in place: ζ^(−(p'−p)/scale_base) · R((p'−p)θ). See
/// rebase().
///
/// The keys' table must have been made of the same spec, with Angles::exact: float32 angles are rounded at each
/// position, which the difference of two does not tell. RangeError for a scaling that depends on the length, as the
/// spec does not say which length the table serves: give table.k.frequencies().inv_freq as ExplicitFrequencies.
/// RangeError for moves so far that a factor leaves [2^-100, 2^100]; else throws as rebase().
template <class T>
BEARING_EXPORT void rebase(const Xpos& xpos, const Positions& old_positions, const Positions& new_positions,
                           View<T, 4> k, const Executor& on = {});

}  // namespace bearing
