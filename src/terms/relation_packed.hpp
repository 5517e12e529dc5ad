#pragma once

#include <algorithm>
#include <array>

#include "terms/relation_parts.hpp"

// A part of consecutive tokens: every diagonal has one row of the table, and later ones never an earlier row. The rows
// that the part meets are packed once. Then its queries, or keys, are multiplied in groups that are a panel wide: a
// group meets fewer rows than the part, and the next group's begin one panel further.

namespace bearing::relation {

/// What the rows of a part's table are multiplied by, and where they lie.
template <class A>
struct PackedOperands {
  const A* low_row;  ///< of the part's lowest bucket
  Index step;        ///< to the next bucket's
  Index dim;
  A scale;
};

template <class A>
class PackedRows {
 public:
  PackedRows(const Part& part, const PackedOperands<A>& operands, A* scratch)
      : part_(part), of_(operands), packed_(scratch) {
    products_ = packed_ + whole_panels(most_met(part.rows, part.cols)) * of_.dim;
    room_ = products_ + group_ * most_products(part.rows, part.cols);
  }

  /// What it needs of a tile's scratch, with room for a group's operands.
  static Index scratch_size(Index rows, Index cols, Index dim) {
    const Index group = group_of(tiles::panel_width<A>());
    return whole_panels(most_met(rows, cols)) * dim + group * (most_products(rows, cols) + 2 * rows + dim);
  }

  /// s += the products of queries; operands(first, n, room): n of them from `first` on, which may be made in the room.
  template <class Operands>
  void add_of_queries(const Operands& operands, A* s, Index stride) const {
    tiles::pack(part_.count, of_.dim, of_.low_row, of_.step, packed_);
    for (Index end = part_.rows; end > 0; end -= std::min(group_, end)) {
      const Index first = std::max<Index>(end - group_, 0), n = end - first;
      const Index before = part_.rows - end;  // diagonals of the part that come before the group's first
      const Index low = column(before), high = column(before + most_met(n, part_.cols) - 1);
      const Met met = multiply(operands(first, n, room_), n, low, high);
      tiles::Band band{part_.band.low - before, part_.count, part_.band.end - before, part_.band.begin - before};
      if (part_.by == Part::By::band) {
        band.low += low, band.width = high - low + 1;
        tiles::add_band(n, part_.cols, band, products_ + (low - met.first), met.count, s + first * stride, stride);
      } else {
        tiles::add_by_column(n, part_.cols, band, part_.column.data() + before, met.first, products_, met.count,
                             s + first * stride, stride);
      }
    }
  }

  /// s += the products of keys. Rows are packed, and columns counted, from the part's last diagonal back.
  template <class Operands>
  void add_of_keys(const Operands& operands, A* s, Index stride) const {
    tiles::pack(part_.count, of_.dim, of_.low_row + (part_.count - 1) * of_.step, -of_.step, packed_);
    const Index diagonals = most_met(part_.rows, part_.cols);
    std::array<std::int32_t, most_band_rows + widest_band> columns;
    for (Index x = 0; x < diagonals; ++x) {
      columns[static_cast<std::size_t>(x)] = static_cast<std::int32_t>(part_.count - 1 - column(diagonals - 1 - x));
    }
    for (Index end = part_.cols; end > 0; end -= std::min(group_, end)) {
      const Index first = std::max<Index>(end - group_, 0), n = end - first;
      const std::int32_t* const of = columns.data() + (part_.cols - end);
      const Met met =
          multiply(operands(first, n, room_ + 2 * part_.rows * group_), n, of[0], of[most_met(part_.rows, n) - 1]);
      const tiles::Band band{0, part_.count, part_.band.end - first, part_.band.begin - first};
      tiles::add_by_key_column(part_.rows, n, band, of, met.first, products_, met.count, s + first, stride, room_);
    }
  }

 private:
  /// Whole panels of rows.
  struct Met {
    Index first, count;
  };

  static Index most_met(Index rows, Index cols) { return rows + cols - 1; }
  static Index group_of(Index width) { return std::max(width, least_packed); }
  static Index whole_panels(Index n) {
    const Index width = tiles::panel_width<A>();
    return (n + width - 1) / width * width;
  }
  /// Of one operand with the rows that a group meets. Panels may begin before these, and a kernel reads a vector more.
  static Index most_products(Index rows, Index cols) {
    const Index width = tiles::panel_width<A>();
    return whole_panels(most_met(group_of(width), std::max(rows, cols))) + 2 * width;
  }

  Index column(Index diagonal) const {
    return part_.by == Part::By::band ? part_.band.column(diagonal) : part_.column[static_cast<std::size_t>(diagonal)];
  }

  /// Products of n operands with the rows that have columns low to high.
  template <class Rows>
  Met multiply(const Rows& x, Index n, Index low, Index high) const {
    const Index first = low / width_ * width_, count = whole_panels(high + 1 - first);
    tiles::multiply_packed(n, count / width_, of_.dim, of_.scale, x.data, x.stride, packed_ + first * of_.dim,
                           products_, count);
    return {first, count};
  }

  const Part& part_;
  PackedOperands<A> of_;
  Index width_ = tiles::panel_width<A>(), group_ = group_of(width_);
  A *packed_, *products_, *room_;
};

}  // namespace bearing::relation
