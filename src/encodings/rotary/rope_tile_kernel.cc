// Turning rows of one head: find or make each one's cos and sin, and turn it. One version per SIMD target.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "encodings/rotary/rope_tile_kernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <cstring>

#include "encodings/rotary/rope_apply-inl.h"
#include "encodings/rotary/rope_phases_at-inl.h"
#include "encodings/rotary/rope_tile.hpp"
#include "simd/target.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

/// Natural phases that are not in the table, or are of several axes.
template <class C>
HWY_NOINLINE const C* made_phases(const RopePhases<C>& phases, const TurnedTile<C>& tile, Index r) {
  const PhaseFrequencies& f = phases.frequencies;
  double* exact = tile.scratch;
  C *blend = reinterpret_cast<C*>(exact + 2 * f.padded), *natural = blend + 2 * f.padded;
  const auto one_axis = [&](Index axis, C* to) HWY_ATTR {
    return phases_at(phases, tile.at[static_cast<std::size_t>(axis)][r], exact, to);
  };
  if (f.axes == 1 || tile.at[1] == tile.at[0]) return one_axis(0, blend);
  mix_axes(f, one_axis, natural, blend);
  return blend;
}

/// One line, interleaved pairing, natural order: u c − v s, u s + v c. In vectors to the last pair: from a loop over
/// single numbers GCC 12 makes fused products, even with -ffp-contract=off.
template <class C>
HWY_INLINE void interleaved_line(const Phases<C>& l, const C* in, C* out) {
  const C sign = l.negative_sin ? C(-0.0) : C(0.0);
  over_range<C, 1>(l.pairs, [&](auto d, Index i) HWY_ATTR {
    const auto c = hn::LoadU(d, l.cos + i), s = hn::Xor(hn::LoadU(d, l.sin + i), hn::Set(d, sign));
    if constexpr (hn::MaxLanes(decltype(d)()) == 1) {
      const auto u = hn::LoadU(d, in + 2 * i), v = hn::LoadU(d, in + 2 * i + 1);
      hn::StoreU(hn::Sub(hn::Mul(u, c), hn::Mul(v, s)), d, out + 2 * i);
      hn::StoreU(hn::Add(hn::Mul(u, s), hn::Mul(v, c)), d, out + 2 * i + 1);
    } else {
      hn::VFromD<decltype(d)> u, v;
      hn::LoadInterleaved2(d, in + 2 * i, u, v);
      const auto x = hn::Sub(hn::Mul(u, c), hn::Mul(v, s)), y = hn::Add(hn::Mul(u, s), hn::Mul(v, c));
      hn::StoreInterleaved2(x, y, d, out + 2 * i);
    }
  });
}

template <class C>
HWY_INLINE void turn_rows_of(const RopeTable<C>& table, const TurnedTile<C>& tile) {
  const RopePhases<C>& phases = table.phases();
  const PhaseFrequencies& f = phases.frequencies;
  const RopeFrequencies& spec = table.frequencies();
  const Index begin = spec.begin, end = begin + 2 * f.pairs, rest = spec.head_dim - end, phase_size = 2 * f.padded;
  const bool one_axis = f.axes == 1 || tile.at[1] == tile.at[0], interleaved = spec.pairing == Pairing::interleaved;
  const C* full = phases.full.data();
  for (Index r = 0; r < tile.rows; ++r) {
    const double p = tile.at[0][r];
    const Index whole = static_cast<Index>(p);
    const bool kept = one_axis && static_cast<double>(whole) == p && whole >= 0 && whole < phases.length;
    const C* cos = kept ? full + whole * phase_size : made_phases(phases, tile, r);
    const C* in = tile.in + r * tile.in_stride;
    C* out = tile.out + r * tile.out_stride;
    if (in != out) {
      if (begin > 0) std::memcpy(out, in, static_cast<std::size_t>(begin) * sizeof(C));
      if (rest > 0) std::memcpy(out + end, in + end, static_cast<std::size_t>(rest) * sizeof(C));
    }
    f.each_block([&](Index first, Index count) HWY_ATTR {
      const Phases<C> one{cos + first, cos + f.padded + first, tile.transposed, count};
      const Index at = begin + 2 * first;
      if (interleaved) {
        interleaved_line(one, in + at, out + at);
      } else {
        half_line<false>(one, in + at, out + at);
      }
    });
  }
}

void turn_rows_f64(const RopeTable<double>& table, const TurnedTile<double>& tile) { turn_rows_of(table, tile); }
void turn_rows_f32(const RopeTable<float>& table, const TurnedTile<float>& tile) { turn_rows_of(table, tile); }

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing {

HWY_EXPORT(turn_rows_f64);
HWY_EXPORT(turn_rows_f32);

template <>
void turn_rows<double>(const RopeTable<double>& table, const TurnedTile<double>& tile) noexcept {
  BEARING_DISPATCH(turn_rows_f64)(table, tile);
}
template <>
void turn_rows<float>(const RopeTable<float>& table, const TurnedTile<float>& tile) noexcept {
  BEARING_DISPATCH(turn_rows_f32)(table, tile);
}

}  // namespace bearing
#endif
