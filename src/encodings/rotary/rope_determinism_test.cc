#include <gtest/gtest.h>
#include <bearing/bearing.hpp>

#include <cerrno>
#include <cfenv>
#include <iomanip>
#include <limits>
#include <locale>

#include "support/guarded.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace bearing {
namespace {

using test::Guarded;
using test::Layout;
using test::PositionTensor;
using test::Random;

/// FNV-1a over the bits of results.
class Fingerprint {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    for (const T& value : values) {
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &value, sizeof(T));
      for (unsigned char byte : bytes) value_ = (value_ ^ byte) * 0x100'0000'01B3u;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF2'9CE4'8422'2325u;
};

/// Tables, rotations, rebases and gradients of one type, on fixed data.
template <class T>
void add_results(Fingerprint& print, const Executor& on) {
  Random random(1);
  const Rope ropes[] = {
      {.head_dim = 128, .base = 500'000, .pairing = Pairing::half, .scaling = Llama3Scaling{}},
      {.head_dim = 80, .rotary_dim = 32, .pairing = Pairing::interleaved, .part = RotaryPart::last()},
      {.head_dim = 64, .pairing = Pairing::half, .axes = RopeAxes::interleaved({12, 10, 10})},
      {.head_dim = 10, .pairing = Pairing::interleaved, .scaling = YarnScaling{.factor = 4, .trained_length = 1024}}};
  for (const Rope& rope : ropes) {
    const RopeFrequencies frequencies = resolve(rope);
    std::vector<T> cos(static_cast<std::size_t>(70 * frequencies.pairs())), sin(cos.size());
    PositionTensor<double> far(frequencies.axes, 1, 70);
    far.fill(random, -0x1p31, 0x1p31);
    fill(frequencies, far, dense(cos.data(), 70, frequencies.pairs()), dense(sin.data(), 70, frequencies.pairs()), on);
    print.add(cos);
    print.add(sin);

    const test::Shape shape{3, 5, 37, rope.head_dim};
    Guarded<T> x(shape, Layout::bthd), y(shape, Layout::bhtd), z(shape, Layout::padded);
    x.fill(random);
    PositionTensor<Index> at(frequencies.axes, 3, 37), moved(frequencies.axes, 3, 37);
    at.fill(random, -10, 100'000);
    moved.fill(random, -10, 100'000);
    for (TableMemory memory : {TableMemory::full, TableMemory::compact}) {
      const RopeTable<Compute<T>> table(rope, 50'000 / frequencies.pairs(), {.memory = memory}, on);
      rotate_to(table, x.read(), y.view(), at, on);
      print.add(y.values());
      rotate_backward_to(table, y.read(), z.view(), moved, on);
      print.add(z.values());
    }
    rebase(frequencies, at, frequencies, moved, y.view(), on);
    print.add(y.values());
    std::vector<double> d_theta(static_cast<std::size_t>(frequencies.pairs()));
    rotate_parameter_gradients(frequencies, y.read(), z.read(), at,
                               {.inv_freq = dense(d_theta.data(), frequencies.pairs())}, on);
    print.add(d_theta);
  }
}

std::uint64_t fingerprint(const Executor& on = {}) {
  Fingerprint print;
  test::for_each_type([&](auto type) { add_results<decltype(type)>(print, on); });
  return print.value();
}

// The same bits from every compiler and on every machine: no libm, no contraction, no reassociation. Where a change of
// results is meant, this constant changes with it, and the changelog says so.
TEST(RopeDeterminism, ResultsHaveTheBitsOfEveryOtherBuild) {
  EXPECT_EQ(fingerprint(), 0x860B'DB6C'A978'8409u) << "it is 0x" << std::hex << fingerprint();
}

TEST(RopeDeterminism, ResultsAreTheSameOnEveryTargetAndInAnyOrder) {
  const std::uint64_t wanted = fingerprint();
  EXPECT_EQ(fingerprint(), wanted) << "not even twice in a row";
  test::on_every_target([&] { EXPECT_EQ(fingerprint(), wanted); });
  for (Index workers : {2, 3, 7, 16}) EXPECT_EQ(fingerprint(test::backwards(workers)), wanted) << workers;
}

TEST(RopeDeterminism, ResultsAreTheSameForAnyNumberOfThreads) {
  const std::uint64_t wanted = fingerprint();
  for (Index workers : {3, 16}) {
    test::Workers threads(workers);
    EXPECT_EQ(fingerprint(threads), wanted) << workers << " threads";
  }
}

TEST(RopeDeterminism, ManyMoreWorkersThanTokensServe) {
  const std::uint64_t wanted = fingerprint();
  for (const Index workers : {Index{1} << 40, Index{1} << 61, Index{1} << 62, std::numeric_limits<Index>::max()}) {
    EXPECT_EQ(fingerprint(test::backwards(workers)), wanted) << workers;
  }
  const RopeFrequencies frequencies = resolve({.head_dim = 8, .pairing = Pairing::half});
  std::vector<double> cos(12), sin(12), again(12);
  fill<double>(frequencies, {}, dense(cos.data(), 3, 4), dense(sin.data(), 3, 4));
  fill<double>(frequencies, {}, dense(again.data(), 3, 4), dense(sin.data(), 3, 4), test::backwards(Index{1} << 62));
  EXPECT_EQ(again, cos);
}

// Instructions that convert to 16 bits may take subnormal numbers for zero; NaNs and infinities must come through too.
TEST(RopeDeterminism, ValuesAtTheEdgesOfTheRangeTurnAlikeOnEveryTarget) {
  const std::string before(simd_target());
  for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const RopeTable<float> table(Rope{.head_dim = 192, .pairing = pairing}, 100);
    Guarded<Bfloat16> x({2, 3, 11, 192}, Layout::bthd), y({2, 3, 11, 192}, Layout::bthd);
    Random random(5);
    x.for_each([&](Index b, Index h, Index t, Index d) {
      x.view()(b, h, t, d) = Bfloat16::from_bits(static_cast<std::uint16_t>(random.integer(0, 0xFFFF)));
      if (t % 2 == 0) x.view()(b, h, t, d).bits &= 0x80FF;  // subnormal, or just above
    });
    use_simd_target("scalar");
    rotate_to<Bfloat16>(table, x.read(), y.view(), Positions(7));
    const std::vector<Bfloat16> wanted = y.values();
    Index subnormal = 0;
    for (Bfloat16 value : wanted) subnormal += (value.bits & 0x7F80) == 0 && (value.bits & 0x007F) != 0;
    EXPECT_GT(subnormal, 1000) << "too few to prove anything";
    test::on_every_target([&] {
      rotate_to<Bfloat16>(table, x.read(), y.view(), Positions(7));
      const std::vector<Bfloat16> got = y.values();
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const bool nan = static_cast<float>(wanted[i]) != static_cast<float>(wanted[i]);
        if (nan) {
          EXPECT_NE(static_cast<float>(got[i]), static_cast<float>(got[i])) << i;
        } else {
          EXPECT_EQ(got[i].bits, wanted[i].bits) << i;
        }
      }
    });
    use_simd_target(before);
  }
}

TEST(RopeDeterminism, CallsLeaveErrnoAndTheRoundingModeAlone) {
  fingerprint();  // so that lazy set-up has happened
  errno = 0;
#if defined(__x86_64__)
  const unsigned flushing = _mm_getcsr() & 0x8040u;  // flush to zero, denormals are zero
#endif
  fingerprint();
  std::vector<float> x(64, 1);
  const XposTable<float> xpos({.rope = {.head_dim = 64, .pairing = Pairing::half}}, 28'000);
  rotate(xpos.q, bhtd(x.data(), 1, 1, 1, 64), Positions(28'000));
  EXPECT_THROW(rotate(xpos.q, bhtd(x.data(), 1, 1, 1, 64), Positions(28'400)), RangeError);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
#if defined(__x86_64__)
  EXPECT_EQ(_mm_getcsr() & 0x8040u, flushing);
#endif
}

TEST(RopeDeterminism, ACallersRoundingModeIsKept) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  fingerprint();
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(after, FE_UPWARD);
}

/// A locale that writes 1.000,5 for 1000.5, whether or not the system has one installed.
class Commas : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(RopeDeterminism, ErrorsReadTheSameInEveryLocale) {
  const auto text = []() -> std::string {
    try {
      resolve({.head_dim = 8, .base = -1234.5, .pairing = Pairing::half});
    } catch (const RangeError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string before = text();
  EXPECT_NE(before.find("-1234.5"), std::string::npos) << before;
  const std::locale global = std::locale::global(std::locale(std::locale::classic(), new Commas));
  const std::string with_commas = text();
  std::locale::global(global);
  EXPECT_EQ(with_commas, before);
}

}  // namespace
}  // namespace bearing
