#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "attention/amx/amx_kernels.hpp"
#include "attention/softmax/softmax_kernels.hpp"

// The block kernel, over two policies. Tiles: sums of 32 × 32 products that stay in place while products are added,
//
//     zero()   load(c, stride)   store(c, stride)   multiply(a, a_stride, b, b_stride)
//
// Lanes: vectors of sixteen floats (see PlainLanes in amx_emulated.hpp).
//
// Tile products run beside vector code, so both are in flight at once: while the weights of a block are computed row by
// row, the values' product of the block before and the scores of the one after are issued between the rows. Two buffers
// of scores take turns, and weights take the place of their scores.
//
// The file that includes this one says in BEARING_TILE_CODE for which machine its functions are.

namespace bearing::attend::amx {

/// Thirty-two rows, and the columns of one block.
struct Item {
  Index row = 0, first = 0, cols = 0;
};

/// All items that hold something to see, in an order that keeps some columns in cache for all rows.
class Walk {
 public:
  explicit Walk(const Block& block) : block_(block), chunk_(block.first / chunk_cols * chunk_cols) { open(); }

  bool next(Item& item) {
    while (at_ >= strip_end_) {
      row_ += strip_rows;
      if (row_ >= block_.rows) row_ = 0, chunk_ += chunk_cols;
      if (chunk_ >= block_.end || block_.rows <= 0) return false;
      open();
    }
    const Index end = std::min(strip_end_, (at_ / block_cols + 1) * block_cols);
    item = {row_, at_, end - at_};
    at_ = end;
    return true;
  }

 private:
  static constexpr Index chunk_cols = 4 * block_cols;  // keys and values of 256 KiB at 128 features

  void open() {
    Index first = std::numeric_limits<Index>::max(), end = 0;
    for (Index i = row_; i < std::min(block_.rows, row_ + strip_rows); ++i) {
      if (block_.row_first[i] >= block_.row_end[i]) continue;
      first = std::min(first, block_.row_first[i]);
      end = std::max(end, block_.row_end[i]);
    }
    at_ = std::max({first, chunk_, block_.first}) / 32 * 32;
    strip_end_ = padded(std::min({end, chunk_ + chunk_cols, block_.end}));
  }

