#pragma once

#include <algorithm>

#include "attention/amx/amx_tiles-inl.hpp"

// A float as the sum of three numbers of bfloat16: the nearest to it, the nearest to the rest, and the rest. 24 bits
// are three times eight, so nothing is lost, except what lies below the normal range. A product of two floats is six
// products of pieces then; the three that are left out are below 2^-26 of it.
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

/// to [padded(rows), dim / 32, pieces, 16, 2]
template <class Lanes>
BEARING_TILE_CODE void split_queries(const Splitting& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  auto* to = reinterpret_cast<float*>(of.to);
  for (Index i = 0; i < padded(of.rows); ++i) {
    const float* from = of.from + i * of.stride;
    for (Index d = 0; d < of.dim; d += 32, to += 16 * float_pieces) {
      const auto number = [&](Index at) BEARING_TILE_CODE {
        return Pieces<Lanes>(i < of.rows ? Lanes::load(from + at) : Lanes::all(0));
      };
      store_pairs<Lanes>(number(d), number(d + 16), to, 16);
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
        const float* from = of.from + (first + j) * of.stride + d;
        const auto number = [&](Index at) BEARING_TILE_CODE {
          return Pieces<Lanes>(first + j < of.rows ? Lanes::load(from + at) : Lanes::all(0));
        };
        store_pairs<Lanes>(number(0), number(16), turned[0][j], 256);
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
    for (Index d = 0; d < of.dim; d += 16, to += 256 * float_pieces) {
      for (Index pair = 0; pair < 16; ++pair) {
        const auto number = [&](Index j) BEARING_TILE_CODE {
          return Pieces<Lanes>(j < of.rows ? Lanes::load(of.from + j * of.stride + d) : Lanes::all(0));
        };
        store_pairs<Lanes>(number(first + pair), number(first + 16 + pair), to + 16 * pair, 256);
      }
    }
  }
}

/// to [dim, padded(rows) / 32, pieces, 16, 2]
template <class Lanes>
BEARING_TILE_CODE void split_turned(const Splitting& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  const Index stride = padded(of.rows) / 2 * float_pieces;  // of pairs
  alignas(64) float turned[float_pieces][16][16];
  for (Index first = 0; first < padded(of.rows); first += 32) {
    for (Index d = 0; d < of.dim; d += 16) {
      for (Index pair = 0; pair < 16; ++pair) {
        const auto number = [&](Index i) BEARING_TILE_CODE {
          return Pieces<Lanes>(i < of.rows ? Lanes::load(of.from + i * of.stride + d) : Lanes::all(0));
        };
        store_pairs<Lanes>(number(first + pair), number(first + 16 + pair), turned[0][pair], 256);
      }
      float* to = reinterpret_cast<float*>(of.to) + d * stride + first / 2 * float_pieces;
      for (int piece = 0; piece < float_pieces; ++piece) Lanes::transpose(turned[piece], to + 16 * piece, stride);
    }
  }
}

}  // namespace bearing::attend::amx
