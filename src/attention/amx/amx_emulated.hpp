#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "attention/amx/amx_kernels.hpp"

// What the instructions do, in plain loops and to the bit.

namespace bearing::attend::amx {

/// A register: sixteen rows of 64 bytes, as floats or as pairs of bfloat16.
struct TileRegister {
  std::uint32_t lanes[16][16] = {};
};

inline float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

/// The lower or upper bfloat16 of a pair.
inline float lower_half(std::uint32_t pair) { return flushed(std::bit_cast<float>(pair << 16)); }
inline float upper_half(std::uint32_t pair) { return flushed(std::bit_cast<float>(pair & 0xFFFF'0000u)); }

/// TDPBF16PS, c += a · b, as Intel's manual has it: even and odd features are summed apart, each product added in one
/// rounding, then to each other, then to c; numbers below the normal range are zero, coming and going.
inline void multiply_tiles(TileRegister& c, const TileRegister& a, const TileRegister& b) {
  for (int m = 0; m < 16; ++m) {
    float even[16] = {}, odd[16] = {};
    for (int k = 0; k < 16; ++k) {
      const float low = lower_half(a.lanes[m][k]), high = upper_half(a.lanes[m][k]);
      for (int n = 0; n < 16; ++n) {
        even[n] = flushed(std::fma(low, lower_half(b.lanes[k][n]), even[n]));
        odd[n] = flushed(std::fma(high, upper_half(b.lanes[k][n]), odd[n]));
      }
    }
    for (int n = 0; n < 16; ++n) {
      const float sum = flushed(std::bit_cast<float>(c.lanes[m][n])) + flushed(even[n] + odd[n]);
      c.lanes[m][n] = std::bit_cast<std::uint32_t>(flushed(sum));
    }
  }
}

inline void load_tile(TileRegister& tile, const void* from, Index stride_bytes) {
  for (Index m = 0; m < 16; ++m) std::memcpy(tile.lanes[m], static_cast<const char*>(from) + m * stride_bytes, 64);
}
inline void store_tile(const TileRegister& tile, void* to, Index stride_bytes) {
  for (Index m = 0; m < 16; ++m) std::memcpy(static_cast<char*>(to) + m * stride_bytes, tile.lanes[m], 64);
}

/// Strides in numbers: of float for sums, of bfloat16 for what is multiplied.
class EmulatedTiles {
 public:
  void zero() { std::fill_n(&sums_[0][0], 4, TileRegister()); }
  void load(const float* c, Index stride) {
    for (Index r = 0; r < 2; ++r) {
      for (Index n = 0; n < 2; ++n) load_tile(sums_[r][n], c + 16 * r * stride + 16 * n, 4 * stride);
    }
  }
  void store(float* c, Index stride) {
    for (Index r = 0; r < 2; ++r) {
      for (Index n = 0; n < 2; ++n) store_tile(sums_[r][n], c + 16 * r * stride + 16 * n, 4 * stride);
    }
  }
  /// a: [32, 32], b: two tiles of 16 pairs × 16 columns, b_column apart.
  void multiply(const std::uint16_t* a, Index a_stride, const Bfloat16* b, Index b_column) {
    TileRegister left, right;
    for (Index r = 0; r < 2; ++r) {
      load_tile(left, a + 16 * r * a_stride, 2 * a_stride);
      for (Index n = 0; n < 2; ++n) {
        load_tile(right, b + n * b_column, 64);
        multiply_tiles(sums_[r][n], left, right);
      }
    }
  }

 private:
  TileRegister sums_[2][2];
};

/// Sixteen floats.
struct PlainLanes {
  struct Floats {
    float lane[16];
  };

  template <class F>
  static Floats each(const F& f) {
    Floats r;
    for (int l = 0; l < 16; ++l) r.lane[l] = f(l);
    return r;
  }
  static Floats all(float x) {
    return each([=](int) { return x; });
  }
  static Floats load(const float* from) {
    return each([=](int l) { return from[l]; });
  }
  /// 0 in lanes that are not seen, whose memory is not touched.
  static Floats load(std::uint16_t seen, const float* from) {
    return each([=](int l) { return (seen >> l & 1) != 0 ? from[l] : 0; });
  }
  static void store(float* to, const Floats& x) { std::memcpy(to, x.lane, sizeof x); }
  static Floats add(const Floats& a, const Floats& b) {
    return each([&](int l) { return a.lane[l] + b.lane[l]; });
  }
  static Floats subtract(const Floats& a, const Floats& b) {
    return each([&](int l) { return a.lane[l] - b.lane[l]; });
  }
  static Floats multiply(const Floats& a, const Floats& b) {
    return each([&](int l) { return a.lane[l] * b.lane[l]; });
  }
  /// a·b + c in one rounding
  static Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
    return each([&](int l) { return std::fma(a.lane[l], b.lane[l], c.lane[l]); });
  }
  static Floats max(const Floats& a, const Floats& b) {
    return each([&](int l) { return a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l]; });
  }
  static Floats where(std::uint16_t seen, const Floats& a, const Floats& b) {
    return each([&](int l) { return (seen >> l & 1) != 0 ? a.lane[l] : b.lane[l]; });
  }
  /// p · 2^n, where n stands in the last bits of `shifted`; 0 where x < limit
  static Floats raise_unless_less(const Floats& x, const Floats& limit, const Floats& p, const Floats& shifted) {
    return each([&](int l) {
      if (x.lane[l] < limit.lane[l]) return 0.0f;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p.lane[l]) +
                                  (std::bit_cast<std::uint32_t>(shifted.lane[l]) << 23));
    });
  }
  /// Writes 32 numbers as bfloat16, and adds them as they were rounded to a sum, neighbours to one lane, the second
  /// first (VDPBF16PS).
  static Floats narrow(float* to, const Floats& low, const Floats& high, const Floats& sum) {
    Bfloat16 rounded[32];
    for (int l = 0; l < 16; ++l) rounded[l] = Bfloat16(low.lane[l]), rounded[16 + l] = Bfloat16(high.lane[l]);
    std::memcpy(to, rounded, sizeof rounded);
    return each([&](int l) {
      return sum.lane[l] + static_cast<float>(rounded[2 * l + 1]) + static_cast<float>(rounded[2 * l]);
    });
  }
  /// Both fold halves onto each other.
  static float max_of(Floats x) {
    for (int half = 8; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) x.lane[l] = x.lane[l] > x.lane[l + half] ? x.lane[l] : x.lane[l + half];
    }
    return x.lane[0];
  }
  static float sum_of(Floats x) {
    for (int half = 8; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) x.lane[l] += x.lane[l + half];
    }
    return x.lane[0];
  }
};

}  // namespace bearing::attend::amx
