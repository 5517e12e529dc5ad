#pragma once

#include <cstdint>

#include "attention/amx/amx_kernels.hpp"

// Products of matrices in tiles. All that is done with tiles is written over two policies. Tiles: sums of 32 × 32
// products that stay in place while products are added,
//
//     zero()   load(c, stride)   store(c, stride)   multiply(a, a_stride, b, b_column)
//
// Lanes: vectors of sixteen floats (see PlainLanes in amx_emulated.hpp).
//
// The file that includes this one says in BEARING_TILE_CODE for which machine its functions are.

namespace bearing::attend::amx {

/// c [32, 32 groups] (+)= a [32, 32 depth] · b, one step of 32 in depth at a time.
struct Product {
  const void* a = nullptr;
  Index a_stride = 0;
  const Bfloat16* b = nullptr;
  Index b_column = 0, b_depth = 0;  ///< from tile to tile
  float* c = nullptr;
  Index c_stride = 0;
  Index groups = 0, depth = 0;
  bool add = false;
  Index group = 0, step = 0;  ///< where it stands

  Index steps() const { return groups * depth; }
};

/// The next step; false when there is none.
template <class Tiles>
BEARING_TILE_CODE inline bool advance(Tiles& tiles, Product& p) {
  if (p.group == p.groups) return false;
  float* c = p.c + p.group * 32;
  if (p.step == 0) p.add ? tiles.load(c, p.c_stride) : tiles.zero();
  tiles.multiply(static_cast<const std::uint16_t*>(p.a) + p.step * 32, p.a_stride,
                 p.b + 2 * p.group * p.b_column + p.step * p.b_depth, p.b_column);
  if (++p.step < p.depth) return true;
  tiles.store(c, p.c_stride);
  p.step = 0;
  ++p.group;
  return true;
}

}  // namespace bearing::attend::amx
