#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "attention/amx/amx_kernels.hpp"

// What the instructions do, in plain loops and to the bit.

namespace bearing::attend::amx {

/// A register: sixteen rows of 64 bytes, as floats or as pairs of bfloat16.
struct TileRegister {
  std::uint32_t lanes[16][16] = {};
};

inline float flushed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7F80'0000u) == 0 ? bits & 0x8000'0000u : bits);
}

/// The lower or upper bfloat16 of a pair.
inline float lower_half(std::uint32_t pair) { return flushed(std::bit_cast<float>(pair << 16)); }
inline float upper_half(std::uint32_t pair) { return flushed(std::bit_cast<float>(pair & 0xFFFF'0000u)); }

/// c + a·b in one rounding, sixteen times, a and b of bfloat16: float holds their product exactly, unless it is too
/// small or too large for a normal number. Without branches, as compilers make vectors of such loops alone.
inline void add_products(float a, const float* b, float* c) {
  constexpr std::uint32_t exponent = 0x7F80'0000u;
  float product[16];
  for (int n = 0; n < 16; ++n) product[n] = a * b[n];
  std::uint32_t others = 0;
  for (int n = 0; n < 16; ++n) {
    const std::uint32_t of = std::bit_cast<std::uint32_t>(product[n]) & exponent;
    const std::uint32_t factor = std::bit_cast<std::uint32_t>(b[n]) & exponent;
    others |= static_cast<std::uint32_t>(of == exponent) |
              (static_cast<std::uint32_t>(of == 0) & static_cast<std::uint32_t>(factor != 0));
  }
  if (others == 0 || a == 0) {
    for (int n = 0; n < 16; ++n) c[n] = flushed(product[n] + c[n]);
  } else {
    for (int n = 0; n < 16; ++n) c[n] = flushed(std::fma(a, b[n], c[n]));
  }
}

/// TDPBF16PS, c += a · b, as Intel's manual has it: even and odd features are summed apart, each product added in one
/// rounding, then to each other, then to c; numbers below the normal range are zero, coming and going.
inline void multiply_tiles(TileRegister& c, const TileRegister& a, const TileRegister& b) {
  float b_low[16][16], b_high[16][16];
  for (int k = 0; k < 16; ++k) {
    for (int n = 0; n < 16; ++n) b_low[k][n] = lower_half(b.lanes[k][n]), b_high[k][n] = upper_half(b.lanes[k][n]);
  }
  for (int m = 0; m < 16; ++m) {
    float even[16] = {}, odd[16] = {};
    for (int k = 0; k < 16; ++k) {
      const float low = lower_half(a.lanes[m][k]), high = upper_half(a.lanes[m][k]);
      add_products(low, b_low[k], even);
      add_products(high, b_high[k], odd);
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
  /// Sixteen of 32 rows.
  template <int half>
  void row(const std::uint16_t* a, Index stride) {
    load_tile(rows_[half], a + 16 * half * stride, 2 * stride);
  }
  /// 16 pairs × 16 columns
  template <int half>
  void column(const Bfloat16* b) {
    load_tile(columns_[half], b, 64);
  }
  template <int row, int column>
  void multiply() {
    multiply_tiles(sums_[row][column], rows_[row], columns_[column]);
  }

 private:
  TileRegister sums_[2][2], rows_[2], columns_[2];
};

/// The largest float that does not round to an infinite bfloat16.
inline constexpr float largest_rounded = 0x1.fefffep127f;

/// Sixteen floats, where numbers below the normal range are zero too.
struct PlainLanes {
  struct Floats {
    float lane[16];
  };
  struct Environment {};

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
  static void store(void* to, const Floats& x) { std::memcpy(to, x.lane, sizeof x); }
  static Floats add(const Floats& a, const Floats& b) {
    return each([&](int l) { return flushed(flushed(a.lane[l]) + flushed(b.lane[l])); });
  }
  static Floats subtract(const Floats& a, const Floats& b) {
    return each([&](int l) { return flushed(flushed(a.lane[l]) - flushed(b.lane[l])); });
  }
  static Floats multiply(const Floats& a, const Floats& b) {
    return each([&](int l) { return flushed(flushed(a.lane[l]) * flushed(b.lane[l])); });
  }
  /// a·b + c in one rounding
  static Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
    return each([&](int l) { return flushed(std::fma(flushed(a.lane[l]), flushed(b.lane[l]), flushed(c.lane[l]))); });
  }
  static Floats divide(const Floats& a, const Floats& b) {
    return each([&](int l) { return flushed(flushed(a.lane[l]) / flushed(b.lane[l])); });
  }
  /// b where one is a NaN.
  static Floats max(const Floats& a, const Floats& b) {
    return each([&](int l) { return a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l]; });
  }
  /// b where one is a NaN.
  static Floats min(const Floats& a, const Floats& b) {
    return each([&](int l) { return a.lane[l] < b.lane[l] ? a.lane[l] : b.lane[l]; });
  }
  static Floats abs(const Floats& x) {
    return each([&](int l) { return std::abs(x.lane[l]); });
  }
  /// |x| with the sign of y; x ≥ 0.
  static Floats with_sign(const Floats& x, const Floats& y) {
    return each([&](int l) { return std::copysign(x.lane[l], y.lane[l]); });
  }
  static Floats where(std::uint16_t seen, const Floats& a, const Floats& b) {
    return each([&](int l) { return (seen >> l & 1) != 0 ? a.lane[l] : b.lane[l]; });
  }
  /// One bit for each of sixteen marks that is seen and not 0; others are not touched.
  static std::uint16_t marked(std::uint16_t seen, const char* marks) {
    unsigned bits = 0;
    for (int l = 0; l < 16; ++l) bits |= static_cast<unsigned>((seen >> l & 1) != 0 && marks[l] != 0) << l;
    return static_cast<std::uint16_t>(bits);
  }
  /// One NaN, the quiet one, in place of any.
  static Floats quiet(const Floats& x) {
    return each([&](int l) { return std::isnan(x.lane[l]) ? std::bit_cast<float>(0xFFC00000u) : x.lane[l]; });
  }
  /// x − ⌊x⌋, rounded down; 0 for −∞.
  static Floats fraction(const Floats& x) {
    return each([&](int l) {
      if (std::isinf(x.lane[l])) return 0.0f;
      const float whole = std::floor(x.lane[l]), f = x.lane[l] - whole;
      return flushed(f + whole > x.lane[l] ? std::nextafter(f, 0.0f) : f);
    });
  }
  /// p · 2^⌊x⌋ in one rounding
  static Floats scale(const Floats& p, const Floats& x) {
    return each([&](int l) {
      if (std::isnan(x.lane[l])) return x.lane[l];
      const int n = static_cast<int>(std::clamp(std::floor(x.lane[l]), -1000.0f, 1000.0f));
      return p.lane[l] != 0 && std::ilogb(p.lane[l]) + n < -126 ? 0.0f : std::ldexp(p.lane[l], n);
    });
  }
  /// What is cut off after it leaves the nearest bfloat16; what is halfway between two goes up.
  static Floats add_half(const Floats& x) {
    return each([&](int l) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.lane[l]) + 0x8000u); });
  }
  static Floats add_half_unless_nan(const Floats& x) {
    const Floats more = add_half(x);
    return each([&](int l) { return std::isnan(x.lane[l]) ? x.lane[l] : more.lane[l]; });
  }
  /// What is so large that it would become infinite, and is no number, stays as it is.
  static Floats add_half_in_range(const Floats& x) {
    const Floats more = add_half(x);
    return each([&](int l) { return std::abs(x.lane[l]) <= largest_rounded ? more.lane[l] : x.lane[l]; });
  }
  /// The upper half of each lane's bits, a bfloat16.
  static Floats cut(const Floats& x) {
    return each([&](int l) { return std::bit_cast<float>(upper(x.lane[l])); });
  }
  /// Two bfloat16 in each lane.
  static Floats pairs(const Floats& low, const Floats& high) {
    return each([&](int l) { return std::bit_cast<float>(upper(low.lane[l]) >> 16 | upper(high.lane[l])); });
  }
  /// to [16, 16], rows `stride` apart ← the transposed of from
  static void transpose(const float (*from)[16], float* to, Index stride) {
    for (int i = 0; i < 16; ++i) {
      for (int l = 0; l < 16; ++l) to[l * stride + i] = from[i][l];
    }
  }
  static Floats ceil(const Floats& x) {
    return each([&](int l) { return std::ceil(x.lane[l]); });
  }
  /// One bit for each lane.
  static std::uint16_t equal(const Floats& a, const Floats& b) {
    unsigned bits = 0;
    for (int l = 0; l < 16; ++l) bits |= static_cast<unsigned>(a.lane[l] == b.lane[l]) << l;
    return static_cast<std::uint16_t>(bits);
  }
  /// Of sixteen rows, a lane each. Both fold halves onto each other.
  static Floats max_of(const float (*rows)[16]) {
    return fold_rows(rows, [](float a, float b) { return a > b ? a : b; });
  }
  static Floats sum_of(const float (*rows)[16]) {
    return fold_rows(rows, [](float a, float b) { return flushed(flushed(a) + flushed(b)); });
  }

 private:
  static std::uint32_t upper(float x) { return std::bit_cast<std::uint32_t>(x) & 0xFFFF'0000u; }

  template <class F>
  static Floats fold_rows(const float (*rows)[16], const F& fold) {
    return each([&](int row) {
      Floats x = load(rows[row]);
      for (int half = 8; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) x.lane[l] = fold(x.lane[l], x.lane[l + half]);
      }
      return x.lane[0];
    });
  }
};

}  // namespace bearing::attend::amx
