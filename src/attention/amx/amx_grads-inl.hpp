#pragma once

#include <algorithm>

#include "attention/amx/amx_pieces-inl.hpp"
#include "attention/amx/amx_tiles-inl.hpp"

// What the backward does in tiles and on their operands, over the policies of amx_tiles-inl.hpp.

namespace bearing::attend::amx {

template <int pieces, class Tiles>
BEARING_TILE_CODE inline void multiply_in(const TileProduct& of) {
  Tiles tiles;
  for (Index row = 0; row < of.rows; row += 32) {
    Product p;
    p.a = of.a + row * of.a_stride * pieces, p.a_stride = of.a_stride * pieces;
    p.b = of.b, p.b_column = of.b_column * pieces, p.b_depth = of.b_depth * pieces;
    p.c = of.c + row * of.c_stride, p.c_stride = of.c_stride;
    p.groups = of.cols / 32, p.depth = of.depth / 32;
    p.add = of.add;
    while (advance<pieces>(tiles, p)) continue;
  }
}

template <class Tiles>
BEARING_TILE_CODE void multiply(const TileProduct& of) {
  of.pieces == 1 ? multiply_in<1, Tiles>(of) : multiply_in<float_pieces, Tiles>(of);
}

/// Sixteen numbers rounded to bfloat16, each in the upper half of its lane, as Pieces has them.
template <class Lanes>
struct Rounded {
  typename Lanes::Floats of;

  BEARING_TILE_CODE explicit Rounded(typename Lanes::Floats x) : of(Lanes::add_half_unless_nan(x)) {}
};

template <class Lanes>
BEARING_TILE_CODE inline void store_pairs(const Rounded<Lanes>& low, const Rounded<Lanes>& high, float* to, Index) {
  Lanes::store(to, Lanes::pairs(low.of, high.of));
}

/// Number: Rounded or Pieces.
template <int pieces, class Number, class Lanes>
BEARING_TILE_CODE inline void narrow_in(const Narrowing& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  const auto scale = Lanes::all(of.scale);
  const Index tiles = of.cols / 16;
  auto *by_row = reinterpret_cast<float*>(of.by_row), *by_pair = reinterpret_cast<float*>(of.by_pair);
  for (Index i = 0; i < padded(of.rows); ++i) {
    if (i % 32 >= 16) continue;  // which goes with row i − 16
    const auto number = [&](Index row, Index j) BEARING_TILE_CODE {
      if (row >= of.rows) return Number(Lanes::all(0));
      return Number(Lanes::multiply(Lanes::load(of.from + row * of.stride + j), scale));
    };
    for (Index j = 0; j < of.cols; j += 32) {
      const auto a = number(i, j), b = number(i, j + 16), c = number(i + 16, j), d = number(i + 16, j + 16);
      if (by_row != nullptr) {
        float* to = by_row + (i * of.cols + j) / 2 * pieces;
        store_pairs(a, b, to, 16);
        store_pairs(c, d, to + 8 * of.cols * pieces, 16);
      }
      float* to = by_pair + (i / 32 * tiles + j / 16) * (256 * pieces) + i % 32 * 16;
      store_pairs(a, c, to, 256);
      store_pairs(b, d, to + 256 * pieces, 256);
    }
  }
}

template <class Lanes>
BEARING_TILE_CODE void narrow(const Narrowing& of) {
  of.pieces == 1 ? narrow_in<1, Rounded<Lanes>, Lanes>(of) : narrow_in<float_pieces, Pieces<Lanes>, Lanes>(of);
}

template <class Lanes>
BEARING_TILE_CODE void scale(Index rows, Index cols, float factor, float* x, Index stride) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  const auto by = Lanes::all(factor);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; j += 16) {
      Lanes::store(x + i * stride + j, Lanes::multiply(Lanes::load(x + i * stride + j), by));
    }
  }
}

}  // namespace bearing::attend::amx
