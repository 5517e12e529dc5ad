// Phases, cos and sin: at any position, and in long runs at consecutive ones. A row is the phases of one position of a
// run. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rotary/rope_phases_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "encodings/rotary/rope_angles-inl.h"
#include "encodings/rotary/rope_phases.hpp"
#include "simd/prefetch.hpp"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

/// 2·lanes values in double as one vector of float.
struct Twice {
  WideVec lower, upper;
};

/// cos and sin of two vectors of pairs.
struct Point {
  Twice cos, sin;
};

/// The pairs from `column` on of the row at a position, with the attention factor.
HWY_INLINE Point exact_point(const PhaseFrequencies& f, Index position, Index column) {
  const WideTag d;
  const WideVec a = hn::Set(d, f.attention_factor);
  const double p = static_cast<double>(position);
  WideVec cos0, sin0, cos1, sin1;  // no empty Point: its implicit constructor would be one of the build's own target
  exact_pairs(f, p, column, cos0, sin0);
  exact_pairs(f, p, column + static_cast<Index>(hn::Lanes(d)), cos1, sin1);
  return {{hn::Mul(cos0, a), hn::Mul(cos1, a)}, {hn::Mul(sin0, a), hn::Mul(sin1, a)}};
}

/// Writes as many pairs from `column` on of one row as it has room for.
HWY_INLINE void put_some(const PhasesOut& to, const Point& x, Index row, Index column) {
  const WideTag d;
  const hn::Rebind<float, WideTag> d32;
  const Index lanes = static_cast<Index>(hn::Lanes(d)), step = to.in_turn ? 2 : 1;
  HWY_ALIGN float numbers[2 * hn::MaxLanes(d)];
  const auto put = [&](const Twice& part, Index room, float* first) HWY_ATTR {
    hn::StoreU(hn::DemoteTo(d32, part.lower), d32, numbers);
    hn::StoreU(hn::DemoteTo(d32, part.upper), d32, numbers + lanes);
    float* const at = first + row * to.stride + column * step;
    for (Index i = 0; i < HWY_MIN(room - column, 2 * lanes); ++i) {
      const float number = numbers[i] * to.scale;
      at[i * step] = to.added ? at[i * step] + number : number;
    }
  };
  put(x.cos, to.cosines, to.cos);
  put(x.sin, to.sines, to.sin);
}

constexpr Index column_block = steps_pairs;  // whose near steps stay in the first cache: 17·2·64·8 bytes

/// Fills a table of points with the row at p, times a factor.
HWY_INLINE void put_points(const PhaseFrequencies& f, double p, double factor, Index column, Index width, double* to) {
  const WideTag d;
  const WideVec a = hn::Set(d, factor);
  for (Index i = 0; i < width; i += static_cast<Index>(hn::Lanes(d))) {
    WideVec c, s;
    exact_pairs(f, p, column + i, c, s);
    hn::Store(hn::Mul(c, a), d, to + i);
    hn::Store(hn::Mul(s, a), d, to + column_block + i);
  }
}

/// The steps of the pairs from `column` on.
HWY_INLINE void put_steps(const PhaseFrequencies& f, Index far, Index column, double* to) {
  const Index width = HWY_MIN(column_block, f.padded - column);
  for (Index k = 0; k < steps_near; ++k, to += 2 * column_block) {
    put_points(f, static_cast<double>(k), 1, column, width, to);
  }
  for (Index k = 1; k <= far; ++k, to += 2 * column_block) {
    put_points(f, static_cast<double>(k * 2 * (steps_near - 1)), 1, column, width, to);
  }
}

void prepare_steps(const PhaseFrequencies& f, double* steps) {
  for (Index column = 0; column < f.padded; column += column_block, steps += steps_block) {
    put_steps(f, steps_far, column, steps);
  }
}

