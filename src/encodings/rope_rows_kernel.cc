// Rows of cos and sin: one at any position, and long runs of consecutive ones. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rope_rows_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/cache_control.h>

#include "encodings/rope_angles-inl.h"
#include "encodings/rope_rows.hpp"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

// A run of rows is built in blocks of 32 around an exact anchor: cos and sin of (anchor ± k) come from those of the
// anchor and of k by the addition theorem, four products for two rows. Where the result is too close to a rounding
// boundary of float to be sure, the exact evaluation decides: the same bits as for a single row, at any position.
constexpr Index reach = 16;          // rows on either side of an anchor
constexpr Index column_block = 128;  // pairs whose steps stay in cache: 17·2·128·8 bytes

using FloatTag = hn::Rebind<float, WideTag>;

struct Run {
  const RowFrequencies& frequencies;
  float* cos;
  float* sin;
  Index stride, columns, column;  // columns to write; the first of them
  bool stream;
};

HWY_INLINE void put(const Run& run, hn::VFromD<FloatTag> value, float* row, Index i) {
  const FloatTag d32;
  const Index lanes = static_cast<Index>(hn::Lanes(d32));
  float* to = row + run.column + i;
  if (run.column + i + lanes > run.columns) {  // the last vector of a row that is not padded
    HWY_ALIGN float whole[hn::MaxLanes(d32)];
    hn::Store(value, d32, whole);
    for (Index lane = 0; run.column + i + lane < run.columns; ++lane) to[lane] = whole[lane];
  } else if (run.stream) {
    hn::Stream(value, d32, to);
  } else {
    hn::StoreU(value, d32, to);
  }
}

/// One vector of one row, evaluated at its own position.
HWY_NOINLINE void put_exact(const Run& run, Index position, Index row, Index i) {
  const WideTag d;
  const FloatTag d32;
  const WideVec a = hn::Set(d, run.frequencies.attention_factor);
  WideVec c, s;
  exact_pairs(run.frequencies, static_cast<double>(position), run.column + i, c, s);
  put(run, hn::DemoteTo(d32, hn::Mul(c, a)), run.cos + row * run.stride, i);
  put(run, hn::DemoteTo(d32, hn::Mul(s, a)), run.sin + row * run.stride, i);
}

/// One vector of one row from its value in double, if that decides.
HWY_INLINE void put_sum(const Run& run, WideVec c, WideVec s, WideVec error, Index position, Index row, Index i) {
  const WideTag d;
  const FloatTag d32;
  const WideVec a = hn::Set(d, run.frequencies.attention_factor);
  bool unsure = false;
  const auto c32 = rounded_if_sure(d32, hn::Mul(c, a), error, unsure);
  const auto s32 = rounded_if_sure(d32, hn::Mul(s, a), error, unsure);
  if (HWY_UNLIKELY(unsure)) return put_exact(run, position, row, i);
  put(run, c32, run.cos + row * run.stride, i);
  put(run, s32, run.sin + row * run.stride, i);
}

/// Rows row … row + count − 1, at most 2·reach, around the anchor in the middle; `steps` holds cos and sin of 0 … reach.
HWY_INLINE void put_block(const Run& run, const double* steps, Index width, Index position, Index row, Index count) {
  const WideTag d;
  const Index middle = count / 2;
  const double a = run.frequencies.attention_factor;
  const WideVec error = hn::Set(d, addition_error * (a < 0 ? -a : a));
  for (Index i = 0; i < width; i += static_cast<Index>(hn::Lanes(d))) {
    WideVec c, s;
    exact_pairs(run.frequencies, static_cast<double>(position + middle), run.column + i, c, s);
    put_sum(run, c, s, error, position + middle, row + middle, i);
    for (Index k = 1; k <= middle; ++k) {
      const double* step = steps + k * 2 * column_block + i;
      const WideVec step_c = hn::LoadU(d, step), step_s = hn::LoadU(d, step + column_block);
      const WideVec cc = hn::Mul(c, step_c), ss = hn::Mul(s, step_s);
      const WideVec sc = hn::Mul(s, step_c), cs = hn::Mul(c, step_s);
      put_sum(run, hn::Add(cc, ss), hn::Sub(sc, cs), error, position + middle - k, row + middle - k, i);
      if (middle + k < count) {
        put_sum(run, hn::Sub(cc, ss), hn::Add(sc, cs), error, position + middle + k, row + middle + k, i);
      }
    }
  }
}

void sequence_f32(const RowFrequencies& f, Index first, Index count, float* cos, float* sin, Index stride) {
  const WideTag d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  const Index written = stride >= f.padded && stride % row_padding == 0 ? f.padded : f.pairs;
  const auto aligned = [](const float* p) HWY_ATTR { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; };
  // From 4 MiB up the rows would only push other data out of the caches; write past them.
  const bool stream = count * written >= (Index{1} << 19) && stride % 16 == 0 && aligned(cos) && aligned(sin);
  HWY_ALIGN double steps[(reach + 1) * 2 * column_block];
  for (Index column = 0; column < f.padded; column += column_block) {
    const Index width = HWY_MIN(column_block, f.padded - column);
    const Run run{f, cos, sin, stride, written, column, stream};
    if (f.angles != Angles::exact || count < 2 * reach) {
      for (Index row = 0; row < count; ++row) {
        for (Index i = 0; i < width && column + i < written; i += lanes) put_exact(run, first + row, row, i);
      }
      continue;
    }
    for (Index k = 0; k <= reach; ++k) {
      for (Index i = 0; i < width; i += lanes) {
        WideVec c, s;
        exact_pairs(f, static_cast<double>(k), column + i, c, s);
        hn::StoreU(c, d, steps + k * 2 * column_block + i);
        hn::StoreU(s, d, steps + k * 2 * column_block + column_block + i);
      }
    }
    const Index used = HWY_MIN(width, (written - column + lanes - 1) / lanes * lanes);
    for (Index row = 0; row < count; row += 2 * reach) {
      put_block(run, steps, used, first + row, row, HWY_MIN(2 * reach, count - row));
    }
  }
  if (stream) hwy::FlushStream();
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
