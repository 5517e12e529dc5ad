#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "attention/amx/amx_kernels.hpp"

// Products of matrices in tiles. All that is done with tiles is written over two policies. Tiles: sums of 32 × 32
// products that stay in place while products are added, and a register for each half of the rows and of the columns,
//
//     zero()   load(c, stride)   store(c, stride)   row<half>(a, stride)   column<half>(b)   multiply<row, column>()
//
// Lanes: vectors of sixteen floats (see PlainLanes in amx_emulated.hpp).
//
// The file that includes this one says in BEARING_TILE_CODE for which machine its functions are.

namespace bearing::attend::amx {

/// Which pieces of a and b are multiplied.
struct Pair {
  int a, b;
};
template <int pieces>
struct Pairs;
template <>
struct Pairs<1> {
  static constexpr Pair order[] = {{0, 0}};
};
/// The largest product last. In this order columns are loaded once, and rows little more.
template <>
struct Pairs<float_pieces> {
  static constexpr Pair order[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
};

/// c [32, 32 groups] (+)= a [32, 32 depth] · b, a pair of pieces of 32 in depth at a time.
struct Product {
  const void* a = nullptr;  ///< rows of 32 numbers, their first pieces, second and so on, and the next 32
  Index a_stride = 0;
  const Bfloat16* b = nullptr;      ///< a tile of first pieces, one of second and so on
  Index b_column = 0, b_depth = 0;  ///< from number to number
  float* c = nullptr;
  Index c_stride = 0, c_step = 32;  ///< from row to row, and from group to group
  Index groups = 0, depth = 0;
  bool add = false;
  Index group = 0, step = 0;  ///< where it stands
  int pair = 0;
  bool held = false;  ///< what is multiplied next is in its registers

  template <int pieces>
  Index steps() const {
    return groups * depth * std::ssize(Pairs<pieces>::order);
  }
};

/// Where the operands of a step lie.
template <int pieces>
struct Operands {
  const std::uint16_t* a;
  const Bfloat16* b;

  Operands(const Product& p, Index group, Index step)
      : a(static_cast<const std::uint16_t*>(p.a) + step * (32 * pieces)),
        b(p.b + 2 * group * p.b_column + step * p.b_depth) {}
};

/// Multiplies a pair and loads what the next one takes. A load waits for the last product that reads its register, so
/// it stands right behind that product, in the middle of the others.
template <int pieces, int index, class Tiles>
BEARING_TILE_CODE inline void multiply_pair(Tiles& tiles, const Product& p, const Operands<pieces>& at,
                                            const Operands<pieces>& next) {
  constexpr int count = static_cast<int>(std::size(Pairs<pieces>::order)), following = (index + 1) % count;
  constexpr Pair pair = Pairs<pieces>::order[index], then = Pairs<pieces>::order[following];
  static_assert(following == 0 || pair.a == then.a || pair.b == then.b);
  const Operands<pieces>& from = following == 0 ? next : at;
  const std::uint16_t* a = from.a + 32 * then.a;
  const Bfloat16* b = from.b + tile_size * then.b;
  if (!p.held) {
    tiles.template column<0>(at.b + tile_size * pair.b);
    tiles.template row<0>(at.a + 32 * pair.a, p.a_stride);
  }
  tiles.template multiply<0, 0>();
  if (!p.held) {
    tiles.template row<1>(at.a + 32 * pair.a, p.a_stride);
    tiles.template column<1>(at.b + tile_size * pair.b + p.b_column);
  }
  if constexpr (following != 0 && pair.b == then.b) {
    tiles.template multiply<0, 1>();
    tiles.template row<0>(a, p.a_stride);
    tiles.template multiply<1, 0>();
    tiles.template multiply<1, 1>();
    tiles.template row<1>(a, p.a_stride);
  } else {
    tiles.template multiply<1, 0>();
    tiles.template column<0>(b);
    tiles.template multiply<0, 1>();
    if constexpr (following == 0) tiles.template row<0>(a, p.a_stride);
    tiles.template multiply<1, 1>();
    if constexpr (following == 0) tiles.template row<1>(a, p.a_stride);
    tiles.template column<1>(b + p.b_column);
  }
}

/// The next pair; false when there is none.
template <int pieces, class Tiles>
BEARING_TILE_CODE inline bool advance(Tiles& tiles, Product& p) {
  if (p.group == p.groups) return false;
  float* c = p.c + p.group * p.c_step;
  if (p.step == 0 && p.pair == 0) p.add ? tiles.load(c, p.c_stride) : tiles.zero();
  const Operands<pieces> at(p, p.group, p.step);
  if constexpr (pieces == 1) {
    tiles.template column<0>(at.b);
    tiles.template row<0>(at.a, p.a_stride);
    tiles.template multiply<0, 0>();
    tiles.template row<1>(at.a, p.a_stride);
    tiles.template multiply<1, 0>();
    tiles.template column<1>(at.b + p.b_column);
    tiles.template multiply<0, 1>();
    tiles.template multiply<1, 1>();
  } else {
    const bool last = p.step + 1 == p.depth;
    const Operands<pieces> next(p, std::min(last ? p.group + 1 : p.group, p.groups - 1), last ? 0 : p.step + 1);
    switch (p.pair) {
      case 0:
        multiply_pair<pieces, 0>(tiles, p, at, next);
        break;
      case 1:
        multiply_pair<pieces, 1>(tiles, p, at, next);
        break;
      case 2:
        multiply_pair<pieces, 2>(tiles, p, at, next);
        break;
      case 3:
        multiply_pair<pieces, 3>(tiles, p, at, next);
        break;
      case 4:
        multiply_pair<pieces, 4>(tiles, p, at, next);
        break;
      default:
        multiply_pair<pieces, 5>(tiles, p, at, next);
    }
    p.held = true;
    if (++p.pair < std::ssize(Pairs<pieces>::order)) return true;
    p.pair = 0;
  }
  if (++p.step < p.depth) return true;
  tiles.store(c, p.c_stride);
  p.step = 0;
  ++p.group;
  return true;
}

}  // namespace bearing::attend::amx