#if HWY_TARGET != HWY_SCALAR
// A run of rows is built in groups of 512. The first anchor of a group is evaluated exactly; the anchors of its 16
// blocks follow from it, and the rows of a block (anchor ± k) from its anchor, by the addition theorem. Where the
// result is too close to a rounding boundary of float to be sure, the exact evaluation decides: the same bits as for a
// single row, at any position.
constexpr Index reach = steps_near - 1;     // rows on either side of an anchor
constexpr Index rows_in_block = 2 * reach;  // rows −reach … reach − 1
constexpr Index group_blocks = steps_far + 1;

using FloatTag = hn::Repartition<float, WideTag>;  // twice the lanes of double

/// The rows around an anchor, `width` pairs of each from `column` on.
struct Block {
  const PhaseFrequencies& frequencies;
  Index column, width;
  Index position;  ///< of the anchor
  PhasesOut to;    ///< where the anchor's row goes, from the pair `column` on
  bool large;      ///< the whole run is more than the caches near by hold

  /// How many of the pairs a row has room for.
  Index room() const { return HWY_MIN(to.cosines, to.sines); }
};

// Errors in units of 2^-53 times the attention factor's magnitude. An exact value times the factor: 0.8 + 1. A turn by
// an exact point: √2 times the error of what is turned, √2·0.8 for the point, 1 for the rounding of both products and 1
// for their sum (fused or not). Two turns: 5.7, then 11.2. Together with the exact evaluation's own: 13.0, below 2^4.
constexpr double turned_error = 0x1p-49;

/// Says which doubles their error may round to another float, at the price of some that it may not. It looks at two of
/// the four 16-bit words of a double, side by side in one comparison. The highest tells whether |x| is below 2^-12 of
/// the factor. In larger ones the error is less than 13·2^12 < 2^16 units of the last place, so it matters only where
/// the lower 29 bits, of which the second word has 13, are that close to their middle. One vector in a hundred is.
struct Doubt {
  using Tag = hn::Repartition<std::int16_t, WideTag>;
  using Words = hn::VFromD<Tag>;
  Words offset, mask, limit;

  explicit HWY_INLINE Doubt(double factor) {
    const double small = 0x1p-12 * std::abs(factor);
    std::uint64_t bits;
    std::memcpy(&bits, &small, sizeof bits);
    offset = words(0, 0x10000 - 0xFFF);
    mask = words(0x7FFF, 0x1FFF);
    limit = words((bits >> 48) + 1, 2);
  }

  static HWY_INLINE Words words(std::uint64_t upper, std::uint64_t lower) {
    return hn::BitCast(Tag(), hn::Set(hn::RebindToUnsigned<WideTag>(), (upper << 32 | lower) * 0x10001));
  }

  /// Below `limit` where there is doubt. Distances of many vectors are put to one test by their minimum.
  HWY_INLINE Words distance(const Twice& x) const {
    const auto lower = hn::ShiftRight<16>(hn::BitCast(hn::Repartition<std::uint32_t, WideTag>(), x.lower));
    const auto two = hn::OddEven(hn::BitCast(Tag(), x.upper), hn::BitCast(Tag(), lower));
    return hn::And(hn::Add(two, offset), mask);
  }

  HWY_INLINE bool any(Words distance) const { return !hn::AllFalse(Tag(), hn::Lt(distance, limit)); }
};

/// How rows are written: past the caches, multiplied by a number after their rounding to float, added to what is there.
struct Way {
  bool stream = false, scaled = false, added = false;
};
/// One of them as an argument.
template <Way way>
using Chosen = std::integral_constant<Way, way>;

template <Way way, class D32>
HWY_INLINE void put(D32 d32, hn::VFromD<D32> value, float scale, float* to) {
  if constexpr (way.scaled) value = hn::Mul(value, hn::Set(d32, scale));
  if constexpr (way.added) value = hn::Add(hn::LoadU(d32, to), value);
  if constexpr (way.stream) {
    hn::Stream(value, d32, to);
  } else {
    hn::StoreU(value, d32, to);
  }
}

