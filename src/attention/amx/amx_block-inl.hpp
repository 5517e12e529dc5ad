#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

#include "attention/amx/amx_pieces-inl.hpp"
#include "attention/amx/amx_tiles-inl.hpp"
#include "attention/shared/visibility.hpp"

// The block kernel, over the policies of amx_tiles-inl.hpp.
//
// Tile products run beside vector code, so both are in flight at once: while the weights of a block are computed row by
// row, the values' product of the block before and the scores of the one after are issued between the rows. Two buffers
// of scores take turns, and weights take the place of their scores. A processor with AMX does vector operations on one
// port in place of two while a product of tiles waits, so the products go to the first half of the rows. In pieces they
// take longer than all that vectors do: they go to all rows, and a quarter of them to the search for the largest
// scores.

namespace bearing::attend::amx {

/// A strip of rows, and the columns of one block.
struct Item {
  Index row = 0, first = 0, cols = 0;
};

/// All items that hold something to see, in an order that keeps some columns in cache for all rows.
class Walk {
 public:
  explicit Walk(const Block& block)
      : block_(block), cols_(block_cols(block.pieces)), chunk_(block.first / chunk_cols * chunk_cols) {
    open();
  }

  bool next(Item& item) {
    while (at_ >= strip_end_) {
      row_ += strip_rows;
      if (row_ >= block_.rows) row_ = 0, chunk_ += chunk_cols;
      if (chunk_ >= block_.end || block_.rows <= 0) return false;
      open();
    }
    const Index end = std::min(strip_end_, (at_ / cols_ + 1) * cols_);
    item = {row_, at_, end - at_};
    at_ = end;
    return true;
  }

 private:
  static constexpr Index chunk_cols =
      512;  // at 128 features 256 KiB of keys and values, in pieces 768: of a second cache of 2 MiB

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
  Index cols_, chunk_, row_ = 0, at_ = 0, strip_end_ = 0;
};

/// Polynomials for 2^f of least relative error on [0, 1]: off by 7.5e-5 of the result, a fiftieth of what rounding to
/// bfloat16 may add; and, among those that give 1 for 0, by 8.3e-8.
template <int pieces>
struct Power;
template <>
struct Power<1> {
  static constexpr float factors[] = {0x1.fff632p-1f, 0x1.64444cp-1f, 0x1.cefc4cp-3f, 0x1.3f96a4p-4f};
};
template <>
struct Power<float_pieces> {
  static constexpr float factors[] = {1, 0x1.62e4bap-1f, 0x1.ebdb56p-3f, 0x1.c91cf8p-5f, 0x1.277806p-7f, 0x1.e976p-10f};
};

/// 2^x for x ≤ 0 or little above.
template <class Lanes, int pieces>
BEARING_TILE_CODE inline typename Lanes::Floats power_of_two(typename Lanes::Floats x) {
  constexpr auto& factors = Power<pieces>::factors;
  const auto f = Lanes::fraction(x);
  auto p = Lanes::all(factors[std::size(factors) - 1]);
#pragma GCC unroll 8
  for (std::size_t i = std::size(factors) - 1; i > 0; --i) p = Lanes::multiply_add(p, f, Lanes::all(factors[i - 1]));
  return Lanes::scale(p, x);
}

/// (2^f − 1) / f of least relative error on [0, 1], 2.6e-8.
inline constexpr float growth[] = {0x1.62e43p-1f,  0x1.ebfc34p-3f, 0x1.c6a0bcp-5f,
                                   0x1.3c3b86p-7f, 0x1.4d2fcp-10f, 0x1.b310f8p-13f};

/// tanh |x| = e / (e + 2), e = exp(2|x|) − 1, in which nothing cancels near 0. From 2^40 on for e + 1 it is 1.
template <class Lanes>
BEARING_TILE_CODE inline typename Lanes::Floats tanh(typename Lanes::Floats x) {
  const auto one = Lanes::all(1);
  const auto y =
      Lanes::min(Lanes::all(40), Lanes::multiply(Lanes::abs(x), Lanes::all(2 * std::numbers::log2e_v<float>)));
  const auto f = Lanes::fraction(y), power = Lanes::scale(one, y);
  auto p = Lanes::all(growth[std::size(growth) - 1]);
#pragma GCC unroll 8
  for (std::size_t i = std::size(growth) - 1; i > 0; --i) p = Lanes::multiply_add(p, f, Lanes::all(growth[i - 1]));
  const auto e = Lanes::multiply_add(power, Lanes::multiply(f, p), Lanes::subtract(power, one));
  return Lanes::with_sign(Lanes::divide(e, Lanes::add(e, Lanes::all(2))), x);
}

/// Scores of a strip, which become its weights: row by row the largest, then what each row's weights are taken against,
/// then row by row the weights.
struct Strip {
  const Block& block;
  const Item& item;
  float* s;
  bool edges;  ///< some row does not see all columns

