#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <vector>

// Retention: what a query finds of a key falls by the same part from position to position, at a rate that each head
// has. In linear attention the state decays, which is how it began (RetNet: Sun et al. 2023, arXiv 2307.08621;
// lightning attention: Qin et al. 2024, arXiv 2401.04658),
//
//     S ← e^(−rate_h · (n_t − n_(t−1))) S, then S ← S + k_t v_tᵀ        o_i = Σ_j e^(−rate_h (m_i − n_j)) (q_i·k_j) v_j
//
// and in softmax attention a factor of e^s is a number added to s, which is ALiBi's causal form with rates for slopes:
//
//     s_ij ← s_ij + rate_h · min(n_j − m_i, 0)
//
// RetNet writes γ_h = 1 − 2^(−5−h), h = 0, 1, …, for e^(−rate), and rotates queries and keys besides: put RoPE or xPos
// beside it. Positions may be any that never fall; gaps count as they are.

namespace bearing {

struct Retention {
  std::vector<double> rates;  ///< [heads], at least 0; what is kept from one position to the next is e^−rate

  /// RetNet's: e^−rate = 1 − 2^(−5−h), h = 0 … heads − 1. Throws RangeError for heads that are not from 1 to 2^20.
  static BEARING_EXPORT Retention published(Index heads);
  /// Lightning attention's, of layer `layer` of `layers`, counted from 0: 2^(−8(h+1)/heads), as ALiBi's slopes, times
  /// 1 − layer/(layers − 1 + 10^−5) + 10^−5. So a deeper layer forgets more slowly. Other numbers of heads than powers
  /// of two follow the same formula, as transformers has it. Throws RangeError for heads as published(), and unless
  /// layer is one of the layers.
  static BEARING_EXPORT Retention lightning(Index heads, Index layer, Index layers);
  bool operator==(const Retention&) const = default;
};

/// One rate per head: the spec's, or learned ones. In linear attention a head is one of the keys', whose state it is.
template <class A>
class BEARING_EXPORT RetentionBias {
 public:
  using Arithmetic = A;

  /// Throws RangeError for rates that are not finite and at least 0.
  explicit RetentionBias(const Retention& retention);
  /// rates [heads]. ∂ ln(weight)/∂rate_h = −(m − n). A call throws RangeError for rates as above: learn their
  /// logarithms.
  explicit RetentionBias(Param<A, 1> rates) : learned_(rates) {}

  /// Throws ShapeError unless there is a rate for each head, RangeError for rates that will not do.
  void check(const char* function, const Problem& problem) const;
  void bias(Index head, Index n, const double* distance, A* b) const;
  void bias_grads(Index head, Index n, const double* distance, const A* d_b, A* d_params) const;
  void log_decay(const StepTile& tile, double* log_decay) const;
  void log_decay_grads(const StepTile& tile, const double* d_log_decay, A* d_params) const;
  auto grad_block(Index, Index head) const { return ParamBlock(slice(learned_.grad, 0, head)); }
  void borrows(MemoryList& to) const { to.param("Retention.rates", learned_); }

 private:
  bool learns() const { return learned_.value.data != nullptr; }
  Index heads() const { return learns() ? learned_.value.shape[0] : static_cast<Index>(given_.size()); }
  double rate(Index head) const {
    return learns() ? static_cast<double>(learned_.value(head)) : given_[static_cast<std::size_t>(head)];
  }

  std::vector<double> given_;
  Param<A, 1> learned_{};
};

}  // namespace bearing
