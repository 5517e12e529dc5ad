#pragma once

#include <bearing/encodings/sinusoidal.hpp>

// CAPE, continuous augmented positional embeddings (Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021,
// arXiv 2106.03143): sinusoids of positions that are moved at random in training, so that the model learns to look at
// differences.
//
//     p ← position_scale·p − mean          always, the mean over the sequence's tokens or 0
//     p ← (p + Δ + ε_t)·λ                  in training: first shift, then scale
//
//     Δ uniform in ±max_global_shift             one per sequence (2-D: and axis)
//     ε uniform in ±max_local_shift·spacing      one per token (2-D: and axis)
//     ln λ uniform in ±ln max_global_scale       one per sequence
//
// Evaluation moves nothing. The published code draws ε within ±half of its max_local_shift; the paper's bound is meant
// here. Positions are real: tokens, or seconds of a recording.

namespace bearing {

/// How far training moves positions.
struct CapeAugmentation {
  double max_global_shift = 0;
  double max_local_shift = 0;   ///< in units of the distance between neighbours, 1 before scaling; ½ keeps order
  double max_global_scale = 1;  ///< at least 1
  bool operator==(const CapeAugmentation&) const = default;
};

/// Whether positions are counted from their mean, over the tokens of a sequence.
enum class CapeCentre { none, mean };

/// 1-D: positions, then Sinusoidal in the paper's layout.
struct Cape {
  Index dim = 0;
  CapeAugmentation augmentation = {};
  CapeCentre centre = CapeCentre::mean;
  double position_scale = 1;   ///< multiplies positions first
  double frequency_scale = 1;  ///< above 1 where positions are seconds rather than tokens
  double base = 10'000;
  bool operator==(const Cape&) const = default;

  Sinusoidal sinusoidal() const {
    return {.dim = dim, .base = base, .layout = SinusoidalLayout::interleaved, .frequency_scale = frequency_scale};
  }
};

/// The draws of one training step. The same seed gives the same draws on every machine: draw n of sequence b is
///
///     low + (high − low)·(mix(key_b + (n + 1)·γ) >> 11)·2^−53      key_b = mix(mix(seed + γ) + (b + 1)·γ)
///
/// with SplitMix64's mix and γ = 0x9E3779B97F4A7C15 (Steele, Lea, Flood 2014); n = 0 is ln λ, then come the shifts of
/// each axis, then ε, token by token, axis by axis. Any draw can be had without those before it.
struct CapeSeed {
  std::uint64_t value = 0;
};

/// Writes positions for a Cape encoding to `to` [batch, time]: scaled and centred, and moved as well if a seed is
/// given. Throws ShapeError for shapes that do not fit, RangeError for positions out of range or a spec out of range;
/// nothing is written then.
BEARING_EXPORT void cape_positions(const Cape& cape, const Positions& positions, View<double, 2> to,
                                   std::optional<CapeSeed> training = {});

/// 2-D, for the patches of an image at (y, x) in [−1, 1]²: cosines, then sines, of waves in C = dim/2 directions,
///
///     cos π(u_j·x + v_j·y), sin …       u_j = ρ_j cos j,  v_j = ρ_j sin j,  ρ_j = 10^(j/(C−1)),  j in radians
///
/// One published implementation has ρ_j = 10^((j+1)/C) instead.
struct Cape2d {
  Index dim = 0;  ///< even, at least 4
  CapeAugmentation augmentation = {};
  bool operator==(const Cape2d&) const = default;
};

/// Writes the positions of a height × width grid's patches, row by row, to `to` [2, batch, height·width], y then x:
/// linear from −1 to 1 along either side (a single patch: 0), and moved as well if a seed is given, ε in units of the
/// distance between neighbours along its axis. Errors as cape_positions() above.
BEARING_EXPORT void cape_positions(const Cape2d& cape, Index height, Index width, View<double, 3> to,
                                   std::optional<CapeSeed> training = {});

/// 1-D: the sinusoids of cape_positions(). Has no parameters.
template <class A>
class CapeInputs : public SinusoidalInputs<A> {
 public:
  explicit CapeInputs(const Cape& cape) : SinusoidalInputs<A>(cape.sinusoidal()) {}
};

/// 2-D; absolute error below 2^−50 before rounding to A. Has no parameters.
template <class A>
class BEARING_EXPORT Cape2dInputs {
 public:
  using Arithmetic = A;
  static constexpr bool constant = true;

  /// Throws ShapeError for a dim that is odd or below 4.
  explicit Cape2dInputs(const Cape2d& cape);

  Index dim() const { return dim_; }
  /// ShapeError unless positions have two axes.
  void check(const char* function, const Problem& problem) const;
  void inputs(const RowTile& tile, A* p) const;

 private:
  Index dim_;
  std::shared_ptr<const Sinusoids> along_x_, along_y_;
};

}  // namespace bearing