  Strip(const Block& of, const Item& at, float* scores) : block(of), item(at), s(scores), edges(false) {
    for (Index i = 0; i < strip_rows; ++i) {
      const Columns sees = columns(i);
      edges |= sees.first > 0 || sees.end < item.cols;
    }
  }

  /// Those of the item that row i sees; none past the last query.
  Columns columns(Index i) const {
    const Index row = item.row + i;
    if (row >= block.rows) return {};
    return {std::max(block.row_first[row], block.first) - item.first,
            std::min(block.row_end[row], block.end) - item.first};
  }
  /// Of row i, from the item's first column on.
  const float* bias(Index i) const { return block.bias.from + item.first + last(i) * block.bias.stride; }
  const char* seen(Index i) const { return block.seen + item.first + last(i) * block.seen_stride; }

 private:
  /// The block's row, or its last one.
  Index last(Index i) const { return std::min(item.row + i, block.rows - 1); }
};

/// Which columns of an item its rows see: all, a run of each row, those that are marked, or those of both.
enum class Sight { all, runs, marks, marks_in_runs };

/// One bit for each of sixteen columns from j on that lies in [first, end).
inline std::uint16_t visible(Columns sees, Index j) {
  const auto below = [j](Index n) { return (1u << std::clamp<Index>(n - j, 0, 16)) - 1u; };
  return static_cast<std::uint16_t>(below(sees.end) & ~below(sees.first));
}

/// The scores of row i are kept within the cap.
template <class Lanes, int pieces>
BEARING_TILE_CODE inline void cap_row(const Strip& strip, Index i) {
  float* s = strip.s + i * scores_stride(pieces);
  const auto cap = Lanes::all(strip.block.cap), part = Lanes::all(1 / strip.block.cap);
  for (Index j = 0; j < strip.item.cols; j += 32, s += scores_step(pieces)) {
    for (float* at : {s, s + 16}) {
      Lanes::store(at, Lanes::multiply(cap, tanh<Lanes>(Lanes::multiply(part, Lanes::load(at)))));
    }
  }
}

/// What row i adds to its scores, and which of them it sees.
template <class Lanes, Bias::By by, Sight sight>
struct RowScores {
  static constexpr bool in_runs = sight == Sight::runs || sight == Sight::marks_in_runs;
  static constexpr bool marked = sight == Sight::marks || sight == Sight::marks_in_runs;

  const float* bias;
  const char* marks;
  Columns run;
  float scale;

  RowScores(const Strip& strip, Index i) : bias(), marks(), scale(strip.block.scale) {
    if constexpr (by != Bias::By::none) bias = strip.bias(i);
    if constexpr (in_runs) run = strip.columns(i);
    if constexpr (marked) marks = strip.seen(i);
  }

