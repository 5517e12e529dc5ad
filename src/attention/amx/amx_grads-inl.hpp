#pragma once

#include <algorithm>

#include "attention/amx/amx_tiles-inl.hpp"

// What the backward does in tiles and on their operands, over the policies of amx_tiles-inl.hpp.

namespace bearing::attend::amx {

template <class Tiles>
BEARING_TILE_CODE void multiply(const TileProduct& of) {
  Tiles tiles;
  for (Index row = 0; row < of.rows; row += 32) {
    Product p;
    p.a = of.a + row * of.a_stride, p.a_stride = of.a_stride;
    p.b = of.b, p.b_column = of.b_column, p.b_depth = of.b_depth;
    p.c = of.c + row * of.c_stride, p.c_stride = of.c_stride;
    p.groups = of.cols / 32, p.depth = of.depth / 32;
    p.add = of.add;
    while (advance(tiles, p)) continue;
  }
}

template <class Lanes>
BEARING_TILE_CODE void narrow(const Narrowing& of) {
  [[maybe_unused]] const typename Lanes::Environment environment;
  const auto scale = Lanes::all(of.scale);
  const Index tiles = of.cols / 16;
  for (Index i = 0; i < padded(of.rows); ++i) {
    if (i % 32 >= 16) continue;  // which goes with row i − 16
    const auto number = [&](Index row, Index j) BEARING_TILE_CODE {
      if (row >= of.rows) return Lanes::all(0);
      return Lanes::add_half_unless_nan(Lanes::multiply(Lanes::load(of.from + row * of.stride + j), scale));
    };
    for (Index j = 0; j < of.cols; j += 32) {
      const auto a = number(i, j), b = number(i, j + 16), c = number(i + 16, j), d = number(i + 16, j + 16);
      if (of.by_row != nullptr) {
        Bfloat16* to = of.by_row + i * of.cols + j;
        Lanes::store(to, Lanes::pairs(a, b));
        Lanes::store(to + 16 * of.cols, Lanes::pairs(c, d));
      }
      Bfloat16* to = of.by_pair + ((i / 32 * tiles + j / 16) * 16 + i % 32) * 32;
      Lanes::store(to, Lanes::pairs(a, c));
      Lanes::store(to + tile_size, Lanes::pairs(b, d));
    }
  }
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
