#pragma once

#include <algorithm>
#include <bearing/term_list.hpp>
#include <vector>

#include "terms/row_place.hpp"

namespace bearing {

/// A worker's room to turn rows of values, or of what they add up to, by every encoding of a call that does; and to
/// take gradients back. Rows turn where they lie, in the arithmetic's type.
template <class A>
class ValueTurner {
 public:
  /// `side`: key for values, query for their sums; `dim`: of a value. Throws std::bad_alloc; nothing below does.
  ValueTurner(const TermList<A>& terms, const Positions& at, Side side, Index dim)
      : terms_(&terms), side_(side), dim_(dim), place_(at, terms.size > 0 ? rows_at_once : 0) {
    Index scratch = 0;
    for (const Term<A>& term : terms) {
      if (term.turn_scratch != nullptr) scratch = std::max(scratch, term.turn_scratch(term.self, dim));
    }
    scratch_.resize(static_cast<std::size_t>(scratch));
  }

  /// Whether rows change at all.
  bool turns() const { return terms_->size > 0 && dim_ > 0; }

  /// x [n, dim], rows `stride` apart, of tokens first … first + n − 1 of a head. Values pass through the encodings in
  /// order, sums in the opposite order.
  void turn(Index b, Index h, Index first, Index n, A* x, Index stride) {
    each(b, h, first, n, x, stride, side_ == Side::key,
         [](const Term<A>& term, const RowTile& tile, A* rows) { term.turn_values(term.self, tile, rows); });
  }
  /// The transpose of turn().
  void turn_grads(Index b, Index h, Index first, Index n, A* x, Index stride) {
    each(b, h, first, n, x, stride, side_ == Side::query,
         [](const Term<A>& term, const RowTile& tile, A* rows) { term.turn_value_grads(term.self, tile, rows); });
  }

 private:
  template <class Body>
  void each(Index b, Index h, Index first, Index n, A* x, Index stride, bool in_order, const Body& body) {
    for (Index i = 0; turns() && i < n; i += rows_at_once) {
      RowTile tile = place_.open(b, h, first + i, first + n);
      tile.side = side_;
      tile.dim = dim_;
      tile.x_stride = tile.y_stride = stride;
      tile.scratch = scratch_.data();
      for (Index t = 0; t < terms_->size; ++t) {
        const Index which = in_order ? t : terms_->size - 1 - t;
        body(terms_->terms[static_cast<std::size_t>(which)], tile, x + i * stride);
      }
    }
  }

  const TermList<A>* terms_;
  Side side_;
  Index dim_;
  RowPlace place_;
  std::vector<double> scratch_;
};

}  // namespace bearing