  /// What the scores at s, from column j on, become before their maximum is taken, with their scale in them where there
  /// is a bias; without bias and hidden columns they stay as they are. Whether others hide something changes no bit of
  /// them.
  BEARING_TILE_CODE typename Lanes::Floats operator()(float* s, Index j) const {
    auto x = Lanes::load(s);
    std::uint16_t seen = in_runs ? visible(run, j) : std::uint16_t{0xFFFF};
    if constexpr (marked) seen = Lanes::marked(seen, marks + j);
    if constexpr (by != Bias::By::none) {
      const auto more = sight == Sight::all ? Lanes::load(bias + j) : Lanes::load(seen, bias + j);
      if constexpr (by == Bias::By::distance) {
        x = Lanes::multiply_add(x, Lanes::all(scale), more);
      } else {
        x = Lanes::quiet(Lanes::add(Lanes::multiply(x, Lanes::all(scale)), more));
      }
    }
    if constexpr (sight != Sight::all) x = Lanes::where(seen, x, Lanes::all(-std::numeric_limits<float>::infinity()));
    if constexpr (by != Bias::By::none || sight != Sight::all) Lanes::store(s, x);
    return x;
  }
};

/// The largest of each lane of row i.
template <class Lanes, int pieces, Bias::By by, Sight sight>
BEARING_TILE_CODE inline void find_largest(const Strip& strip, Index i, float* largest) {
  float* s = strip.s + i * scores_stride(pieces);
  const RowScores<Lanes, by, sight> scores(strip, i);
  auto top = Lanes::all(-std::numeric_limits<float>::infinity()), other = top;
  for (Index j = 0; j < strip.item.cols; j += 32, s += scores_step(pieces)) {
    top = Lanes::max(top, scores(s, j));
    other = Lanes::max(other, scores(s + 16, j + 16));
  }
  Lanes::store(largest, Lanes::max(top, other));
}

/// Writes 32 weights as bfloat16, those of one lane side by side, and returns their sums as they were rounded.
template <class Lanes>
BEARING_TILE_CODE inline typename Lanes::Floats narrow(float* to, typename Lanes::Floats low,
                                                       typename Lanes::Floats high) {
  // VCVTNE2PS2BF16 and the sum of its pairs by VDPBF16PS are four operations each, two of them on the port of the
  // tiles; these are eight, on any port.
  const auto first = Lanes::add_half(low), second = Lanes::add_half(high);
  Lanes::store(to, Lanes::pairs(first, second));
  return Lanes::add(Lanes::cut(first), Lanes::cut(second));
}

/// Where scores are multiplied by their scale: before, where there is a bias; as the maximum is subtracted, in one
/// rounding; or in one of its own, as the maximum was, where a unit in its last place is worth much.
/// Logits that a matrix was added to are rounded as such, and go to units of log2 with the maximum subtracted: what a
/// large negative number hides is told apart as its sums are.
enum class Scaled { before, fused, apart, natural };

/// 2^x, x = log2(e) · logit
template <class Lanes, int pieces>
BEARING_TILE_CODE inline typename Lanes::Floats exponential(typename Lanes::Floats logit) {
  return power_of_two<Lanes, pieces>(Lanes::multiply(logit, Lanes::all(std::numbers::log2e_v<float>)));
}

/// The weights of row i, 2^(score − max), and the sums of each lane; of one piece, also as they were rounded.
template <class Lanes, Scaled scaled, int pieces>
BEARING_TILE_CODE inline void weigh_row(const Strip& strip, Index i, float max, float* sums, float* rounded_sums) {
  const float* s = strip.s + i * scores_stride(pieces);
  float* to = strip.s + i * scores_stride(pieces);
  const auto scale = Lanes::all(strip.block.scale), minus_max = Lanes::all(-max);
  const auto weight = [&](const float* at) BEARING_TILE_CODE {
    const auto x = Lanes::load(at);
    if constexpr (scaled == Scaled::natural) return exponential<Lanes, pieces>(Lanes::add(x, minus_max));
    if constexpr (scaled == Scaled::before) return power_of_two<Lanes, pieces>(Lanes::add(x, minus_max));
    if constexpr (scaled == Scaled::fused) return power_of_two<Lanes, pieces>(Lanes::multiply_add(x, scale, minus_max));
    return power_of_two<Lanes, pieces>(Lanes::add(Lanes::multiply(x, scale), minus_max));
  };
  auto sum = Lanes::all(0), rounded_sum = sum;
  for (Index j = 0; j < strip.item.cols; j += 32, s += scores_step(pieces), to += 16 * pieces) {
    const auto low = weight(s), high = weight(s + 16);
    sum = Lanes::add(sum, Lanes::add(low, high));
    if constexpr (pieces == 1) {
      rounded_sum = Lanes::add(rounded_sum, narrow<Lanes>(to, low, high));
    } else {
      const auto add_half = [](auto x) BEARING_TILE_CODE { return Lanes::add_half(x); };
      store_pairs<Lanes>({low, add_half}, {high, add_half}, to, 16);
    }
  }
  Lanes::store(sums, sum);
  if constexpr (pieces == 1) Lanes::store(rounded_sums, rounded_sum);
}

/// What a strip's rows have found, sixteen numbers each, and what follows for sixteen rows at a time, a lane each.
template <class Lanes>
struct StripRows {
  alignas(64) float lanes[strip_rows][16];          ///< the largest scores, later the sums of weights
  alignas(64) float rounded_lanes[strip_rows][16];  ///< the sums of weights as bfloat16
  alignas(64) float max[strip_rows];                ///< what weights are taken against
  alignas(64) float rescale[strip_rows];            ///< what sums so far are multiplied by