/// Rounds to float and writes: half a vector at a time, which saves the joining, where a half fills a 128-bit store; or
/// a 256-bit one where products follow (131,072 rows of 128 on AVX2: 2.50 ms, and 2.62 by halves), or where stores go
/// into the caches (the same rows as two arrays on a busier Zen 3: 8.4 ms, and 9.3 by halves).
template <Way way>
HWY_INLINE void put(const Twice& x, float scale, float* to) {
  const FloatTag d32;
  const hn::Half<FloatTag> half;
  const auto lower = hn::DemoteTo(half, x.lower), upper = hn::DemoteTo(half, x.upper);
  if constexpr (hn::MaxLanes(half) >= (way.scaled || !way.stream ? 8 : 4)) {
    put<way>(half, lower, scale, to);
    put<way>(half, upper, scale, to + hn::Lanes(half));
  } else {
    put<way>(d32, hn::Combine(d32, upper, lower), scale, to);
  }
}

/// Writes whole vectors of cos and sin to where the row and column begin.
template <Way way>
struct Apart {
  static constexpr Index step = 1;
  static constexpr bool added = way.added;
  float scale;

  HWY_INLINE void operator()(const Twice& cos, const Twice& sin, float* cos_to, float* sin_to) const {
    put<way>(cos, scale, cos_to);
    put<way>(sin, scale, sin_to);
  }
};

/// The same for sin, cos, sin, cos, …
template <Way way>
struct InTurn {
  static constexpr Index step = 2;
  static constexpr bool added = way.added;
  using Order = decltype(hn::SetTableIndices(FloatTag(), static_cast<const std::int32_t*>(nullptr)));
  float scale;
  Order order;

  explicit HWY_INLINE InTurn(float by) : scale(by) {
    const std::int32_t lanes = static_cast<std::int32_t>(hn::Lanes(FloatTag()));
    HWY_ALIGN std::int32_t from[hn::MaxLanes(FloatTag())];
    for (std::int32_t i = 0; i < lanes; ++i) from[i] = i / 2 + (i % 2 == 0 ? 0 : lanes / 2);
    order = hn::SetTableIndices(FloatTag(), from);
  }

  HWY_INLINE void operator()(const Twice& cos, const Twice& sin, float*, float* to) const {
    put_half(cos.lower, sin.lower, to);
    put_half(cos.upper, sin.upper, to + hn::Lanes(FloatTag()));
  }

  HWY_INLINE void put_half(WideVec cos, WideVec sin, float* to) const {
    const FloatTag d32;
    const hn::Half<FloatTag> half;
    const auto both = hn::Combine(d32, hn::DemoteTo(half, cos), hn::DemoteTo(half, sin));
    put<way>(d32, hn::TableLookupLanes(both, order), scale, to);
  }
};

// In a table of points the sin stand `column_block` after the cos.
HWY_INLINE Point load_point(const double* from) {
  const WideTag d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  return {{hn::Load(d, from), hn::Load(d, from + lanes)},
          {hn::Load(d, from + column_block), hn::Load(d, from + column_block + lanes)}};
}

HWY_INLINE void store_point(const Point& x, double* to) {
  const WideTag d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  hn::Store(x.cos.lower, d, to);
  hn::Store(x.cos.upper, d, to + lanes);
  hn::Store(x.sin.lower, d, to + column_block);
  hn::Store(x.sin.upper, d, to + column_block + lanes);
}

/// A point turned by an angle to either side.
struct Turned {
  Point back, forth;
};

