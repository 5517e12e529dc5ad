#pragma once

#include <algorithm>
#include <array>
#include <bearing/rows_by_index.hpp>

#include "terms/tile_kernels.hpp"

// A tile cut into parts, and which row of the table every score of a part meets.

namespace bearing::relation {

/// Parts have at most so many queries and so many keys. Consecutive tokens meet one row fewer than their sum, so that
/// wide parts share more where queries are multiplied, and square ones where keys are with a long table.
inline constexpr Index most_rows = 64, widest = 128;
template <class A>
Index most_cols(const RowsByIndex<A>& term) {
  return term.operand == Side::key && term.table.shape[1] > widest ? widest / 2 : widest;
}

/// At most so many rows of the table are multiplied with a part's operands.
template <class A>
Index most_met(const RowsByIndex<A>& term, Index rows, Index cols) {
  return term.map.kind == IndexMap::Kind::segment ? 2 : std::min(rows + cols - 1, term.table.shape[1]);
}

/// Some queries and keys of a tile, and which of `count` rows of the table they meet, from bucket `low` on. The
/// products with these rows have a column each, and one of zeros after them for scores that meet no row.
struct Part {
  enum class By {
    band,        ///< consecutive tokens, whose buckets rise by one along the diagonals as far as the ends
    diagonal,    ///< consecutive tokens: `column` has one entry a diagonal
    difference,  ///< column[j] less the query's own number
    score,       ///< worked out score by score
    product,     ///< so are the rows, which are too many to be multiplied with all operands
  };

  Part(Index first_row, Index first_col, Index queries, Index keys)
      : row(first_row), col(first_col), rows(queries), cols(keys) {}

  Index row, col, rows, cols;
  Index low = 0, count = 0;
  By by = By::score;
  tiles::Band band{};
  std::array<std::int32_t, most_rows + widest> column;  ///< as `by` says
};

/// The bucket of a distance, clipped: what the row follows from.
inline Index bucket_of(const IndexMap& map, Index distance) {
  Index size = std::abs(distance);
  if (size > map.linear) {
    const Index* first = map.thresholds.data;
    size = map.linear + (std::upper_bound(first, first + map.thresholds.shape[0], size) - first);
  }
  return std::clamp(distance < 0 ? -size : size, map.least, map.most);
}

/// Cuts one tile for one term, and finds columns of its scores.
template <class A>
class Parts {
 public:
  Parts(const RowsByIndex<A>& term, const Tile<A>& tile) : term_(term), map_(term.map), tile_(tile) {}

  /// body(part) for parts that cover all scores that meet a row.
  template <class Body>
  void each(const Body& body) const {
    if (map_.kind == IndexMap::Kind::segment) {
      return pieces(0, tile_.rows, 0, tile_.cols, [&](Part& part) {
        part.count = 2;
        body(part);
      });
    }
    if (tile_.consecutive && map_.axis == 0) return run(0, tile_.rows, 0, tile_.cols, body);
    // Few runs, as of packed sequences, are worked on one by one.
    const bool few_runs = breaks(q(), tile_.rows) <= 1 && breaks(k(), tile_.cols) <= 1;
    pieces(0, tile_.rows, 0, tile_.cols, [&](Part& part) {
      if (!scattered(part)) return;
      if (!few_runs || part.by == Part::By::difference) return body(part);
      runs(part.row, part.row + part.rows, part.col, part.col + part.cols, body);
    });
  }

  /// The columns of row i of a part, whose first is at [0]; `room` is used where they are worked out for the row. All
  /// of them are less `offset`.
  const std::int32_t* columns(const Part& part, Index i, Index& offset, std::int32_t* room) const {
    offset = 0;
    if (part.by == Part::By::diagonal) return part.column.data() + (part.rows - 1 - i);
    if (part.by == Part::By::difference) {
      offset = static_cast<Index>(q()[part.row + i] - q()[part.row]);
      return part.column.data();
    }
    work_out(part, i, room);
    return room;
  }

  /// Whether row i has the columns of the row before.
  bool as_before(const Part& part, Index i) const {
    if (map_.kind != IndexMap::Kind::segment) return false;
    const Index row = tile_.row + part.row + i;
    return map_.q_segments(tile_.batch, row) == map_.q_segments(tile_.batch, row - 1);
  }