  /// Maxima of logits are what was found; others are whole numbers, which make a change a power of two.
  BEARING_TILE_CODE void find_max(const Block& block, const Item& item) {
    const bool natural = block.bias.by == Bias::By::element;
    const auto scale = Lanes::all(block.bias.by == Bias::By::none ? block.scale : 1);
    const auto hidden = Lanes::all(-std::numeric_limits<float>::infinity());
    for (Index i = 0; i < strip_rows; i += 16) {
      const auto highest = Lanes::multiply(Lanes::max_of(lanes + i), scale);
      const auto old = Lanes::load(block.max + item.row + i);
      const auto next = Lanes::max(natural ? highest : Lanes::ceil(highest), old);
      // A NaN counts as seen. What is hidden has weights 0 for any maximum.
      const auto seen = static_cast<std::uint16_t>(~(Lanes::equal(old, hidden) & Lanes::equal(highest, hidden)));
      const auto down = Lanes::where(seen, Lanes::subtract(old, next), Lanes::all(0));
      Lanes::store(block.max + item.row + i, next);
      Lanes::store(max + i, Lanes::where(seen, next, Lanes::all(0)));
      Lanes::store(rescale + i, natural ? exponential<Lanes, float_pieces>(down) : Lanes::scale(Lanes::all(1), down));
    }
  }

  BEARING_TILE_CODE void add_sums(const Block& block, const Item& item) const {
    for (Index i = 0; i < strip_rows; i += 16) {
      add_sums(block.sum + item.row + i, lanes + i, i);
      if (block.pieces == 1) add_sums(block.rounded_sum + item.row + i, rounded_lanes + i, i);
    }
  }