HWY_INLINE Turned turned(const Point& at, const Point& by) {
  const auto part = [](WideVec c, WideVec s, WideVec by_c, WideVec by_s, WideVec* to) HWY_ATTR {
    const WideVec cos = hn::Mul(c, by_c), sin = hn::Mul(s, by_c);
    to[0] = hn::MulAdd(s, by_s, cos);
    to[1] = hn::NegMulAdd(c, by_s, sin);
    to[2] = hn::NegMulAdd(s, by_s, cos);
    to[3] = hn::MulAdd(c, by_s, sin);
  };
  WideVec lower[4], upper[4];
  part(at.cos.lower, at.sin.lower, by.cos.lower, by.sin.lower, lower);
  part(at.cos.upper, at.sin.upper, by.cos.upper, by.sin.upper, upper);
  return {{{lower[0], upper[0]}, {lower[1], upper[1]}}, {{lower[2], upper[2]}, {lower[3], upper[3]}}};
}

/// Writes what has a doubtful value or little room: as it is if the error turns out not to matter, else exactly. Whole
/// vectors go the way of all others: a store into the caches would fetch the line that the others write past them.
/// `away` is the row's distance from the anchor, i the first pair's from the block's first.
template <class Put>
HWY_INLINE void put_carefully(const Block& block, const Put& put, Point x, Index away, Index i) {
  const hn::Half<FloatTag> half;
  const PhaseFrequencies& f = block.frequencies;
  const WideVec error = hn::Set(WideTag(), turned_error * std::abs(f.attention_factor));
  bool unsure = false;
  for (const WideVec& value : {x.cos.lower, x.cos.upper, x.sin.lower, x.sin.upper}) {
    rounded_if_sure(half, value, error, unsure);
  }
  if (unsure) x = exact_point(f, block.position + away, block.column + i);
  if (i + static_cast<Index>(hn::Lanes(FloatTag())) > block.room()) return put_some(block.to, x, away, i);
  const Index at = away * block.to.stride + i * Put::step;
  put(x.cos, x.sin, block.to.cos + at, block.to.sin + at);
}

/// Whether the row k after an anchor is written: not k = reach, which the next block has; nor, where rows are added,
/// k = 0, the anchor, which is written as the row 0 before it.
template <class Put>
constexpr bool has_row_after(Index k) {
  return k < reach && !(Put::added && k == 0);
}

/// The rows k before and k after the anchor, with care.
template <class Put>
HWY_NOINLINE void put_rows_carefully(const Block& block, Put put, const double* anchor, const double* step, Index k,
                                     Index i) {
  const Turned x = turned(load_point(anchor + i), load_point(step + i));
  put_carefully(block, put, x.back, -k, i);
  if (has_row_after<Put>(k)) put_carefully(block, put, x.forth, k, i);
}

/// A block of rows. `steps` has the points of 0 … reach. Row after row: lines that are written past the caches must be
/// filled before many others begin, and lie near each other, or the memory is written part by part. It costs loads of
/// the anchor; 4,096 rows of 1,024 take 1.0 ms, and column by column 1.4.
/// What they are added to is read in order before, as the rows are two runs of lines in turns (Zen 3, one thread,
/// 131,072 rows of 128: 0.49 of LIMIT, and 0.24 without).
template <class Put>
HWY_INLINE void put_block(const Block& block, Put put, const double* steps, const double* anchor) {
  const Index lanes = static_cast<Index>(hn::Lanes(FloatTag()));
  const Doubt doubt(block.frequencies.attention_factor);
  const PhasesOut to = block.to;  // a copy, which no store can change
  const Index room = block.room(), width = block.width;
  if (Put::added && block.large) {
    const Index numbers = HWY_MIN(width, room) * Put::step;
    for (Index away = -reach; away < reach; ++away) {
      simd::touch_in_order(to.sin + away * to.stride, numbers);
      if (Put::step == 1) simd::touch_in_order(to.cos + away * to.stride, numbers);
    }
  }
  for (Index k = 0; k <= reach; ++k) {
    const Index away = k * to.stride;
    const double* step = steps + k * 2 * column_block;
    for (Index i = 0; i < width; i += lanes) {
      const Turned x = turned(load_point(anchor + i), load_point(step + i));
      const auto distance = hn::Min(hn::Min(doubt.distance(x.back.cos), doubt.distance(x.back.sin)),
                                    hn::Min(doubt.distance(x.forth.cos), doubt.distance(x.forth.sin)));
      if (HWY_UNLIKELY(i + lanes > room || doubt.any(distance))) {
        put_rows_carefully(block, put, anchor, step, k, i);
        continue;
      }
      const Index at = i * Put::step;
      put(x.back.cos, x.back.sin, to.cos + at - away, to.sin + at - away);
      if (!has_row_after<Put>(k)) continue;
      put(x.forth.cos, x.forth.sin, to.cos + at + away, to.sin + at + away);
    }
  }
}

