#pragma once

#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <vector>

// FIRE, functional interpolation (Li, You, Guruganesh et al. 2023, arXiv 2310.04418): a small network of the distance,
// squeezed into the length seen so far,
//
//     s_ij ← s_ij + f_h(x),   x = ψ(|m − n|) / (ψ(max(m, L)) + eps),   ψ(d) = ln(|c·d| + 1)
//     f_h(x) = out_bias_h + Σ_u out_weight_hu · max(hidden_weight_u·x + hidden_bias_u, 0),   L = |L_multiplier ·
//     threshold|
//
// Learned: c, L_multiplier and the network, which all heads share except its last layer. x lies in [0, 1] for keys that
// are not after the query, however long the sequence. The bias depends on where the query stands, not on distance
// alone.
//
// This is the paper's own code (appendix). Forks differ: min(m, L) for max, a difference for the quotient, no + 1
// inside the logarithm, no biases, more layers; and eps stands outside the logarithm.

namespace bearing {

namespace fire {
enum class Write;
}

struct Fire {
  Index mlp_width = 32;
  double threshold = 512;  ///< L's start, not learned
  double eps = 1e-6;

  static constexpr double initial_c = 0.1, initial_multiplier = 1;  ///< of the learned c and L_multiplier

  bool operator==(const Fire&) const = default;
};

/// What FIRE learns.
template <class A>
struct FireParams {
  Param<A, 1> c;              ///< [1]
  Param<A, 1> multiplier;     ///< [1] L_multiplier
  Param<A, 1> hidden_weight;  ///< [mlp_width]
  Param<A, 1> hidden_bias;    ///< [mlp_width]
  Param<A, 2> out_weight;     ///< [heads, mlp_width]
  Param<A, 1> out_bias;       ///< [heads]
};

/// FIRE on tiles, for whole and real positions. It keeps the lines of the network that it was made with: make a new one
/// after each step of an optimiser. A call that finds other numbers in the network throws ShapeError. Gradients where
/// the function has a corner: a hidden unit at exactly 0 is off, m = L counts as m, and |c·d| has slope 0 at c = 0.
template <class A>
class BEARING_EXPORT FireBias {
 public:
  using Arithmetic = A;

  /// Reads the network once, here. Between the points where a hidden unit goes on or off f_h is a line, and is
  /// evaluated as one. Throws ShapeError for parameters whose shapes do not fit the spec or each other, RangeError for
  /// a spec without units, or with a threshold or an eps that is not positive and finite, and, as a call does, for
  /// parameters that are not finite.
  FireBias(const Fire& fire, const FireParams<A>& params);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void put_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  /// d_c, d_multiplier, and for each line the sums of d_s and of d_s·x.
  Index param_size() const { return wants_grad_ ? 2 + 2 * lines_ : 0; }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const;
  /// ψ and its slope by c at every distance; the runs of keys along lines, and where they are passed.
  Index scratch_size(Index rows, Index cols) const { return 2 * rows + 4 * cols + 6 * lines_; }

 private:
  void write_scores(const Tile<A>& tile, fire::Write how, A* s) const;
  Index heads() const { return params_.out_bias.value.shape[0]; }
  void find_lines();
  /// All of the network, in the order in which it is kept.
  std::vector<A> network() const;
  /// A hidden unit is on along a line.
  bool on(Index unit, Index line) const;

  Fire spec_;
  FireParams<A> params_;
  bool wants_grad_ = false;
  Index lines_ = 0;                ///< mlp_width + 1
  std::vector<A> made_of_;         ///< the network as it was
  std::vector<A> ends_;            ///< [lines + 1] line l is for ends[l] < x ≤ ends[l + 1]
  std::vector<Index> corner_;      ///< [mlp_width] the last line before a unit's corner
  std::vector<A> slope_, height_;  ///< [heads, lines] f_h(x) = height + slope·x
};

}  // namespace bearing
