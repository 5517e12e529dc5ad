#pragma once

#include <bearing/term_list.hpp>
#include <vector>

#include "terms/row_place.hpp"
#include "terms/score_call.hpp"

namespace bearing {

/// A worker's room to turn rows of queries or keys by every row encoding of a call, in order, and to take gradients
/// back through them.
template <class A>
class RowTurner {
 public:
  /// `dim`: of the rows that come. Throws std::bad_alloc; nothing below does.
  RowTurner(const TermList<A>& rows, const Positions& at, Side side, Index most, Index dim)
      : rows_(&rows), side_(side), most_(most), place_(at, most) {
    Index scratch = 0;
    for (const Term<A>& term : rows) {
      dims_[count_++] = dim;
      if (term.turn_scratch != nullptr) scratch = std::max(scratch, term.turn_scratch(term.self, dim));
      if (term.out_dim != nullptr) dim = term.out_dim(term.self, dim);
      widest_ = std::max({widest_, dim, dims_[count_ - 1]});
    }
    dims_[count_] = dim;
    scratch_.resize(static_cast<std::size_t>(scratch));
    if (count_ > 1) room_.resize(static_cast<std::size_t>(5 * most * widest_));
  }

  /// Whether rows change at all.
  bool turns() const { return count_ > 0; }

  /// y [n, turned dim] ← x [n, dim], tokens first … first + n − 1 of a head; n ≤ most, y not x. A copy, where none
  /// turns.
  void turn(Index b, Index h, Index first, Index n, const A* x, Index x_stride, A* y) {
    RowTile tile = open(b, h, first, n);
    turn_some(tile, count_, x, x_stride, y);
  }

  /// d_x [n, dim] from d_y [n, turned dim] and x [n, dim]; params(t): where term t's gradient is added, or null. d_x
  /// is neither of the others.
  template <class Params>
  void turn_grads(Index b, Index h, Index first, Index n, const A* x, const A* d_y, A* d_x, const Params& params) {
    RowTile tile = open(b, h, first, n);
    for (std::size_t t = count_; t-- > 0;) {
      const Term<A>& term = rows_->terms[t];
      const A* from = x;
      if (t > 0) {
        turn_some(tile, t, x, dims_[0], room(2));
        from = room(2);
      }
      tile.dim = tile.x_stride = dims_[t];
      tile.y_stride = dims_[t + 1];
      A* to = t == 0 ? d_x : room(3 + t % 2);
      term.turn_grads(term.self, tile, from, d_y, to, params(static_cast<Index>(t)));
      d_y = to;
    }
  }

 private:
  RowTile open(Index b, Index h, Index first, Index n) {
    RowTile tile = place_.open(b, h, first, first + n);
    tile.side = side_;
    tile.scratch = scratch_.data();
    return tile;
  }

  /// Rows between terms: two for turns, one for what a term turned, two for gradients.
  A* room(std::size_t n) { return room_.data() + n * static_cast<std::size_t>(most_ * widest_); }

  /// The first `terms` of them.
  void turn_some(RowTile tile, std::size_t terms, const A* x, Index x_stride, A* y) {
    const A* from = x;
    tile.x_stride = x_stride;
    for (std::size_t t = 0; t < terms; ++t) {
      const Term<A>& term = rows_->terms[t];
      A* to = t + 1 < terms ? room(t % 2) : y;
      tile.dim = dims_[t];
      tile.y_stride = dims_[t + 1];
      term.turn(term.self, tile, from, to);
      from = to;
      tile.x_stride = dims_[t + 1];
    }
  }

  const TermList<A>* rows_;
  Side side_;
  Index most_, widest_ = 0;
  RowPlace place_;
  std::array<Index, static_cast<std::size_t>(TermList<A>::most) + 1> dims_{};
  std::size_t count_ = 0;
  std::vector<A> room_;
  std::vector<double> scratch_;
};

}  // namespace bearing
