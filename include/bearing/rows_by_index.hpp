#pragma once

#include <array>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>

// What Shaw, BERT, Transformer-XL, XLNet, DeBERTa and SAM are made of, as data: a query (or a key) is multiplied with
// the row of a table that an index map picks for the two tokens. Each of these encodings gives its terms by
// rows_by_index(); one forward and one backward serve all of them, here or on another device.

namespace bearing {

/// Which row of a table belongs to a query and a key. These are numbers alone: no function of the encoding is needed.
///
///     by distance     row = zero + step · clip(bucket(Δ), least, most)      Δ = key minus query, on one axis
///                     bucket(Δ) = Δ as far as ±linear, then sign(Δ) · (linear + how many thresholds are ≤ |Δ|)
///     by segment      row = 0 where the two tokens are of one segment, else 1
///
/// Distances before `from` or after `to` have no row, and nothing is added for them.
struct IndexMap {
  enum class Kind { distance, segment };
  static constexpr Index farthest = 2 * max_position;  ///< no two positions are further apart

  Kind kind = Kind::distance;
  std::size_t axis = 0;
  Index zero = 0, step = 1;
  Index least = -farthest, most = farthest;
  Index from = -farthest, to = farthest;
  Index linear = farthest;
  View<const Index, 1> thresholds{};                ///< rising; all lie beyond `linear`
  View<const Index, 2> q_segments{}, k_segments{};  ///< [batch, tokens]
};

/// s_ij += scale · (x_i + shift) · table[row(i, j)], x the queries; or x_j, the keys.
template <class A>
struct RowsByIndex {
  enum class Scale { softmax, none };

  Side operand = Side::query;
  Scale scale = Scale::softmax;  ///< none: the product enters the logits as it is
  View<const A, 3> table{};      ///< [heads or 1, rows, dim], features side by side
  View<const A, 2> shift{};      ///< [heads, dim], side by side; empty: none
  IndexMap map{};
  Index table_block = -1, shift_block = -1;  ///< where their gradients lie in a head's block of them; −1: not computed
};

/// The terms of an encoding, two at most.
template <class A>
struct RowsByIndexList {
  std::array<RowsByIndex<A>, 2> terms{};
  std::size_t size = 0;

  void add(const RowsByIndex<A>& term) { terms[size++] = term; }
  const RowsByIndex<A>* begin() const { return terms.data(); }
  const RowsByIndex<A>* end() const { return terms.data() + size; }
};

}  // namespace bearing
