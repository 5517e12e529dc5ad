#pragma once

#include <algorithm>
#include <array>
#include <bearing/rows_by_index.hpp>
#include <cstdlib>

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

/// Where tokens are consecutive, rows are packed once for each part: larger parts meet fewer rows a score.
inline constexpr Index most_band_rows = 96, widest_band = 256;
/// A tile of fewer queries or keys than this does not pay for packing.
inline constexpr Index least_packed = 16;

/// Whether rows are met by diagonal alone, in a tile that pays for packing them.
template <class A>
bool packs(const IndexMap& map, const Tile<A>& tile) {
  return tile.consecutive && map.axis == 0 && map.kind == IndexMap::Kind::distance &&
         std::min(tile.rows, tile.cols) >= least_packed;
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
  std::array<std::int32_t, most_band_rows + widest_band> column;  ///< as `by` says
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

/// The buckets of n distances from `first` on, clipped to [low, high], as columns from low on. Each is found from the
/// one before.
inline void columns_along(const IndexMap& map, Index first, Index n, Index low, Index high, std::int32_t* column) {
  const Index *at = map.thresholds.data, count = map.thresholds.shape[0];
  Index passed = std::upper_bound(at, at + count, std::abs(first)) - at;
  for (Index x = 0; x < n; ++x) {
    const Index distance = first + x, size = std::abs(distance);
    while (distance > 0 && passed < count && at[passed] <= size) ++passed;
    while (distance < 0 && passed > 0 && at[passed - 1] > size) --passed;
    const Index bucket = size > map.linear ? map.linear + passed : size;
    column[x] = static_cast<std::int32_t>(std::clamp(distance < 0 ? -bucket : bucket, low, high) - low);
  }
}

/// Cuts one tile for one term, and finds columns of its scores.
template <class A>
class Parts {
 public:
  Parts(const RowsByIndex<A>& term, const Tile<A>& tile) : term_(term), map_(term.map), tile_(tile) {}

  /// body(part) for parts of a tile that packs(): bands, or by diagonal, whose band says which diagonals meet a row.
  template <class Body>
  void each_packed(const Body& body) const {
    pieces(0, tile_.rows, 0, tile_.cols, most_band_rows, widest_band, [&](Part& part) {
      const Index lowest = lowest_of(part), diagonals = part.rows + part.cols - 1;
      if (!consecutive(part)) return;
      if (part.by != Part::By::band) {
        part.band = {0, part.count, map_.to - lowest + 1, map_.from - lowest};
        if (part.by != Part::By::diagonal)
          columns_along(map_, lowest, diagonals, part.low, part.low + part.count - 1, part.column.data());
        part.by = Part::By::diagonal;
      }
      body(part);
    });
  }

  /// body(part) for parts that cover all scores that meet a row.
  template <class Body>
  void each(const Body& body) const {
    if (map_.kind == IndexMap::Kind::segment) {
      return pieces(0, tile_.rows, 0, tile_.cols, most_rows, widest_, [&](Part& part) {
        part.count = 2;
        body(part);
      });
    }
    if (tile_.consecutive && map_.axis == 0) return run(0, tile_.rows, 0, tile_.cols, body);
    // Few runs, as of packed sequences, are worked on one by one.
    const bool few_runs = breaks(q(), tile_.rows) <= 1 && breaks(k(), tile_.cols) <= 1;
    pieces(0, tile_.rows, 0, tile_.cols, most_rows, widest_, [&](Part& part) {
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
  void pieces(Index row, Index row_end, Index col, Index col_end, Index rows, Index cols, const Body& body) const {
    for (Index i = row; i < row_end; i += rows) {
      for (Index j = col; j < col_end; j += cols) {
        Part part(i, j, std::min(rows, row_end - i), std::min(cols, col_end - j));
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
    pieces(row, row_end, col, col_end, most_rows, widest_, [&](Part& part) {
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

  /// The distance of a part's first diagonal.
  Index lowest_of(const Part& part) const {
    return static_cast<Index>(k()[part.col] - q()[part.row]) - (part.rows - 1);
  }

  bool consecutive(Part& part) const {
    const Index diagonals = part.rows + part.cols - 1;
    const Index lowest = lowest_of(part), highest = lowest + diagonals - 1;
    if (!meet(part, lowest, highest)) return false;
    const bool all = lowest >= map_.from && highest <= map_.to;
    const bool rising = lowest >= -map_.linear && highest <= map_.linear;
    if (rising || part.count == 1) {
      part.by = Part::By::band;
      part.band = {rising ? part.low - lowest : 0, part.count, map_.to - lowest + 1, map_.from - lowest};
    } else if (all) {
      part.by = Part::By::diagonal;
      columns_along(map_, lowest, diagonals, part.low, part.low + part.count - 1, part.column.data());
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
