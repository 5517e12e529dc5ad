#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// ALiBi, attention with linear biases (Press, Smith, Lewis 2022, arXiv 2108.12409): a score falls in proportion to the
// distance, at a rate that each head has,
//
//     s_ij ← s_ij − slope_h · |n − m|        slope_h = 2^(−8h/H), h = 1 … H, for H a power of two
//
// For other H the slopes are those of the power of two below, then every other one of twice that power (the 1st, 3rd,
// …). The paper's text states the simple formula for all H, and some implementations follow it; the authors' code,
// BLOOM, MPT, Falcon and llama.cpp use the list, which is what models were trained with and what published() gives.

namespace bearing {

/// What keys after the query get.
enum class AlibiForm {
  symmetric,  ///< −slope·|n − m|, like keys before it; under a causal mask the same as `causal`
  causal,     ///< slope·min(n − m, 0): they get 0, and are meant to be masked
};

struct Alibi {
  std::vector<double> slopes;  ///< [heads], positive for decay
  AlibiForm form = AlibiForm::symmetric;

  /// The published slopes. `bias_max` is the 8 in the exponent (MPT's alibi_bias_max). `times` multiplies all of them:
  /// Falcon adds its bias before the softmax scale, so its slopes are these times that scale. Throws RangeError for
  /// heads < 1 or numbers that are not finite.
  static BEARING_EXPORT Alibi published(Index heads, double bias_max = 8, double times = 1);
  bool operator==(const Alibi&) const = default;
};

/// One slope per head: the spec's, or learned ones [heads] with their gradient.
template <class A>
class BEARING_EXPORT AlibiSlopes {
 public:
  AlibiSlopes(const char* function, const std::vector<double>& given);
  explicit AlibiSlopes(Param<A, 1> learned) : learned_(learned) {}

  Index heads() const {
    return learned_.value.data == nullptr ? static_cast<Index>(given_.size()) : learned_.value.shape[0];
  }
  A operator[](Index head) const {
    return learned_.value.data == nullptr ? given_[static_cast<std::size_t>(head)] : learned_.value(head);
  }
  bool wants_grad() const { return learned_.grad.data != nullptr; }
  void check(const char* function, const Problem& problem) const;
  auto grad_block(Index head) const { return ParamBlock(slice(learned_.grad, 0, head)); }
  void borrows(MemoryList& to) const { to.param("Alibi.slopes", learned_); }

 private:
  std::vector<A> given_;
  Param<A, 1> learned_{};
};

/// ALiBi as a bias by distance, for whole and real positions. Throws RangeError for slopes that are not finite, learned
/// ones in a call; a call throws ShapeError unless there are as many slopes as heads.
template <class A>
class BEARING_EXPORT AlibiBias {
 public:
  using Arithmetic = A;

  explicit AlibiBias(const Alibi& alibi) : slopes_("AlibiBias", alibi.slopes), form_(alibi.form) {}
  /// ∂b/∂slope_h = −|n − m|
  explicit AlibiBias(Param<A, 1> slopes, AlibiForm form = AlibiForm::symmetric) : slopes_(slopes), form_(form) {}

  void check(const char* function, const Problem& problem) const { slopes_.check(function, problem); }
  void bias(Index head, Index n, const double* distance, A* b) const;
  void bias_grads(Index head, Index n, const double* distance, const A* d_b, A* d_params) const;
  auto grad_block(Index, Index head) const { return slopes_.grad_block(head); }
  void borrows(MemoryList& to) const { slopes_.borrows(to); }

 private:
  AlibiSlopes<A> slopes_;
  AlibiForm form_;
};

/// The row-shifted form, slope_h·n, of BLOOM and MPT. A whole row differs from the causal form by slope_h·m: softmax
/// gives the same, but the log-sum-exp differs, so partial results of the two forms must not be merged. With left
/// padding, give positions that count real tokens only, as BLOOM does. In float a score is off by up to
/// slope_h·n·2^-23; far into a text take AlibiBias with AlibiForm::causal, which has the same weights.
template <class A>
class BEARING_EXPORT AlibiShiftedBias {
 public:
  using Arithmetic = A;

  explicit AlibiShiftedBias(const Alibi& alibi) : slopes_("AlibiShiftedBias", alibi.slopes) {}
  explicit AlibiShiftedBias(Param<A, 1> slopes) : slopes_(slopes) {}

  void check(const char* function, const Problem& problem) const { slopes_.check(function, problem); }
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const { return slopes_.grad_block(head); }
  void borrows(MemoryList& to) const { slopes_.borrows(to); }

 private:
  AlibiSlopes<A> slopes_;
};

}  // namespace bearing