  const Block& block_;
  Index chunk_, row_ = 0, at_ = 0, strip_end_ = 0;
};

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

inline constexpr Index tile_size = 16 * 32;  // bfloat16 numbers of a tile

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

/// 2^x for x ≤ 0 or little above; 0 below least_exponent. The polynomial, of least relative error on [−½, ½], is off
/// by 7.5e-5 of the result, a twenty-sixth of what rounding to bfloat16 may add.
template <class Lanes>
BEARING_TILE_CODE inline typename Lanes::Floats power_of_two(typename Lanes::Floats x) {
  const auto magic = Lanes::all(0x1.8p23f);  // pushes what follows the point out
  const auto shifted = Lanes::add(x, magic);
  const auto f = Lanes::subtract(x, Lanes::subtract(shifted, magic));
  auto p = Lanes::multiply_add(Lanes::all(0x1.c3f76p-5f), f, Lanes::all(0x1.f0de1ap-3f));
  p = Lanes::multiply_add(p, f, Lanes::all(0x1.62f31ap-1f));
  p = Lanes::multiply_add(p, f, Lanes::all(0x1.fff692p-1f));
  return Lanes::raise_unless_less(x, Lanes::all(least_exponent<float>), p, shifted);
}

/// One row of scores, which becomes its weights.
struct WeightRow {
  float* s = nullptr;
  Index cols = 0;
  Index first = 0, end = 0;     ///< columns that it sees
  const float* bias = nullptr;  ///< of column 0
  float scale = 1;
  float *max = nullptr, *sum = nullptr, *rounded_sum = nullptr;
};

/// One bit for each of sixteen columns from j on that lies in [first, end).
inline std::uint16_t visible(Index first, Index end, Index j) {
  const auto below = [j](Index n) { return (1u << std::clamp<Index>(n - j, 0, 16)) - 1u; };
  return static_cast<std::uint16_t>(below(end) & ~below(first));
}

template <class Lanes>
BEARING_TILE_CODE inline void hide_row(float* s, Index cols) {
  for (Index j = 0; j < cols / 2; j += 16) Lanes::store(s + j, Lanes::all(0));
}

/// What a score becomes before its maximum is taken; without bias and hidden columns it stays as it is.
template <class Lanes, bool biased, bool edges>
BEARING_TILE_CODE inline typename Lanes::Floats score(const WeightRow& row, Index j) {
  auto s = Lanes::load(row.s + j);
  if constexpr (biased || edges) {
    const std::uint16_t seen = edges ? visible(row.first, row.end, j) : std::uint16_t{0xFFFF};
    const auto bias = !biased ? Lanes::all(0) : edges ? Lanes::load(seen, row.bias + j) : Lanes::load(row.bias + j);
    s = Lanes::multiply_add(s, Lanes::all(row.scale), bias);
    if constexpr (edges) s = Lanes::where(seen, s, Lanes::all(-std::numeric_limits<float>::infinity()));
    Lanes::store(row.s + j, s);
  }
  return s;
}

/// 2^(score − max); `stored`: score() left it in place.
template <class Lanes, bool stored>
BEARING_TILE_CODE inline typename Lanes::Floats weight(const WeightRow& row, Index j, float max) {
  const auto s = Lanes::load(row.s + j), minus_max = Lanes::all(-max);
  return power_of_two<Lanes>(stored ? Lanes::add(s, minus_max)
                                    : Lanes::multiply_add(s, Lanes::all(row.scale), minus_max));
}

/// Some rows side by side, whose chains of maxima and sums do not wait for each other. Their sums so far must be
/// multiplied by `rescale`.
template <class Lanes, bool biased, bool edges, std::size_t rows>
BEARING_TILE_CODE inline void weigh_rows(const WeightRow* row, float* rescale) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr bool stored = biased || edges;
  using Floats = typename Lanes::Floats;
  const Index cols = row[0].cols;
  Floats top[rows], other_top[rows];
  for (std::size_t r = 0; r < rows; ++r) top[r] = other_top[r] = Lanes::all(-infinity);
  for (Index j = 0; j < cols; j += 32) {
    for (std::size_t r = 0; r < rows; ++r) {
      top[r] = Lanes::max(top[r], score<Lanes, biased, edges>(row[r], j));
      other_top[r] = Lanes::max(other_top[r], score<Lanes, biased, edges>(row[r], j + 16));
    }
  }
  float max[rows], down[rows];
  bool seen[rows];
  for (std::size_t r = 0; r < rows; ++r) {
    const float highest = Lanes::max_of(Lanes::max(top[r], other_top[r])) * (stored ? 1 : row[r].scale);
    const float old = *row[r].max;
    seen[r] = !(old == -infinity && highest == -infinity);     // a NaN counts as seen
    max[r] = seen[r] ? std::max(old, std::ceil(highest)) : 0;  // what is hidden has weights 0 for any maximum
    down[r] = old - max[r];
  }
  Floats sum[rows], rounded_sum[rows];
  for (std::size_t r = 0; r < rows; ++r) sum[r] = rounded_sum[r] = Lanes::all(0);
  for (Index j = 0; j < cols; j += 32) {
    for (std::size_t r = 0; r < rows; ++r) {
      const auto low = weight<Lanes, stored>(row[r], j, max[r]), high = weight<Lanes, stored>(row[r], j + 16, max[r]);
      sum[r] = Lanes::add(sum[r], Lanes::add(low, high));
      rounded_sum[r] = Lanes::narrow(row[r].s + j / 2, low, high, rounded_sum[r]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    if (!seen[r]) {
      rescale[r] = 1;
      continue;
    }
    // A power of two, and 0 below what weights can be.
    rescale[r] =
        down[r] >= least_exponent<float> ? std::bit_cast<float>((127 + static_cast<std::int32_t>(down[r])) << 23) : 0;
    *row[r].max = max[r];
    *row[r].sum = *row[r].sum * rescale[r] + Lanes::sum_of(sum[r]);
    *row[r].rounded_sum = *row[r].rounded_sum * rescale[r] + Lanes::sum_of(rounded_sum[r]);
  }
}

template <class Lanes, std::size_t rows>
BEARING_TILE_CODE inline void weigh_rows(const WeightRow* row, bool biased, bool edges, float* rescale) {
  if (edges)
    return biased ? weigh_rows<Lanes, true, true, rows>(row, rescale)
                  : weigh_rows<Lanes, false, true, rows>(row, rescale);
  return biased ? weigh_rows<Lanes, true, false, rows>(row, rescale)
                : weigh_rows<Lanes, false, false, rows>(row, rescale);
}

/// Row i of an item; it sees nothing where it is hidden altogether or past the last query.
inline WeightRow weight_row(const Block& block, const Item& item, Index i, float* s) {
  const Index row = item.row + i;
  if (row >= block.rows) return {.s = s, .cols = item.cols};
  const Index first = std::max(block.row_first[row], block.first) - item.first;
  const Index end = std::min(block.row_end[row], block.end) - item.first;
  if (first >= std::min(end, item.cols) || end <= 0) return {.s = s, .cols = item.cols};
  return {s,
          item.cols,
          first,
          end,
          block.bias == nullptr ? nullptr : block.bias + (item.first - row),
          block.scale,
          block.max + row,
          block.sum + row,
          block.rounded_sum + row};
}

/// Rows i and i + 1 of an item, whose scores lie one stride apart.
template <class Lanes>
BEARING_TILE_CODE inline void weigh_pair(const Block& block, const Item& item, Index i, float* s, float* rescale) {
  const WeightRow row[2] = {weight_row(block, item, i, s), weight_row(block, item, i + 1, s + scores_stride)};
  const auto sees = [](const WeightRow& r) { return r.max != nullptr; };
  const auto whole = [](const WeightRow& r) { return r.first <= 0 && r.end >= r.cols; };
  const bool biased = block.bias != nullptr;
  if (sees(row[0]) && sees(row[1])) {
    return weigh_rows<Lanes, 2>(row, biased, !(whole(row[0]) && whole(row[1])), rescale);
  }
  for (Index r = 0; r < 2; ++r) {
    if (sees(row[r])) {
      weigh_rows<Lanes, 1>(row + r, biased, !whole(row[r]), rescale + r);
    } else {
      hide_row<Lanes>(row[r].s, item.cols);
      rescale[r] = 1;
    }
  }
}

inline Product scores_product(const Block& block, const Item& item, float* s) {
  Product p;
  p.a = block.q + item.row * block.dim;
  p.a_stride = block.dim;
  p.b = block.keys + packed_at(item.first, block.dim);
  p.b_column = block.dim / 32 * tile_size;
  p.b_depth = tile_size;
  p.c = s;
  p.c_stride = scores_stride;
  p.groups = item.cols / 32;
  p.depth = block.dim / 32;
  return p;
}

inline Product values_product(const Block& block, const Item& item, const float* weights) {
  Product p;
  p.a = weights;
  p.a_stride = 2 * scores_stride;
  p.b = block.values + packed_at(item.first, block.value_dim);
  p.b_column = tile_size;
  p.b_depth = block.value_dim / 16 * tile_size;
  p.c = block.out + item.row * block.value_dim;
  p.c_stride = block.value_dim;
  p.groups = block.value_dim / 32;
  p.depth = item.cols / 32;
  p.add = true;
  return p;
}

/// The weights of an item, with `before` and then `after` issued between its rows.
template <class Tiles, class Lanes>
BEARING_TILE_CODE inline void weigh(Tiles& tiles, const Block& block, const Item& item, float* s, Product& before,
                                    Product& after) {
  std::array<float, strip_rows> rescale;
  const Index steps = before.steps() + after.steps();
  for (Index i = 0, done = 0; i < strip_rows; i += 2) {
    for (; done * strip_rows < (i + 2) * steps; ++done) advance(tiles, before) || advance(tiles, after);
    weigh_pair<Lanes>(block, item, i, s + i * scores_stride, rescale.data() + i);
  }
  for (Index i = 0; i < strip_rows; ++i) {
    const float factor = rescale[static_cast<std::size_t>(i)];
    if (factor == 1) continue;
    float* out = block.out + (item.row + i) * block.value_dim;
    for (Index d = 0; d < block.value_dim; d += 16) {
      Lanes::store(out + d, Lanes::multiply(Lanes::load(out + d), Lanes::all(factor)));
    }
  }
}

template <class Tiles, class Lanes>
BEARING_TILE_CODE void attend(const Block& block) {
  Walk walk(block);
  Item item, next;
  if (!walk.next(item)) return;
  Tiles tiles;
  float *s = block.scratch, *other = s + strip_rows * scores_stride;
  Product before, after = scores_product(block, item, s);
  while (advance(tiles, after)) continue;
  for (bool more = true; more; std::swap(s, other), item = next) {
    more = walk.next(next);
    after = more ? scores_product(block, next, other) : Product();
    weigh<Tiles, Lanes>(tiles, block, item, s, before, after);
    before = values_product(block, item, s);
  }
  while (advance(tiles, before)) continue;
}

}  // namespace bearing::attend::amx
