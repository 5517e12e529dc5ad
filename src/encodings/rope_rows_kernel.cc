// Rows of cos and sin: one at any position, and long runs of consecutive ones. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rope_rows_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>

#include <cstring>

#include "encodings/rope_angles-inl.h"
#include "encodings/rope_rows.hpp"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// A run of rows is built in blocks of 64 around an exact anchor: cos and sin of (anchor ± k) come from those of the
// anchor and of k by the addition theorem, four products for two rows. Where the result is too close to a rounding
// boundary of float to be sure, the exact evaluation decides: the same bits as for a single row, at any position.
constexpr Index reach = 32;         // rows on either side of an anchor
constexpr Index column_block = 64;  // pairs whose steps stay in cache: 33·2·64·8 bytes

using FloatTag = hn::Repartition<float, WideTag>;  // twice the lanes of double
using FloatVec = hn::VFromD<FloatTag>;

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

HWY_INLINE FloatVec rounded(const Twice& x) {
  const FloatTag d32;
  const hn::Half<FloatTag> half;
  return hn::Combine(d32, hn::DemoteTo(half, x.upper), hn::DemoteTo(half, x.lower));
}

/// A double whose last 29 bits are within 2^window of the middle may round to float either way. Where |x| ≥ 2^-12 of
/// the factor, addition_error is less than 2^15 units of x's last bit; smaller ones are all suspected. In all, about
/// one vector in a hundred is.
constexpr int window = 15;
constexpr float small = 0x1p-12f;

HWY_INLINE hn::Mask<FloatTag> near_middle(const Twice& x) {
  const hn::RebindToUnsigned<FloatTag> du;
  constexpr std::uint32_t middle = std::uint32_t{1} << 28, reach_bits = std::uint32_t{1} << window;
  const auto last_bits = hn::ConcatEven(du, hn::BitCast(du, x.upper), hn::BitCast(du, x.lower));
  const auto moved = hn::Add(last_bits, hn::Set(du, reach_bits - middle));
  const auto outside = hn::And(moved, hn::Set(du, 2 * middle - 2 * reach_bits));
  return hn::RebindMask(FloatTag(), hn::Eq(outside, hn::Zero(du)));
}

template <bool stream>
HWY_INLINE void put(FloatVec value, float* to) {
  const FloatTag d32;
  if constexpr (stream) {
    hn::Stream(value, d32, to);
  } else {
    hn::StoreU(value, d32, to);
  }
}

/// The vector of pairs from `column` on of one row, evaluated at its own position.
HWY_NOINLINE void put_exact(const Run& run, Index position, Index row, Index column) {
  const WideTag d;
  const FloatTag d32;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const WideVec a = hn::Set(d, run.frequencies.attention_factor);
  Twice c, s;
  exact_pairs(run.frequencies, static_cast<double>(position), column, c.lower, s.lower);
  exact_pairs(run.frequencies, static_cast<double>(position), column + lanes, c.upper, s.upper);
  hn::StoreU(rounded({hn::Mul(c.lower, a), hn::Mul(c.upper, a)}), d32, run.cos + row * run.stride + column);
  hn::StoreU(rounded({hn::Mul(s.lower, a), hn::Mul(s.upper, a)}), d32, run.sin + row * run.stride + column);
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

/// The rows from `reach` before to reach − 1 after `position`, which becomes row `row + reach`. `steps` has the points
/// of 0 … reach. Row by row, so that memory is written in long stretches.
template <bool stream>
HWY_INLINE void put_block(const Run& run, const double* steps, Index column, Index width, Index position, Index row) {
  const WideTag d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const double factor = run.frequencies.attention_factor;
  HWY_ALIGN double anchor[2 * column_block];
  put_points(run.frequencies, static_cast<double>(position), factor, column, width, anchor);
  const FloatTag d32;
  const auto tiny = hn::Set(d32, static_cast<float>(small * factor * factor));
  const auto put_row = [&](const Twice& c, const Twice& s, Index offset, Index i) HWY_ATTR {
    const FloatVec c32 = rounded(c), s32 = rounded(s);
    // cos and sin are never both small: their product is if one of them is.
    const auto suspect = hn::Or(hn::Lt(hn::Abs(hn::Mul(c32, s32)), tiny), hn::Or(near_middle(c), near_middle(s)));
    if (HWY_UNLIKELY(!hn::AllFalse(d32, suspect))) {
      return put_exact(run, position + offset, row + reach + offset, column + i);
    }
    put<stream>(c32, run.cos + (row + reach + offset) * run.stride + column + i);
    put<stream>(s32, run.sin + (row + reach + offset) * run.stride + column + i);
  };
  for (Index i = 0; i < width; i += 2 * lanes) {
    const Point at = Point::load(anchor + i);
    put_row(at.cos, at.sin, 0, i);
  }
  for (Index k = 1; k <= reach; ++k) {
    for (Index i = 0; i < width; i += 2 * lanes) {
      const Point at = Point::load(anchor + i), by = Point::load(steps + k * 2 * column_block + i);
      const Twice cc{hn::Mul(at.cos.lower, by.cos.lower), hn::Mul(at.cos.upper, by.cos.upper)};
      const Twice ss{hn::Mul(at.sin.lower, by.sin.lower), hn::Mul(at.sin.upper, by.sin.upper)};
      const Twice sc{hn::Mul(at.sin.lower, by.cos.lower), hn::Mul(at.sin.upper, by.cos.upper)};
      const Twice cs{hn::Mul(at.cos.lower, by.sin.lower), hn::Mul(at.cos.upper, by.sin.upper)};
      put_row({hn::Add(cc.lower, ss.lower), hn::Add(cc.upper, ss.upper)},
              {hn::Sub(sc.lower, cs.lower), hn::Sub(sc.upper, cs.upper)}, -k, i);
      if (k == reach) continue;
      put_row({hn::Sub(cc.lower, ss.lower), hn::Sub(cc.upper, ss.upper)},
              {hn::Add(sc.lower, cs.lower), hn::Add(sc.upper, cs.upper)}, k, i);
    }
  }
}

/// Whole blocks of rows; returns how many rows they hold.
template <bool stream>
HWY_INLINE Index put_blocks(const Run& run, Index first, Index count) {
  const RowFrequencies& f = run.frequencies;
  const Index blocked = count / (2 * reach) * (2 * reach);
  HWY_ALIGN double steps[(reach + 1) * 2 * column_block];
  for (Index column = 0; column < f.padded; column += column_block) {
    const Index width = HWY_MIN(column_block, f.padded - column);
    for (Index k = 0; k <= reach; ++k) {
      put_points(f, static_cast<double>(k), 1, column, width, steps + k * 2 * column_block);
    }
    for (Index row = 0; row < blocked; row += 2 * reach) {
      put_block<stream>(run, steps, column, width, first + row + reach, row);
    }
  }
  return blocked;
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
  if (f.angles == Angles::exact && padded && count >= 2 * reach) {
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