 private:
  BEARING_TILE_CODE void add_sums(float* sums, const float (*more)[16], Index i) const {
    const auto so_far = Lanes::multiply(Lanes::load(sums), Lanes::load(rescale + i));
    Lanes::store(sums, Lanes::add(so_far, Lanes::sum_of(more)));
  }
};

template <int pieces>
inline Product scores_product(const Block& block, const Item& item, float* s) {
  Product p;
  p.a = block.q + item.row * block.dim * pieces;
  p.a_stride = block.dim * pieces;
  p.b = block.keys + packed_at(item.first, block.dim) * pieces;
  p.b_column = block.dim / 32 * tile_size * pieces;
  p.b_depth = tile_size * pieces;
  p.c = s;
  p.c_stride = scores_stride(pieces);
  p.c_step = scores_step(pieces);
  p.groups = item.cols / 32;
  p.depth = block.dim / 32;
  return p;
}

template <int pieces>
inline Product values_product(const Block& block, const Item& item, const float* weights) {
  Product p;
  p.a = weights;
  p.a_stride = 2 * scores_stride(pieces);
  p.b = block.values + packed_at(item.first, block.value_dim) * pieces;
  p.b_column = tile_size * pieces;
  p.b_depth = block.value_dim / 16 * tile_size * pieces;
  p.c = block.out + item.row * block.value_dim;
  p.c_stride = block.value_dim;
  p.groups = block.value_dim / 32;
  p.depth = item.cols / 32;
  p.add = true;
  return p;
}

/// find_largest() of a strip's kind: chosen once, for all kinds in weigh() would keep GCC from inlining what matters.
using FindLargest = void (*)(const Strip& strip, Index i, float* largest);

template <class Lanes, int pieces, Bias::By by>
inline FindLargest find_largest_of(const Strip& strip) {
  if (strip.block.seen == nullptr) {
    return strip.edges ? find_largest<Lanes, pieces, by, Sight::runs> : find_largest<Lanes, pieces, by, Sight::all>;
  }
  return strip.edges ? find_largest<Lanes, pieces, by, Sight::marks_in_runs>
                     : find_largest<Lanes, pieces, by, Sight::marks>;
}

template <class Lanes, int pieces>
inline FindLargest find_largest_of(const Strip& strip) {
  switch (strip.block.bias.by) {
    case Bias::By::distance:
      return find_largest_of<Lanes, pieces, Bias::By::distance>(strip);
    case Bias::By::element:
      return find_largest_of<Lanes, pieces, Bias::By::element>(strip);
    default:
      return find_largest_of<Lanes, pieces, Bias::By::none>(strip);
  }
}

/// The weights of an item, with `before` and then `after` issued between its rows.
template <int pieces, class Tiles, class Lanes>
BEARING_TILE_CODE inline void weigh(Tiles& tiles, const Strip& strip, Product& before, Product& after) {
  const Block& block = strip.block;
  const Item& item = strip.item;
  const FindLargest find = find_largest_of<Lanes, pieces>(strip);
  StripRows<Lanes> rows;
  const Index steps = before.steps<pieces>() + after.steps<pieces>();
  Index done = 0;
  const auto go_on = [&](Index part, Index of) BEARING_TILE_CODE {
    for (; done < steps && done * of < part * steps; ++done) {
      advance<pieces>(tiles, before) || advance<pieces>(tiles, after);
    }
  };
  for (Index i = 0; i < strip_rows; ++i) {
    if (pieces > 1) go_on(i + 1, 4 * strip_rows);
    if (block.cap > 0) cap_row<Lanes, pieces>(strip, i);
    find(strip, i, rows.lanes[i]);
  }
  rows.find_max(block, item);
  for (Index i = 0; i < strip_rows; ++i) {
    if (pieces == 1)
      go_on(i + 1, strip_rows / 2);
    else
      go_on(strip_rows + 3 * (i + 1), 4 * strip_rows);
    const auto weigh_as = [&]<Scaled scaled>() BEARING_TILE_CODE {
      weigh_row<Lanes, scaled, pieces>(strip, i, rows.max[i], rows.lanes[i], rows.rounded_lanes[i]);
    };
    if (block.bias.by == Bias::By::element) {
      weigh_as.template operator()<Scaled::natural>();
    } else if (block.bias.by == Bias::By::distance) {
      weigh_as.template operator()<Scaled::before>();
    } else if (std::abs(rows.max[i]) < large_logit) {
      weigh_as.template operator()<Scaled::fused>();
    } else {
      weigh_as.template operator()<Scaled::apart>();
    }
  }
  rows.add_sums(block, item);
  for (Index i = 0; i < strip_rows; ++i) {
    if (rows.rescale[i] == 1) continue;
    float* out = block.out + (item.row + i) * block.value_dim;
    for (Index d = 0; d < block.value_dim; d += 16) {
      Lanes::store(out + d, Lanes::multiply(Lanes::load(out + d), Lanes::all(rows.rescale[i])));
    }
  }
}

template <int pieces, class Tiles, class Lanes>
BEARING_TILE_CODE inline void attend_in(const Block& block) {
  Walk walk(block);
  Item item, next;
  if (!walk.next(item)) return;
  Tiles tiles;
  [[maybe_unused]] const typename Lanes::Environment environment;
  float *s = block.scratch, *other = s + strip_rows * scores_stride(pieces);
  Product before, after = scores_product<pieces>(block, item, s);
  while (advance<pieces>(tiles, after)) continue;
  for (bool more = true; more; std::swap(s, other), item = next) {
    more = walk.next(next);
    after = more ? scores_product<pieces>(block, next, other) : Product();
    weigh<pieces, Tiles, Lanes>(tiles, Strip(block, item, s), before, after);
    before = values_product<pieces>(block, item, s);
  }
  while (advance<pieces>(tiles, before)) continue;
}

template <class Tiles, class Lanes>
BEARING_TILE_CODE void attend(const Block& block) {
  block.pieces == 1 ? attend_in<1, Tiles, Lanes>(block) : attend_in<float_pieces, Tiles, Lanes>(block);
}

}  // namespace bearing::attend::amx