/// A block of rows in the first cache, cos and sin apart, and the way from there past the caches in order. The rows on
/// both sides of an anchor, in two arrays, are four places that take turns; there Zen 3 takes 2.3 times as long past
/// the caches as into them. 131,072 rows of two times 64 in two arrays, medians: 7.6 ms into the caches, 5.5 ms staged.
/// Not where a row is a part of what lies side by side (4,096 rows of 1,024: 1.8 ms into the caches, 2.5 ms staged).
struct Staged {
  HWY_ALIGN float cos[rows_in_block * column_block], sin[rows_in_block * column_block];

  /// The block, with its rows here.
  HWY_INLINE Block here(Block block) {
    block.to = {.cos = cos + reach * column_block,
                .sin = sin + reach * column_block,
                .stride = column_block,
                .cosines = block.width,
                .sines = block.width};
    return block;
  }

  HWY_INLINE void hand_over(const PhasesOut& to) const {
    rows(sin, HWY_MIN(to.sines, column_block), to.sin - reach * to.stride, to.stride);
    rows(cos, HWY_MIN(to.cosines, column_block), to.cos - reach * to.stride, to.stride);
  }

 private:
  static HWY_INLINE void rows(const float* from, Index n, float* to, Index stride) {
    const FloatTag d;
    const Index lanes = static_cast<Index>(hn::Lanes(d));
    for (Index row = 0; row < rows_in_block; ++row, from += column_block, to += stride) {
      for (Index i = 0; i < n; i += lanes) hn::Stream(hn::Load(d, from + i), d, to + i);
    }
  }
};

/// Whole blocks of rows, staged or not; returns how many rows they hold. `steps`: prepared, or null.
template <bool staged, class Put>
HWY_INLINE Index put_blocks(const PhaseFrequencies& f, const double* steps, const PhasesOut& to, const Put& put,
                            Index first, Index count) {
  const Index lanes = static_cast<Index>(hn::Lanes(FloatTag()));
  const Index blocks = count / rows_in_block;
  HWY_ALIGN double own_steps[steps_block];
  HWY_ALIGN double start[2 * column_block], anchor[2 * column_block];
  const bool large = count * f.padded >= (Index{1} << 20);
  for (Index column = 0; column < f.padded; column += column_block) {
    const Index width = HWY_MIN(column_block, f.padded - column);
    const double* near = own_steps;
    if (steps != nullptr) {
      near = steps + column / column_block * steps_block;
    } else {
      put_steps(f, HWY_MIN(blocks - 1, steps_far), column, own_steps);
    }
    for (Index n = 0; n < blocks; ++n) {
      const Index row = n * rows_in_block + reach, k = n % group_blocks;
      if (k == 0) put_points(f, static_cast<double>(first + row), f.attention_factor, column, width, start);
      const double* far = near + (reach + k) * 2 * column_block;
      for (Index i = 0; i < width; i += lanes) {
        const Point from = load_point(start + i);
        store_point(k == 0 ? from : turned(from, load_point(far + i)).forth, anchor + i);
      }
      Block block{f, column, width, first + row, to, large};
      const Index at = row * to.stride + column * Put::step;
      block.to.cos += at, block.to.sin += at;
      block.to.cosines -= column, block.to.sines -= column;
      if constexpr (staged) {
        Staged room;
        put_block(room.here(block), put, near, anchor);
        room.hand_over(block.to);
      } else {
        put_block(block, put, near, anchor);
      }
    }
  }
  return blocks * rows_in_block;
}

