// Rows of cos and sin: one at any position, and long runs of consecutive ones. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rope_rows_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>

#include <cmath>
#include <cstring>

#include "encodings/rope_angles-inl.h"
#include "encodings/rope_rows.hpp"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// A run of rows is built in groups of 512. The first anchor of a group is evaluated exactly; the anchors of its 16
// blocks follow from it, and the rows of a block (anchor ± k) from its anchor, by the addition theorem. Where the
// result is too close to a rounding boundary of float to be sure, the exact evaluation decides: the same bits as for a
// single row, at any position.
constexpr Index reach = 16;         // rows on either side of an anchor
constexpr Index block = 2 * reach;  // rows −reach … reach − 1
constexpr Index group_blocks = 16;
constexpr Index column_block = 64;  // pairs whose steps stay in the first cache: 17·2·64·8 bytes

using FloatTag = hn::Repartition<float, WideTag>;  // twice the lanes of double

struct Run {
  const RowFrequencies& frequencies;
  float* cos;
  float* sin;
  Index stride;
};

/// 2·lanes values in double as one vector of float.
struct Twice {
  WideVec lower, upper;
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
    return hn::BitCast(
        Tag(), hn::Set(hn::Repartition<std::uint32_t, WideTag>(), static_cast<std::uint32_t>(upper << 16 | lower)));
  }

  /// Below `limit` where there is doubt. Distances of many vectors are put to one test by their minimum.
  HWY_INLINE Words distance(const Twice& x) const {
    const auto two = hn::ConcatOdd(Tag(), hn::BitCast(Tag(), x.upper), hn::BitCast(Tag(), x.lower));
    return hn::And(hn::Add(two, offset), mask);
  }

  HWY_INLINE bool any(Words distance) const { return !hn::AllFalse(Tag(), hn::Lt(distance, limit)); }
};

template <bool stream, class D32>
HWY_INLINE void put(D32 d32, hn::VFromD<D32> value, float* to) {
  if constexpr (stream) {
    hn::Stream(value, d32, to);
  } else {
    hn::StoreU(value, d32, to);
  }
}

/// Rounds to float and writes: half a vector at a time, which saves the joining, where a half fills a 128-bit store.
template <bool stream>
HWY_INLINE void put(const Twice& x, float* to) {
  const FloatTag d32;
  const hn::Half<FloatTag> half;
  const auto lower = hn::DemoteTo(half, x.lower), upper = hn::DemoteTo(half, x.upper);
  if constexpr (hn::MaxLanes(half) >= 4) {
    put<stream>(half, lower, to);
    put<stream>(half, upper, to + hn::Lanes(half));
  } else {
    put<stream>(d32, hn::Combine(d32, upper, lower), to);
  }
}

/// The vector of pairs from `column` on of one row, evaluated at its own position.
template <bool stream>
HWY_NOINLINE void put_exact(const Run& run, Index position, Index row, Index column) {
  const WideTag d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const WideVec a = hn::Set(d, run.frequencies.attention_factor);
  Twice c, s;
  exact_pairs(run.frequencies, static_cast<double>(position), column, c.lower, s.lower);
  exact_pairs(run.frequencies, static_cast<double>(position), column + lanes, c.upper, s.upper);
  put<stream>(Twice{hn::Mul(c.lower, a), hn::Mul(c.upper, a)}, run.cos + row * run.stride + column);
  put<stream>(Twice{hn::Mul(s.lower, a), hn::Mul(s.upper, a)}, run.sin + row * run.stride + column);
}

/// cos and sin of two vectors of pairs, from a table with the sin `column_block` after the cos.
struct Point {
  Twice cos, sin;

  static HWY_INLINE Point load(const double* from) {
    const WideTag d;
    const Index lanes = static_cast<Index>(hn::Lanes(d));
    return {{hn::Load(d, from), hn::Load(d, from + lanes)},
            {hn::Load(d, from + column_block), hn::Load(d, from + column_block + lanes)}};
  }

  HWY_INLINE void store(double* to) const {
    const WideTag d;
    const Index lanes = static_cast<Index>(hn::Lanes(d));
    hn::Store(cos.lower, d, to);
    hn::Store(cos.upper, d, to + lanes);
    hn::Store(sin.lower, d, to + column_block);
    hn::Store(sin.upper, d, to + column_block + lanes);
  }
};

