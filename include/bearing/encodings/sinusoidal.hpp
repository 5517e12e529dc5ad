#pragma once

#include <bearing/rows.hpp>
#include <memory>
#include <optional>
#include <vector>

// Sinusoidal encoding of the input (Vaswani et al. 2017, arXiv 1706.03762, section 3.5): token p receives the sine and
// the cosine of p times each of a row of frequencies,
//
//     x_p ← x_p + [sin pω_0, cos pω_0, sin pω_1, cos pω_1, …]        ω_i = base^(−2i/dim) radians per token
//
// That is the paper. Implementations differ in the order of the columns and in the exponent. A table of another layout
// has the same shape and trains as well, but a trained model needs the layout that it was trained with.

namespace bearing {

/// Column order and exponent. h is dim/2, rounded down. There is no default: no error would tell a wrong guess.
enum class SinusoidalLayout {
  interleaved,        ///< [scscsc]  2i/dim: the paper; DistilBERT, XLM, Flaubert; odd dim: the last column is a sine
  concatenated,       ///< [sss|ccc]  2i/dim: Transformer-XL, Marian, Pegasus; odd dim: one more sine
  tensor2tensor,      ///< [sss|ccc]  i/(h−1), so the last ω is exactly 1/base: fairseq, M2M100, Whisper, MLX; odd: 0
  cos_first,          ///< [ccc|sss]  i/h: DiT, diffusers with flip_sin_to_cos and downscale_freq_shift 0; odd: 0
  cos_first_shifted,  ///< [ccc|sss]  i/(h−1): diffusers with flip_sin_to_cos and downscale_freq_shift 1; odd: 0
};

struct Sinusoidal {
  Index dim = 0;
  double base = 10'000;  ///< the longest wavelength is 2π times this, or a little less
  Required<SinusoidalLayout> layout;
  double frequency_scale = 1;                  ///< multiplies every ω: 2π for whole turns, CAPE's freq_scale
  double scale = 1;                            ///< multiplies every sine and cosine: √(2/dim) in MLX
  std::optional<Index> padding_position = {};  ///< its row is 0: fairseq's and M2M100's padding_idx
  bool operator==(const Sinusoidal&) const = default;
};

enum class SinusoidPart { sine, cosine, zero };
struct SinusoidColumn {
  Index pair = 0;  ///< whose frequency
  SinusoidPart part = SinusoidPart::zero;
  bool operator==(const SinusoidColumn&) const = default;
};

/// What each column holds, [dim]. Throws ShapeError for dim < 2 or past 65,536, RangeError for a base or factors that
/// cannot be.
BEARING_EXPORT std::vector<SinusoidColumn> sinusoidal_columns(const Sinusoidal& spec);

/// ω of every pair, radians per token, rounded to nearest. Errors as sinusoidal_columns().
BEARING_EXPORT std::vector<double> sinusoidal_frequencies(const Sinusoidal& spec);

/// The permutation between two layouts of the same numbers: column c of `to` is column order[c] of `from`. Apply it to
/// the columns of all that was trained with the table (token embeddings, the weights that read the sum): then the model
/// computes the same with the other layout. Throws ShapeError if the exponents differ, as then there is no permutation.
BEARING_EXPORT std::vector<Index> sinusoidal_column_order(SinusoidalLayout from, SinusoidalLayout to, Index dim);

/// Parameters that may be learned; an empty Param is not.
template <class A>
struct SinusoidalParams {
  Param<A, 1> scale = {};        ///< [1], beside the spec's scale (x-transformers, which starts it at dim^−½)
  Param<A, 1> frequencies = {};  ///< [pairs], in place of the spec's; read once, when the encoding is made
};

class Sinusoids;  // exact sines and cosines: src/encodings/input/sinusoids.hpp

/// The encoding. Values are those of the real numbers p and ω (150 bits), rounded: float ≤ 0.55 ulp to position 2^24
/// and ≤ 1 ulp to ±2^31, double ≤ 2 ulp, before a scale other than 1 adds its own rounding. Real positions too.
template <class A>
class BEARING_EXPORT SinusoidalInputs {
 public:
  using Arithmetic = A;
  static constexpr Index numbers_at_once = Index{1} << 22;  // long runs of rows, so that preparing them costs little

  /// Throws as sinusoidal_columns(), ShapeError for parameters of the wrong shape, RangeError for frequencies that are
  /// not finite or above 2^13; a call throws RangeError for a learned scale that is not finite.
  explicit SinusoidalInputs(const Sinusoidal& spec, SinusoidalParams<A> learned = {});
  SinusoidalInputs(const SinusoidalInputs&) = default;  // moving copies: what was moved from still serves
  SinusoidalInputs& operator=(const SinusoidalInputs&) = default;

  Index dim() const { return spec_.dim; }
  void check(const char* function, const Problem& problem) const;
  void inputs(const RowTile& tile, A* p) const;
  void add_inputs(const RowTile& tile, A* x) const;
  /// dscale = Σ dx·p/scale,  dω_i = Σ_p p·(d_sin·cos pω_i − d_cos·sin pω_i), scaled
  void input_grads(const RowTile& tile, const A* d_p, A* d_params) const;
  auto grad_block(Index, Index) const { return ParamBlock(learned_.scale.grad, learned_.frequencies.grad); }
  void borrows(MemoryList& to) const {
    to.param("Sinusoidal.scale", learned_.scale), to.param("Sinusoidal.frequencies", learned_.frequencies);
  }

 private:
  bool is_padding(double p) const;
  void sequence(const RowTile& tile, Index first, Index end, A* p, bool added) const;
  A learned_scale() const { return learned_.scale.value.data == nullptr ? A(1) : learned_.scale.value(0); }

  Sinusoidal spec_;
  SinusoidalParams<A> learned_;
  std::shared_ptr<const Sinusoids> sinusoids_;
};

/// The gradient of the base, from that of the frequencies: Σ_i dω_i·∂ω_i/∂base. d_frequencies [pairs]. Errors as
/// sinusoidal_columns(), and ShapeError unless there is one for each pair.
BEARING_EXPORT double sinusoidal_base_gradient(const Sinusoidal& spec, View<const double, 1> d_frequencies);

/// The table itself: rows [time, dim] at the given positions.
template <class T>
void fill(const Sinusoidal& spec, const Positions& positions, View<T, 2> rows, const Executor& on = {}) {
  const SinusoidalInputs<Compute<T>> encoding(spec);
  fill<T>(encoding, positions, rows, on);
}

}  // namespace bearing
