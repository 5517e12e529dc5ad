#pragma once

#include <algorithm>
#include <bearing/term_list.hpp>
#include <vector>

#include "aligned.hpp"
#include "terms/row_place.hpp"
#include "terms/tile_kernels.hpp"

// A task's own memory for tiles, and what is done with a term on one tile, whatever kind of term it is.

namespace bearing {

struct TileExtents {
  Index rows, cols;
};

/// Tiles are large where all terms are biases by position, whose evaluations they share; small where rows of q and k
/// must stay near; and span all keys where a term asks for that (of some 8,192 scores then).
template <class A>
TileExtents tile_extents(const TermList<A>& terms, Index q_len, Index k_len) {
  bool whole_rows = false, positions_only = true;
  for (const Term<A>& term : terms) {
    whole_rows = whole_rows || term.whole_rows;
    positions_only =
        positions_only && (term.bias != nullptr || term.put_scores != nullptr) && term.add_values == nullptr;
  }
  if (whole_rows) return {std::clamp<Index>(8192 / std::max<Index>(k_len, 1), 1, 64), k_len};
  if (positions_only) return {std::min<Index>(q_len, 256), std::min<Index>(k_len, 1024)};
  return {std::min<Index>(q_len, 64), std::min<Index>(k_len, 128)};
}

/// Whether a term's scores may depend on rows of q and k.
template <class A>
bool may_look_at_rows(const Term<A>& term) {
  return term.add_scores != nullptr && term.put_scores == nullptr && term.matrix == nullptr;
}
template <class A>
bool any_looks_at_rows(const TermList<A>& terms) {
  return std::any_of(terms.begin(), terms.end(), may_look_at_rows<A>);
}

/// Whether a task needs room for a tile's scores, or they lie row by row in the caller's memory.
enum class ScoreRoom { own, in_place };
inline ScoreRoom score_room(Index stride) { return stride == 1 ? ScoreRoom::in_place : ScoreRoom::own; }

/// Whether copies of queries and keys need room: not if the caller has rows of its own.
enum class RowRoom { own, none };

template <class A>
class TileWork {
 public:
  /// Throws std::bad_alloc; nothing below does.
  TileWork(const TermList<A>& terms, const Problem& problem, TileExtents most, ScoreRoom room,
           RowRoom q_room = RowRoom::own, RowRoom k_room = RowRoom::own)
      : most_(most),
        q_positions_(size(max_axes * most.rows)),
        k_positions_(size(max_axes * most.cols)),
        distance_(size(most.rows + most.cols)),
        diagonals_(size(most.rows + most.cols)),
        scores_(room == ScoreRoom::own ? size(most.rows * most.cols) : 0),
        q_(q_room == RowRoom::own ? size(most.rows * problem.dim) : 0),
        k_(k_room == RowRoom::own ? size(most.cols * problem.dim) : 0) {
    Index scratch = 0;
    for (const Term<A>& term : terms) {
      if (term.whole_rows) seen_.resize(size(most.rows * most.cols));
      if (term.scratch_size != nullptr) scratch = std::max(scratch, term.scratch_size(term.self, most.rows, most.cols));
    }
    scratch_.resize(size(scratch));
  }

  /// ScoreRoom::own
  A* scores() { return scores_.data(); }
  /// [rows, cols] for terms that look at whole rows
  char* seen() { return seen_.data(); }
  /// [rows, dim], [cols, dim]
  A* q_rows() { return q_.data(); }
  A* k_rows() { return k_.data(); }

  /// A tile with its positions; queries and keys are left to the caller.
  Tile<A> open(const Problem& problem, Index b, Index h, Index row, Index col) {
    Tile<A> tile{b, h, row, col};
    tile.rows = std::min(most_.rows, problem.q_len - row);
    tile.cols = std::min(most_.cols, problem.k_len - col);
    tile.stride = most_.cols;
    tile.q_positions = place_tokens(*problem.q_positions, b, row, tile.rows, most_.rows, q_positions_.data());
    tile.k_positions = place_tokens(*problem.k_positions, b, col, tile.cols, most_.cols, k_positions_.data());
    tile.consecutive = rise_by_one(tile.q_positions[0], tile.rows) && rise_by_one(tile.k_positions[0], tile.cols);
    tile.dim = problem.dim;
    tile.scratch = scratch_.data();
    return tile;
  }