#endif  // HWY_TARGET != HWY_SCALAR

void sequence_f32(const PhaseFrequencies& f, [[maybe_unused]] const double* steps, Index first, Index count,
                  const PhasesOut& to) {
  Index done = 0;
#if HWY_TARGET != HWY_SCALAR
  // Factors far from 1 could make floats below the normal range, whose rounding is not where Doubt looks.
  const double factor = std::abs(f.attention_factor);
  const bool normal = factor > 0x1p-100 && factor < 0x1p100;
  if (f.angles == Angles::exact && normal && count >= 2 * rows_in_block) {
    const auto aligned = [](const float* p) HWY_ATTR { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; };
    // From 4 MiB up the rows would only push other data out of the caches; write past them. With AVX2 only where cos
    // and sin of the same pairs lie side by side, or staged.
    const Index size = count * f.padded;
    const bool past = !to.added && size >= (Index{1} << 19) && to.stride % pair_padding == 0 && aligned(to.sin) &&
                      (to.in_turn || aligned(to.cos));
    constexpr bool narrow = HWY_TARGET == HWY_AVX2;
    const bool together = !narrow || to.in_turn || std::abs(to.sin - to.cos) <= column_block;
    // Two arrays from 16 MiB up, of whole lines that lie behind each other.
    const bool stage = past && !together && HWY_MAX(count, to.rows) * f.padded >= (Index{1} << 21) &&
                       to.stride <= column_block && to.cosines % pair_padding == 0 && to.sines % pair_padding == 0 &&
                       to.scale == 1;
    const bool stream = past && together;
    const auto blocks = [&](auto way) HWY_ATTR {
      constexpr Way how = way.value;
      done = to.in_turn ? put_blocks<false>(f, steps, to, InTurn<how>(to.scale), first, count)
                        : put_blocks<false>(f, steps, to, Apart<how>{to.scale}, first, count);
    };
    const bool scaled = to.scale != 1;  // the table is not: on AVX2 the products would cost it 15 %
    if (to.added) {
      blocks(Chosen<Way{.scaled = true, .added = true}>());  // memory is the bound: a product by 1 costs nothing
    } else if (stage) {
      if constexpr (narrow) done = put_blocks<true>(f, steps, to, Apart<Way{}>{to.scale}, first, count);
    } else if (stream) {
      scaled ? blocks(Chosen<Way{.stream = true, .scaled = true}>()) : blocks(Chosen<Way{.stream = true}>());
    } else {
      scaled ? blocks(Chosen<Way{.scaled = true}>()) : blocks(Chosen<Way{}>());
    }
    if (stream || stage) hwy::FlushStream();
  }
#endif
  const Index lanes = static_cast<Index>(hn::Lanes(WideTag()));
  for (Index row = done; row < count; ++row) {
    for (Index column = 0; column < f.pairs; column += 2 * lanes) {
      put_some(to, exact_point(f, first + row, column), row, column);
    }
  }
}

void exact_row_out(const PhaseFrequencies& f, double p, double* cos, double* sin) { exact_phases(f, p, cos, sin); }

void difference_row_out(const PhaseFrequencies& to, double p_to, const PhaseFrequencies& from, double p_from,
                        double* cos, double* sin) {
  difference_phases(to, p_to, from, p_from, cos, sin);
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(prepare_steps);
HWY_EXPORT(sequence_f32);
HWY_EXPORT(exact_row_out);
HWY_EXPORT(difference_row_out);

PhaseKernels phase_kernels() {
  return {BEARING_DISPATCH(prepare_steps), BEARING_DISPATCH(sequence_f32), BEARING_DISPATCH(exact_row_out),
          BEARING_DISPATCH(difference_row_out)};
}

}  // namespace bearing
#endif