  /// The columns of row i, score by score; those that meet no row have the one past the others.
  void work_out(const Part& part, Index i, std::int32_t* to) const {
    if (map_.kind == IndexMap::Kind::segment) {
      const Index own = map_.q_segments(tile_.batch, tile_.row + part.row + i);
      const Index *keys = &map_.k_segments(tile_.batch, tile_.col + part.col), step = map_.k_segments.stride[1];
      for (Index j = 0; j < part.cols; ++j) to[j] = keys[j * step] == own ? 0 : 1;
      return;
    }
    for (Index j = 0; j < part.cols; ++j) {
      const auto distance = static_cast<Index>(k()[part.col + j] - q()[part.row + i]);
      const bool met = distance >= map_.from && distance <= map_.to;
      to[j] = static_cast<std::int32_t>(met ? bucket_of(map_, distance) - part.low : part.count);
    }
  }

 private:
  const double* q() const { return tile_.q_positions[map_.axis]; }
  const double* k() const { return tile_.k_positions[map_.axis]; }

  static Index breaks(const double* at, Index n) {
    Index count = 0;
    for (Index t = 1; t < n; ++t) count += at[t] - at[t - 1] == 1 ? 0 : 1;
    return count;
  }

  /// body(part) for a rectangle cut to size.
  template <class Body>
  void pieces(Index row, Index row_end, Index col, Index col_end, const Body& body) const {
    for (Index i = row; i < row_end; i += most_rows) {
      for (Index j = col; j < col_end; j += widest_) {
        Part part(i, j, std::min(most_rows, row_end - i), std::min(widest_, col_end - j));
        body(part);
      }
    }
  }

  /// A rectangle cut into runs of consecutive tokens.
  template <class Body>
  void runs(Index row, Index row_end, Index col, Index col_end, const Body& body) const {
    const auto end_of = [](const double* at, Index first, Index end) {
      Index t = first + 1;
      while (t < end && at[t] - at[t - 1] == 1) ++t;
      return t;
    };
    for (Index i = row; i < row_end;) {
      const Index i_end = end_of(q(), i, row_end);
      for (Index j = col; j < col_end;) {
        const Index j_end = end_of(k(), j, col_end);
        run(i, i_end, j, j_end, body);
        j = j_end;
      }
      i = i_end;
    }
  }

  template <class Body>
  void run(Index row, Index row_end, Index col, Index col_end, const Body& body) const {
    pieces(row, row_end, col, col_end, [&](Part& part) {
      if (consecutive(part)) body(part);
    });
  }

  /// The rows between those of two distances. Whether there are any.
  bool meet(Part& part, Index lowest, Index highest) const {
    if (highest < map_.from || lowest > map_.to) return false;
    part.low = bucket_of(map_, std::max(lowest, map_.from));
    part.count = bucket_of(map_, std::min(highest, map_.to)) - part.low + 1;
    return true;
  }

  bool consecutive(Part& part) const {
    const auto first = static_cast<Index>(k()[part.col] - q()[part.row]);
    const Index diagonals = part.rows + part.cols - 1;
    const Index lowest = first - (part.rows - 1), highest = lowest + diagonals - 1;
    if (!meet(part, lowest, highest)) return false;
    const bool all = lowest >= map_.from && highest <= map_.to;
    const bool rising = lowest >= -map_.linear && highest <= map_.linear;
    if (rising || part.count == 1) {
      part.by = Part::By::band;
      part.band = {rising ? part.low - lowest : 0, part.count, map_.to - lowest + 1, map_.from - lowest};
    } else if (all) {
      part.by = Part::By::diagonal;
      for (Index d = 0; d < diagonals; ++d) {
        part.column[static_cast<std::size_t>(d)] = static_cast<std::int32_t>(bucket_of(map_, lowest + d) - part.low);
      }
    }
    return true;
  }

  /// A piece of tokens in any order. Whether it meets any row.
  bool scattered(Part& part) const {
    const auto [q_low, q_high] = std::minmax_element(q() + part.row, q() + part.row + part.rows);
    const auto [k_low, k_high] = std::minmax_element(k() + part.col, k() + part.col + part.cols);
    const auto lowest = static_cast<Index>(*k_low - *q_high), highest = static_cast<Index>(*k_high - *q_low);
    if (!meet(part, lowest, highest)) return false;
    if (part.count > most_met(term_, part.rows, part.cols)) {
      part.by = Part::By::product;
      return true;
    }
    const bool plain = lowest >= std::max({map_.from, map_.least, -map_.linear}) &&
                       highest <= std::min({map_.to, map_.most, map_.linear});
    if (!plain) return true;
    part.by = Part::By::difference;
    for (Index j = 0; j < part.cols; ++j) {
      part.column[static_cast<std::size_t>(j)] =
          static_cast<std::int32_t>(static_cast<Index>(k()[part.col + j] - q()[part.row]) - part.low);
    }
    return true;
  }

  const RowsByIndex<A>& term_;
  const IndexMap& map_;
  const Tile<A>& tile_;
  Index widest_ = most_cols(term_);
};

}  // namespace bearing::relation