  /// s += the term.
  void add(const Term<A>& term, const Tile<A>& tile, A* s) {
    if (term.add_scores != nullptr) return term.add_scores(term.self, tile, s);
    if (term.bias == nullptr) return;
    if (tile.consecutive) {
      term.bias(term.self, tile.head, diagonal_distances(tile), distance_.data(), diagonals_.data());
      return tiles::add_toeplitz(tile.rows, tile.cols, diagonals_.data(), s, tile.stride);
    }
    for (Index i = 0; i < tile.rows; ++i) {
      row_distances(tile, i);
      term.bias(term.self, tile.head, tile.cols, distance_.data(), diagonals_.data());
      tiles::add_toeplitz(1, tile.cols, diagonals_.data(), s + i * tile.stride, tile.stride);
    }
  }

  /// s = the sum of all terms; `stream`: past the caches, where that is possible.
  void write(const TermList<A>& terms, const Tile<A>& tile, A* s, bool stream) {
    const bool begun = terms.size > 0 && put(terms.terms[0], tile, s, stream && terms.size == 1);
    for (Index i = 0; !begun && i < tile.rows; ++i) std::fill_n(s + i * tile.stride, tile.cols, A{0});
    for (Index t = begun ? 1 : 0; t < terms.size; ++t) add(terms.terms[size(t)], tile, s);
  }

  /// The gradients of add().
  void add_grads(const Term<A>& term, const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) {
    if (term.add_score_grads != nullptr) return term.add_score_grads(term.self, tile, d_s, grads);
    if (term.bias_grads == nullptr || grads.params == nullptr) return;
    if (tile.consecutive) {
      const Index n = diagonal_distances(tile);
      std::fill_n(diagonals_.data(), n, A{0});
      tiles::sum_diagonals(tile.rows, tile.cols, d_s, tile.stride, diagonals_.data());
      return term.bias_grads(term.self, tile.head, n, distance_.data(), diagonals_.data(), grads.params);
    }
    for (Index i = 0; i < tile.rows; ++i) {
      row_distances(tile, i);
      term.bias_grads(term.self, tile.head, tile.cols, distance_.data(), d_s + i * tile.stride, grads.params);
    }
  }

 private:
  /// s = the term, where it can write, or is a bias by distance and the tile's positions are consecutive; else false.
  bool put(const Term<A>& term, Tile<A> tile, A* s, bool stream) {
    if (term.put_scores != nullptr) {
      tile.past_caches = stream;
      term.put_scores(term.self, tile, s);
      return true;
    }
    if (term.bias == nullptr || !tile.consecutive) return false;
    term.bias(term.self, tile.head, diagonal_distances(tile), distance_.data(), diagonals_.data());
    tiles::put_toeplitz(tile.rows, tile.cols, diagonals_.data(), s, tile.stride, stream);
    return true;
  }

  static std::size_t size(Index n) { return static_cast<std::size_t>(std::max<Index>(n, 0)); }

  /// The distances of a consecutive tile's diagonals, in order; returns how many there are.
  Index diagonal_distances(const Tile<A>& tile) {
    const double first = tile.k_positions[0][0] - tile.q_positions[0][0] - static_cast<double>(tile.rows - 1);
    const Index n = tile.rows + tile.cols - 1;
    for (Index i = 0; i < n; ++i) distance_[size(i)] = first + static_cast<double>(i);
    return n;
  }
  void row_distances(const Tile<A>& tile, Index i) {
    for (Index j = 0; j < tile.cols; ++j) distance_[size(j)] = tile.k_positions[0][j] - tile.q_positions[0][i];
  }

  TileExtents most_;
  std::vector<double> q_positions_, k_positions_, distance_;
  AlignedVector<A> diagonals_, scores_, q_, k_, scratch_;
  std::vector<char> seen_;
};

}  // namespace bearing
