#pragma once

#include <algorithm>

#include "attention/amx/amx_tiles-inl.hpp"

// A float as the sum of three numbers of bfloat16: the nearest to it, the nearest to the rest, and the rest. 24 bits
// are three times eight, so nothing is lost, except what lies below the normal range. A product of two floats is six
// products of pieces then. The three that are left out are below 2^-24 of it together, as much as one rounding of float
// may be.
//
// Over the Lanes of amx_tiles-inl.hpp.

namespace bearing::attend::amx {

/// The pieces of sixteen numbers, each in the upper half of its lane. In the lower half is what pairs() leaves out.
template <class Lanes>
struct Pieces {
  typename Lanes::Floats of[float_pieces];

  /// add_half: of Lanes, which rounds.
  template <class F>
  BEARING_TILE_CODE Pieces(typename Lanes::Floats x, const F& add_half) {
#pragma GCC unroll 2
    for (int piece = 0; piece < float_pieces - 1; ++piece) {
      of[piece] = add_half(x);
      x = Lanes::subtract(x, Lanes::cut(of[piece]));
    }
    of[float_pieces - 1] = x;
  }
  /// Of any numbers.
  BEARING_TILE_CODE explicit Pieces(typename Lanes::Floats x)
      : Pieces(x, [](auto y) BEARING_TILE_CODE { return Lanes::add_half_in_range(y); }) {}
};

/// Both numbers of a lane side by side; a piece is `step` floats after the one before.
template <class Lanes>
BEARING_TILE_CODE inline void store_pairs(const Pieces<Lanes>& low, const Pieces<Lanes>& high, float* to, Index step) {
#pragma GCC unroll 3
  for (int piece = 0; piece < float_pieces; ++piece) {
    Lanes::store(to + piece * step, Lanes::pairs(low.of[piece], high.of[piece]));
  }
}

/// Sixteen numbers of row i from feature d on; zeros where there is no row.
template <class Lanes>
BEARING_TILE_CODE inline Pieces<Lanes> pieces_at(const Splitting& of, Index i, Index d) {
  return Pieces<Lanes>(i < of.rows ? Lanes::load(of.from + i * of.stride + d) : Lanes::all(0));
}

/// to [pieces, 16, 16, 2]: sixteen features from d on of 32 rows from `first` on, rows i and i + 16 side by side.
template <class Lanes>
BEARING_TILE_CODE inline void split_row_pairs(const Splitting& of, Index first, Index d, float* to) {
  for (Index pair = 0; pair < 16; ++pair) {
    store_pairs(pieces_at<Lanes>(of, first + pair, d), pieces_at<Lanes>(of, first + 16 + pair, d), to + 16 * pair, 256);
  }
}

/// to [padded(rows), dim / 32, pieces, 16, 2]
template <class Lanes>
BEARING_TILE_CODE void split_queries(const Splitting& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  auto* to = reinterpret_cast<float*>(of.to);
  for (Index i = 0; i < padded(of.rows); ++i) {
    for (Index d = 0; d < of.dim; d += 32, to += 16 * float_pieces) {
      store_pairs(pieces_at<Lanes>(of, i, d), pieces_at<Lanes>(of, i, d + 16), to, 16);
    }
  }
}

/// to [padded(rows) / 16, dim / 32, pieces, 16, 16, 2]
template <class Lanes>
BEARING_TILE_CODE void split_keys(const Splitting& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  auto* to = reinterpret_cast<float*>(of.to);
  alignas(64) float turned[float_pieces][16][16];
  for (Index first = 0; first < padded(of.rows); first += 16) {
    for (Index d = 0; d < of.dim; d += 32) {
      for (Index j = 0; j < 16; ++j) {
        store_pairs(pieces_at<Lanes>(of, first + j, d), pieces_at<Lanes>(of, first + j, d + 16), turned[0][j], 256);
      }
      for (int piece = 0; piece < float_pieces; ++piece, to += 256) Lanes::transpose(turned[piece], to, 16);
    }
  }
}

/// to [padded(rows) / 32, dim / 16, pieces, 16, 16, 2]
template <class Lanes>
BEARING_TILE_CODE void split_values(const Splitting& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  auto* to = reinterpret_cast<float*>(of.to);
  for (Index first = 0; first < padded(of.rows); first += 32) {
    for (Index d = 0; d < of.dim; d += 16, to += 256 * float_pieces) split_row_pairs<Lanes>(of, first, d, to);
  }
}

/// to [dim, padded(rows) / 32, pieces, 16, 2]
template <class Lanes>
BEARING_TILE_CODE void split_turned(const Splitting& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  const Index stride = padded(of.rows) / 2 * float_pieces;  // of pairs
  alignas(64) float pairs[float_pieces][16][16];
  for (Index first = 0; first < padded(of.rows); first += 32) {
    for (Index d = 0; d < of.dim; d += 16) {
      split_row_pairs<Lanes>(of, first, d, pairs[0][0]);
      float* to = reinterpret_cast<float*>(of.to) + d * stride + first / 2 * float_pieces;
      for (int piece = 0; piece < float_pieces; ++piece) Lanes::transpose(pairs[piece], to + 16 * piece, stride);
    }
  }
}

}  // namespace bearing::attend::amx
