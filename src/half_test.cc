#include <gtest/gtest.h>
#include <bearing/half.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace bearing {
namespace {

// What the two formats are by their definition: a sign, `exponent_bits` of exponent, the rest fraction. Values are
// computed with ldexp in double, where both formats, their midpoints and every float32 are exact.
struct Format {
  int fraction_bits, exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int top() const { return (1 << exponent_bits) - 1; }

  double value(std::uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> fraction_bits) & top();
    const double fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
    const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    if (exponent == top()) {
      return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias() - fraction_bits);
    return sign * std::ldexp(fraction + std::ldexp(1.0, fraction_bits), exponent - bias() - fraction_bits);
  }

  // The nearest value of the format to x ≥ 0, ties to the even fraction, as bits, found by bisection over the values.
  // Overflow: IEEE 754 rounds as if the next power of two were a value, and calls that infinity.
  std::uint32_t nearest(double x) const {
    const std::uint32_t infinity = static_cast<std::uint32_t>(top()) << fraction_bits;
    if (std::isinf(x)) return infinity;
    std::uint32_t low = 0, high = infinity;  // value(low) ≤ x < "value(high)"
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (value(middle) <= x ? low : high) = middle;
    }
    const double above = high == infinity ? std::ldexp(1.0, bias() + 1) : value(high);
    const double down = x - value(low), up = above - x;
    if (down != up) return down < up ? low : high;
    return (low & 1u) == 0 ? low : high;
  }
};

constexpr Format bfloat16{7, 8}, binary16{10, 5};

template <class Half>
constexpr const Format& format() {
  if constexpr (std::is_same_v<Half, Bfloat16>) return bfloat16;
  return binary16;
}

template <class Half>
std::uint32_t expected(float x) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  return sign | format<Half>().nearest(std::abs(static_cast<double>(x)));
}

template <class Half>
class HalfTest : public testing::Test {};
using Halves = testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryValueReadsAsItsDefinitionSays) {
  for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
    const float got = static_cast<float>(TypeParam::from_bits(static_cast<std::uint16_t>(bits)));
    const double wanted = format<TypeParam>().value(bits);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_EQ(std::signbit(got), (bits & 0x8000u) != 0) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(got), wanted) << bits;
      ASSERT_EQ(std::signbit(got), (bits & 0x8000u) != 0) << bits;
    }
  }
}

TYPED_TEST(HalfTest, EveryValueComesBackFromFloat) {
  // A NaN comes back with its payload and the quiet bit set.
  const std::uint32_t quiet = 1u << (format<TypeParam>().fraction_bits - 1);
  for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
    const auto half = TypeParam::from_bits(static_cast<std::uint16_t>(bits));
    const TypeParam back(static_cast<float>(half));
    const bool is_nan = std::isnan(format<TypeParam>().value(bits));
    ASSERT_EQ(back.bits, is_nan ? (bits | quiet) : bits);
    ASSERT_EQ(half == half, !is_nan) << bits;
  }
}

TYPED_TEST(HalfTest, TiesGoToTheEvenNeighbour) {
  // Between every two neighbours, the last pair reaching for infinity: the midpoint and the floats beside it.
  const std::uint32_t infinity = static_cast<std::uint32_t>(format<TypeParam>().top())
                                 << format<TypeParam>().fraction_bits;
  for (std::uint32_t low = 0; low < infinity; ++low) {
    const double above =
        low + 1 == infinity ? std::ldexp(1.0, format<TypeParam>().bias() + 1) : format<TypeParam>().value(low + 1);
    const double exact_middle = format<TypeParam>().value(low) / 2 + above / 2;
    const float middle = static_cast<float>(exact_middle);
    ASSERT_EQ(static_cast<double>(middle), exact_middle) << "float32 holds every midpoint";
    const std::uint32_t even = low + (low & 1u);
    ASSERT_EQ(TypeParam(middle).bits, even) << low;
    ASSERT_EQ(TypeParam(-middle).bits, even | 0x8000u) << low;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0f)).bits, low) << low;
    ASSERT_EQ(TypeParam(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits, low + 1) << low;
  }
}

TYPED_TEST(HalfTest, FloatsOfEveryKindRoundToTheNearest) {
  // Every 4,099th float32 (a prime, so that all low bits occur): a million of them, subnormals and infinities too.
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 4'099) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(u));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(x)))) << u;
    } else {
      ASSERT_EQ(TypeParam(x).bits, expected<TypeParam>(x)) << u;
    }
  }
}

TYPED_TEST(HalfTest, ANanStaysANanWhateverItsPayload) {
  for (const std::uint32_t bits : {0x7F80'0001u, 0x7FC0'0000u, 0x7FFF'FFFFu, 0xFF80'0001u, 0xFFFF'FFFFu}) {
    const TypeParam half(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(half))) << bits;
    EXPECT_EQ((half.bits & 0x8000u) != 0, (bits & 0x8000'0000u) != 0) << bits;
    EXPECT_FALSE(half == half);
  }
}

TYPED_TEST(HalfTest, ZerosOfBothSignsAreEqual) {
  EXPECT_TRUE(TypeParam(0.0f) == TypeParam(-0.0f));
  EXPECT_NE(TypeParam(0.0f).bits, TypeParam(-0.0f).bits);
}

TEST(Float16, OverflowsWhereTheStandardSays) {
  EXPECT_EQ(Float16(65'504.0f).bits, 0x7BFF);                        // the largest
  EXPECT_EQ(Float16(std::nextafter(65'520.0f, 0.0f)).bits, 0x7BFF);  // below half a unit more
  EXPECT_EQ(Float16(65'520.0f).bits, 0x7C00);                        // the tie
  EXPECT_EQ(Float16(std::numeric_limits<float>::max()).bits, 0x7C00);
}

TEST(Half, ConversionsWorkAtCompileTime) {
  static_assert(Bfloat16(1.0f).bits == 0x3F80 && static_cast<float>(Bfloat16::from_bits(0xC000)) == -2.0f);
  static_assert(Float16(1.0f).bits == 0x3C00 && static_cast<float>(Float16::from_bits(0x0001)) == 0x1p-24f);
  static_assert(std::is_same_v<Compute<Float16>, float> && std::is_same_v<Compute<const double>, double>);
}

}  // namespace
}  // namespace bearing