/// Fills a table of points with the row at p, times a factor.
HWY_INLINE void put_points(const RowFrequencies& f, double p, double factor, Index column, Index width, double* to) {
  const WideTag d;
  const WideVec a = hn::Set(d, factor);
  for (Index i = 0; i < width; i += static_cast<Index>(hn::Lanes(d))) {
    WideVec c, s;
    exact_pairs(f, p, column + i, c, s);
    hn::Store(hn::Mul(c, a), d, to + i);
    hn::Store(hn::Mul(s, a), d, to + column_block + i);
  }
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

/// Writes a vector of pairs that has a doubtful value: as it is if the error turns out not to matter, else exactly.
template <bool stream>
HWY_INLINE void put_carefully(const Run& run, const Point& x, Index position, Index row, Index column) {
  const WideTag d;
  const hn::Half<FloatTag> half;
  const double factor = run.frequencies.attention_factor;
  const WideVec error = hn::Set(d, turned_error * std::abs(factor));
  bool unsure = false;
  for (const WideVec& value : {x.cos.lower, x.cos.upper, x.sin.lower, x.sin.upper}) {
    rounded_if_sure(half, value, error, unsure);
  }
  if (unsure) return put_exact<stream>(run, position, row, column);
  put<stream>(x.cos, run.cos + row * run.stride + column);
  put<stream>(x.sin, run.sin + row * run.stride + column);
}

/// The rows k before and k after the anchor, which is row `row`, with care.
template <bool stream>
HWY_NOINLINE void put_rows_carefully(const Run& run, const double* anchor, const double* step, Index k, Index position,
                                     Index row, Index column) {
  const Turned x = turned(Point::load(anchor), Point::load(step));
  put_carefully<stream>(run, x.back, position - k, row - k, column);
  if (k < reach) put_carefully<stream>(run, x.forth, position + k, row + k, column);
}

/// The block of rows around `position`, which is row `row`. `steps` has the points of 0 … reach. Pairs by pairs, so
/// that the anchor stays in registers; what is written is whole cache lines all the same.
template <bool stream>
HWY_INLINE void put_block(const Run& run, const double* steps, const double* anchor, Index column, Index width,
                          Index position, Index row) {
  const Index lanes = static_cast<Index>(hn::Lanes(FloatTag()));
  const Doubt doubt(run.frequencies.attention_factor);
  for (Index i = 0; i < width; i += lanes) {
    const Point at = Point::load(anchor + i);
    float* const cos = run.cos + row * run.stride + column + i;
    float* const sin = run.sin + row * run.stride + column + i;
    for (Index k = 0; k <= reach; ++k) {
      const double* step = steps + k * 2 * column_block;
      const Turned x = turned(at, Point::load(step + i));
      const auto distance = hn::Min(hn::Min(doubt.distance(x.back.cos), doubt.distance(x.back.sin)),
                                    hn::Min(doubt.distance(x.forth.cos), doubt.distance(x.forth.sin)));
      if (HWY_UNLIKELY(doubt.any(distance))) {
        put_rows_carefully<stream>(run, anchor + i, step + i, k, position, row, column + i);
        continue;
      }
      put<stream>(x.back.cos, cos - k * run.stride);
      put<stream>(x.back.sin, sin - k * run.stride);
      if (k == reach) continue;  // the next block has it
      put<stream>(x.forth.cos, cos + k * run.stride);
      put<stream>(x.forth.sin, sin + k * run.stride);
    }
  }
}

/// Whole blocks of rows; returns how many rows they hold.
template <bool stream>
HWY_INLINE Index put_blocks(const Run& run, Index first, Index count) {
  const RowFrequencies& f = run.frequencies;
  const Index lanes = static_cast<Index>(hn::Lanes(FloatTag()));
  const Index blocks = count / block;
  HWY_ALIGN double steps[(reach + 1) * 2 * column_block];
  HWY_ALIGN double strides[group_blocks * 2 * column_block];
  HWY_ALIGN double start[2 * column_block], anchor[2 * column_block];
  for (Index column = 0; column < f.padded; column += column_block) {
    const Index width = HWY_MIN(column_block, f.padded - column);
    const auto put_position = [&](Index position, double factor, double* to)
                                  HWY_ATTR { put_points(f, static_cast<double>(position), factor, column, width, to); };
    for (Index k = 0; k <= reach; ++k) put_position(k, 1, steps + k * 2 * column_block);
    for (Index k = 1; k < HWY_MIN(blocks, group_blocks); ++k) {
      put_position(k * block, 1, strides + k * 2 * column_block);
    }
    for (Index n = 0; n < blocks; ++n) {
      const Index row = n * block + reach, k = n % group_blocks;
      if (k == 0) put_position(first + row, f.attention_factor, start);
      for (Index i = 0; i < width; i += lanes) {
        const Point from = Point::load(start + i);
        const double* stride = strides + k * 2 * column_block + i;
        (k == 0 ? from : turned(from, Point::load(stride)).forth).store(anchor + i);
      }
      put_block<stream>(run, steps, anchor, column, width, first + row, row);
    }
  }
  return blocks * block;
}

#endif  // HWY_TARGET != HWY_SCALAR

/// Rows one by one, each pair evaluated at its own position.
void put_rows(const RowFrequencies& f, Index first, Index count, float* cos, float* sin, Index stride) {
  const WideTag d;
  const hn::Rebind<float, WideTag> d32;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const WideVec a = hn::Set(d, f.attention_factor);
  HWY_ALIGN float c32[hn::MaxLanes(d)], s32[hn::MaxLanes(d)];
  for (Index row = 0; row < count; ++row) {
    for (Index column = 0; column < f.pairs; column += lanes) {
      WideVec c, s;
      exact_pairs(f, static_cast<double>(first + row), column, c, s);
      hn::Store(hn::DemoteTo(d32, hn::Mul(c, a)), d32, c32);
      hn::Store(hn::DemoteTo(d32, hn::Mul(s, a)), d32, s32);
      const std::size_t bytes = static_cast<std::size_t>(HWY_MIN(lanes, f.pairs - column)) * sizeof(float);
      std::memcpy(cos + row * stride + column, c32, bytes);
      std::memcpy(sin + row * stride + column, s32, bytes);
    }
  }
}

void sequence_f32(const RowFrequencies& f, Index first, Index count, float* cos, float* sin, Index stride) {
  Index done = 0;
#if HWY_TARGET != HWY_SCALAR
  // Rows with room for the padding are written in whole vectors.
  const bool padded = f.pairs == f.padded || (stride >= f.padded && stride % row_padding == 0);
  const auto aligned = [](const float* p) HWY_ATTR { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; };
  // From 4 MiB up the rows would only push other data out of the caches; write past them.
  const bool stream = count * f.padded >= (Index{1} << 19) && stride % row_padding == 0 && aligned(cos) && aligned(sin);
  // Factors far from 1 could make floats below the normal range, whose rounding is not where Doubt looks.
  const double factor = std::abs(f.attention_factor);
  const bool normal = factor > 0x1p-100 && factor < 0x1p100;
  if (f.angles == Angles::exact && padded && normal && count >= 2 * block) {
    const Run run{f, cos, sin, stride};
    done = stream ? put_blocks<true>(run, first, count) : put_blocks<false>(run, first, count);
    if (stream) hwy::FlushStream();
  }
#endif
  put_rows(f, first + done, count - done, cos + done * stride, sin + done * stride, stride);
}

void exact_row_out(const RowFrequencies& f, double p, double* cos, double* sin) { exact_row(f, p, cos, sin); }

void difference_row_out(const RowFrequencies& to, double p_to, const RowFrequencies& from, double p_from, double* cos,
                        double* sin) {
  difference_row(to, p_to, from, p_from, cos, sin);
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(sequence_f32);
HWY_EXPORT(exact_row_out);
HWY_EXPORT(difference_row_out);

RowKernels row_kernels() {
  return {BEARING_DISPATCH(sequence_f32), BEARING_DISPATCH(exact_row_out), BEARING_DISPATCH(difference_row_out)};
}

}  // namespace bearing
#endif
