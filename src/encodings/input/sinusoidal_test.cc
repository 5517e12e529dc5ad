#include <gtest/gtest.h>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/sinusoidal.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/input_terms.hpp"
#include "support/oracle.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::InputPoint;
using test::Params;
using test::Place;

constexpr SinusoidalLayout layouts[] = {SinusoidalLayout::interleaved, SinusoidalLayout::concatenated,
                                        SinusoidalLayout::tensor2tensor, SinusoidalLayout::cos_first,
                                        SinusoidalLayout::cos_first_shifted};

template <class T>
std::vector<T> table(const Sinusoidal& spec, const Positions& at, Index time) {
  std::vector<T> rows(static_cast<std::size_t>(time * spec.dim));
  fill<T>(spec, at, dense(rows.data(), time, spec.dim));
  return rows;
}

struct GoldenTable {
  const char* file;
  SinusoidalLayout layout;
};

TEST(Sinusoidal, TablesAreThoseOfIndependentImplementations) {
  for (const GoldenTable& source : {GoldenTable{"fairseq_n12_d8_padNone", SinusoidalLayout::tensor2tensor},
                                    GoldenTable{"paper_interleaved_odd_n12_d9", SinusoidalLayout::interleaved},
                                    GoldenTable{"t2t_n8_d16_start100", SinusoidalLayout::tensor2tensor},
                                    GoldenTable{"whisper_n20_d16", SinusoidalLayout::tensor2tensor}}) {
    SCOPED_TRACE(source.file);
    const rapidjson::Document golden = test::golden(std::string("sinusoidal/") + source.file + ".json");
    const Index first = golden.HasMember("start_index") ? golden["start_index"].GetInt64() : 0;
    const std::vector<double> wanted = test::numbers(golden["table"]);
    const Sinusoidal spec{.dim = golden["d"].GetInt64(), .layout = source.layout};
    const std::vector<double> got = table<double>(spec, Positions(first), golden["n"].GetInt64());
    ASSERT_EQ(got.size(), wanted.size());
    // The sources form p·ω in double: p ≤ 108 times 2^-53 and the frequency's own few roundings.
    for (std::size_t x = 0; x < got.size(); ++x) EXPECT_NEAR(got[x], wanted[x], 108 * 0x1p-50);
  }
}

TEST(Sinusoidal, FoundingDocumentsTablesHaveTheseValues) {
  const rapidjson::Document golden = test::golden("seeds/worked_examples.json");
  const rapidjson::Value& d20 = golden["seed_000_table"];  // rows are dimensions, columns positions
  const std::vector<double> first = table<double>({.dim = 20, .layout = SinusoidalLayout::interleaved}, {}, 4);
  const std::vector<double> exact = test::numbers(d20["exact"]), printed = test::numbers(d20["printed"]);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t p = 0; p < 4; ++p) {
      EXPECT_NEAR(first[p * 20 + i], exact[i * 4 + p], 0x1p-53);
      EXPECT_NEAR(first[p * 20 + i], printed[i * 4 + p], 6e-4);  // three digits, some cut rather than rounded
    }
  }
  const std::vector<double> d4 = table<double>({.dim = 4, .layout = SinusoidalLayout::interleaved}, Positions(1), 6);
  const std::vector<double> pe = test::numbers(golden["seed_000_pe_d4"]["exact"]);
  for (std::size_t x = 0; x < d4.size(); ++x) EXPECT_NEAR(d4[x], pe[x], 0x1p-53);
  // The other document's listing has i·π where the formula has 1; its own text gives the formula.
  const std::vector<double> d8 = table<double>({.dim = 8, .layout = SinusoidalLayout::interleaved}, Positions(3), 1);
  const std::vector<double> formula = test::numbers(golden["seed_001_code"]["formula"]);
  for (std::size_t x = 0; x < d8.size(); ++x) EXPECT_NEAR(d8[x], formula[x], 0x1p-53);
}

TEST(Sinusoidal, FrequenciesRunFromOneToTheBase) {
  for (const SinusoidalLayout layout : layouts) {
    const std::vector<double> omega = sinusoidal_frequencies({.dim = 64, .layout = layout});
    ASSERT_EQ(omega.size(), 32u);
    EXPECT_EQ(omega[0], 1.0);
    const bool shifted = layout == SinusoidalLayout::tensor2tensor || layout == SinusoidalLayout::cos_first_shifted;
    EXPECT_DOUBLE_EQ(omega[31], shifted ? 1e-4 : std::pow(1e4, -62.0 / 64));
    EXPECT_EQ(sinusoidal_frequencies({.dim = 3, .layout = layout})[0], 1.0);
  }
}

TEST(Sinusoidal, AgreesWithItsReferenceInEveryLayoutAtEveryWidth) {
  // Angles up to 154 radians, rounded from frequencies with some ten roundings of 2^-53.
  const double tolerance = 154 * 12 * 0x1p-53;
  Params none(Params::Shapes{});
  for (const SinusoidalLayout layout : layouts) {
    for (const Index dim : {2, 3, 6, 32, 37, 130, 256, 257}) {
      const Sinusoidal spec{.dim = dim, .layout = layout, .scale = 0.25, .padding_position = 4};
      const auto make = [&]<class A>(Params&) { return SinusoidalInputs<A>(spec); };
      const auto reference = [&](const Params&, const InputPoint& x) {
        return reference::sinusoidal(spec, x.d, x.at[0]);
      };
      test::expect_reference_rows(make, none, test::input_cases({Place::offsets, Place::shuffled, Place::real}),
                                  reference, tolerance);
    }
  }
}

TEST(Sinusoidal, EveryTypeAndStrideHasTheSameRows) {
  Params none(Params::Shapes{});
  for (const Index dim : {6, 32, 37}) {
    for (const SinusoidalLayout layout : layouts) {
      const auto make = [&]<class A>(Params&) { return SinusoidalInputs<A>({.dim = dim, .layout = layout}); };
      test::expect_every_type(make, none, {{1, 1}, {2, 11, Place::shuffled}, {2, 131}});
      test::expect_same_input_bits_for_any_executor(make, none, test::input_cases({Place::offsets, Place::real}));
    }
  }
}

// Runs of consecutive rows take another way than single rows; large ones a third, past the caches.
TEST(Sinusoidal, RunsHaveTheBitsOfSingleRows) {
  for (const SinusoidalLayout layout : layouts) {
    for (const Index dim : {5, 64, 67, 1008, 1024}) {
      const Sinusoidal spec{.dim = dim, .layout = layout, .scale = std::sqrt(2.0 / static_cast<double>(dim))};
      const Index time = dim > 1000 ? 1100 : 300, first = -40;
      std::vector<Index> at;
      for (Index t = 0; t < time; ++t) at.push_back(first + time - 1 - t);  // falling: no run
      std::vector<float> falling = table<float>(spec, dense(at.data(), time), time);
      std::vector<float> memory(static_cast<std::size_t>(time * dim) + 16);
      float* aligned = memory.data();
      while (reinterpret_cast<std::uintptr_t>(aligned) % 64 != 0) ++aligned;
      for (const float learned : {1.0F, -0.3F}) {  // it multiplies what is rounded already
        for (float& number : falling) number *= learned;
        const SinusoidalInputs<float> encoding(spec, {.scale = {dense(&learned, 1)}});
        test::on_every_target([&] {
          fill<float>(encoding, Positions(first), dense(aligned, time, dim));
          for (Index t = 0; t < time; ++t) {
            ASSERT_EQ(std::memcmp(aligned + t * dim, falling.data() + (time - 1 - t) * dim,
                                  static_cast<std::size_t>(dim) * sizeof(float)),
                      0)
                << "layout " << static_cast<int>(layout) << ", dim " << dim << ", learned scale " << learned
                << ", position " << first + t;
          }
        });
      }
    }
  }
}

TEST(Sinusoidal, IsAddedWithTheBitsOfItsRows) {
  const std::vector<double> scattered{3, 1, 4, 1, 5, 9.5, 2, 6, 0, -7};
  float learned = 0.3f;
  const Param<float, 1> scales[] = {{}, {dense(&learned, 1)}};
  test::on_every_target([&] {
    for (const SinusoidalLayout layout : layouts) {
      for (const Index dim : {2, 7, 64, 203}) {
        for (const Param<float, 1>& scale : scales) {
          const Sinusoidal spec{.dim = dim, .layout = layout, .padding_position = 100};
          const SinusoidalInputs<float> encoding(spec, {.scale = scale});
          const auto agrees = [&](const Positions& at, Index time) {
            SCOPED_TRACE(testing::Message()
                         << "layout " << static_cast<int>(layout) << ", dim " << dim << ", time " << time);
            const Index stride = dim + 5;
            std::vector<float> rows(static_cast<std::size_t>(time * dim)), x(static_cast<std::size_t>(time * stride));
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.125f * static_cast<float>(i % 53) - 3.0f;
            std::vector<float> wanted = x;
            fill<float>(encoding, at, dense(rows.data(), 1, time, dim));
            for (Index t = 0; t < time; ++t) {
              for (Index d = 0; d < dim; ++d) {
                wanted[static_cast<std::size_t>(t * stride + d)] += rows[static_cast<std::size_t>(t * dim + d)];
              }
            }
            add<float>(encoding, at, View<float, 3>{x.data(), {1, time, dim}, {time * stride, stride, 1}});
            EXPECT_EQ(x, wanted);
          };
          for (const Index time : {1, 63, 64, 65, 100, 101, 102, 515, 1100}) agrees(Positions(0), time);
          // Of 2^20 pairs on, what is added to is read before.
          const bool halves = layout == SinusoidalLayout::concatenated, turns = layout == SinusoidalLayout::interleaved;
          if (dim == 203 && (halves || turns) && scale.value.data == nullptr) agrees(Positions(0), 9'600);
          agrees(Positions(70), 200);
          agrees(Positions(dense(scattered.data(), 10)), 10);
        }
      }
    }
  });
}

// The frequency of the definition, with 320 bits, and cos and sin by MPFR.
TEST(Sinusoidal, ValuesAreRightToAnUlpAtAnyPosition) {
  constexpr Index dim = 24;
  for (const SinusoidalLayout layout : layouts) {
    const Sinusoidal spec{.dim = dim, .layout = layout};
    const bool shifted = layout == SinusoidalLayout::tensor2tensor || layout == SinusoidalLayout::cos_first_shifted;
    const std::vector<SinusoidColumn> columns = sinusoidal_columns(spec);
    for (const Index i : {0, 1, 5, 11}) {
      const auto omega = test::TrueFrequency::power(1e4, i, shifted ? dim / 2 - 1 : dim / 2);
      std::vector<Index> at = omega.near_quarter_turns(max_position);
      for (const Index p : {1, 4095, 131'071, 1 << 24, (1 << 30) + 7}) at.push_back(p);
      at.push_back(max_position);
      at.push_back(-max_position);
      const Index time = static_cast<Index>(at.size());
      const std::vector<float> f32 = table<float>(spec, dense(at.data(), time), time);
      const std::vector<double> f64 = table<double>(spec, dense(at.data(), time), time);
      for (Index t = 0; t < time; ++t) {
        const Index p = at[static_cast<std::size_t>(t)];
        const test::TrueCosSin truth = omega.cos_sin(static_cast<double>(p));
        for (Index d = 0; d < dim; ++d) {
          const SinusoidColumn& column = columns[static_cast<std::size_t>(d)];
          if (column.pair != i) continue;
          const test::Truth& value = column.part == SinusoidPart::sine ? truth.sin : truth.cos;
          const double allowed = std::abs(p) <= (1 << 24) ? 0.55 : 1;
          EXPECT_LE(test::ulps(f32[static_cast<std::size_t>(t * dim + d)], value), allowed) << p << ' ' << d;
          EXPECT_LE(test::ulps(f64[static_cast<std::size_t>(t * dim + d)], value), 2) << p << ' ' << d;
        }
      }
    }
  }
}

TEST(Sinusoidal, LearnedScaleAndFrequenciesHaveGradients) {
  test::compared_gradients() = 0;
  for (const SinusoidalLayout layout : layouts) {
    for (const Index dim : {5, 12, 134}) {
      const bool even_pairs = layout != SinusoidalLayout::interleaved && layout != SinusoidalLayout::concatenated;
      const Index pairs = even_pairs ? dim / 2 : (dim + 1) / 2;
      Params params(Params::Shapes{{1}, {pairs}}, 0.1, 1);
      const Sinusoidal spec{.dim = dim, .layout = layout, .scale = 1.5, .padding_position = 5};
      const auto make = [&]<class A>(Params& p) {
        return SinusoidalInputs<A>(spec, {p.param<A, 1>(0), p.param<A, 1>(1)});
      };
      const auto reference = [&](const Params& p, const InputPoint& x) {
        return p.value<1>(0)(0) * reference::sinusoidal(spec, p.value<1>(1), x.d, x.at[0]);
      };
      const auto cases = test::input_cases({Place::offsets, Place::shuffled, Place::real});
      test::expect_reference_rows(make, params, cases, reference, 154 * 0x1p-52);
      test::expect_input_gradients(make, params, cases, reference);
      test::expect_same_input_bits_for_any_executor(make, params, cases);
      // A frequency's gradient sums up to 131·2 terms of up to 131 in double: their float weights are exact, one
      // rounding remains a tile and sequence.
      test::expect_float_input_gradients(make, params, cases, 131);
    }
  }
  EXPECT_GE(test::compared_gradients(), 3000);
}

TEST(Sinusoidal, OnlyWhatIsWantedGetsAGradient) {
  Params params(Params::Shapes{{1}, {4}}, 0.1, 1);
  const Sinusoidal spec{.dim = 8, .layout = SinusoidalLayout::concatenated};
  const test::InputCase c{2, 7};
  const test::InputData data(c, 8, 12);
  const auto make = [&]<class A>(Params& p) { return SinusoidalInputs<A>(spec, {.scale = p.param<A, 1>(0)}); };
  const auto reference = [&](const Params& p, const InputPoint& x) {
    return p.value<1>(0)(0) * reference::sinusoidal(spec, x.d, x.at[0]);
  };
  test::expect_input_gradients(make, params, {c},
                               [&](const Params& p, const InputPoint& x) { return reference(p, x); });
  EXPECT_EQ(params.grads(1), std::vector<double>(4));
  EXPECT_EQ(SinusoidalInputs<double>(spec).grad_block(0, 0).size(), 0);
  add_backward<double>(SinusoidalInputs<double>(spec), data.at(), data.weights<double>());  // nothing to add to
}

TEST(Sinusoidal, BaseHasAGradientThroughTheFrequencies) {
  for (const SinusoidalLayout layout : layouts) {
    Sinusoidal spec{.dim = 10, .base = 50, .layout = layout};
    const test::InputCase c{1, 9};
    const test::InputData data(c, spec.dim, 12);
    std::vector<double> omega = sinusoidal_frequencies(spec), d_omega(omega.size());
    const Index pairs = static_cast<Index>(omega.size());
    const SinusoidalInputs<double> encoding(
        spec, {.frequencies = {dense<const double>(omega.data(), pairs), dense(d_omega.data(), pairs)}});
    add_backward<double>(encoding, data.at(), data.weights<double>());
    const double d_base = sinusoidal_base_gradient(spec, dense<const double>(d_omega.data(), pairs));
    const auto loss = [&](double base) {
      Sinusoidal other = spec;
      other.base = base;
      double sum = 0;
      data.over_points([&](const InputPoint& x) {
        sum += data.weights<double>()(x.b, x.t, x.d) * reference::sinusoidal(other, x.d, x.at[0]);
      });
      return sum;
    };
    EXPECT_NEAR(d_base, (loss(50 + 0x1p-12) - loss(50 - 0x1p-12)) / 0x1p-11, 1e-8);
  }
}

TEST(Sinusoidal, ColumnsOfOneLayoutArePermutedIntoAnother) {
  for (const Index dim : {8, 9}) {
    for (const SinusoidalLayout from : layouts) {
      for (const SinusoidalLayout to : layouts) {
        std::vector<Index> order;
        try {
          order = sinusoidal_column_order(from, to, dim);
        } catch (const ShapeError&) {
          continue;
        }
        const std::vector<double> have = table<double>({.dim = dim, .layout = from}, Positions(3), 5);
        const std::vector<double> want = table<double>({.dim = dim, .layout = to}, Positions(3), 5);
        for (std::size_t t = 0; t < 5; ++t) {
          for (std::size_t d = 0; d < order.size(); ++d) {
            EXPECT_EQ(want[t * order.size() + d], have[t * order.size() + static_cast<std::size_t>(order[d])]);
          }
        }
      }
    }
  }
  EXPECT_EQ(sinusoidal_column_order(SinusoidalLayout::interleaved, SinusoidalLayout::concatenated, 6),
            (std::vector<Index>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(sinusoidal_column_order(SinusoidalLayout::concatenated, SinusoidalLayout::cos_first, 4),
            (std::vector<Index>{2, 3, 0, 1}));
  EXPECT_EQ(sinusoidal_column_order(SinusoidalLayout::tensor2tensor, SinusoidalLayout::cos_first_shifted, 5),
            (std::vector<Index>{2, 3, 0, 1, 4}));
}

TEST(Sinusoidal, AnOffsetIsALinearMap) {
  const rapidjson::Document golden = test::golden("seeds/worked_examples.json");
  const rapidjson::Value& shift = golden["seed_000_shift"];
  const double omega = shift["w"].GetDouble(), t = shift["t"].GetDouble(), phi = shift["phi"].GetDouble();
  const std::vector<double> m = test::numbers(shift["M"]);
  const double at[] = {t, phi, t + phi};
  double rows[6] = {};
  const SinusoidalInputs<double> encoding({.dim = 2, .layout = SinusoidalLayout::interleaved},
                                          {.frequencies = {dense(&omega, 1)}});
  fill<double>(encoding, dense(at, 3), dense(rows, 3, 2));
  const double sin = rows[0], cos = rows[1];
  // M_φ = [[cos ωφ, sin ωφ], [−sin ωφ, cos ωφ]]; two products and a sum round to 2^-53 each.
  EXPECT_NEAR(rows[3], m[0], 0x1p-52);
  EXPECT_NEAR(rows[2], m[1], 0x1p-52);
  EXPECT_NEAR(m[0] * sin + m[1] * cos, rows[4], 0x1p-51);
  EXPECT_NEAR(m[2] * sin + m[3] * cos, rows[5], 0x1p-51);
}

TEST(Sinusoidal, DotProductsDependOnTheDistanceAndDoNotFallSteadily) {
  constexpr Index length = 4097, dim = 128;
  const std::vector<double> rows = table<double>({.dim = dim, .layout = SinusoidalLayout::interleaved}, {}, length);
  const auto dot = [&](Index a, Index b) {
    double sum = 0;
    for (Index d = 0; d < dim; ++d) {
      sum += rows[static_cast<std::size_t>(a * dim + d)] * rows[static_cast<std::size_t>(b * dim + d)];
    }
    return sum;
  };
  EXPECT_NEAR(dot(0, 57), dot(1000, 1057), 128 * 0x1p-52);
  EXPECT_NEAR(dot(57, 0), dot(0, 57), 128 * 0x1p-52);
  Index rises = 0, negative = 0;
  for (Index k = 1; k < length; ++k) {
    rises += dot(0, k) > dot(0, k - 1) ? 1 : 0;
    negative += dot(0, k) < 0 ? 1 : 0;
  }
  EXPECT_EQ(rises, 1992);
  EXPECT_EQ(negative, 420);
}

TEST(Sinusoidal, WrongCallsSayWhatMustHold) {
  const auto layout = SinusoidalLayout::interleaved;
  const auto make = [](const Sinusoidal& spec) { SinusoidalInputs<float> encoding(spec); };
  expect_error<ShapeError>([&] { make({.dim = 1, .layout = layout}); },
                           "[Sinusoidal] dim: must be from 2 to 65536, got 1");
  expect_error<ShapeError>([&] { make({.dim = 4, .layout = static_cast<SinusoidalLayout>(7)}); },
                           "[Sinusoidal] layout: must be one of the five, got 7");
  expect_error<RangeError>([&] { make({.dim = 4, .base = 0, .layout = layout}); },
                           "[Sinusoidal] base: must be finite and above 0, got 0");
  expect_error<RangeError>([&] { make({.dim = 4, .layout = layout, .frequency_scale = INFINITY}); },
                           "[Sinusoidal] frequency_scale: must be finite and above 0, got inf");
  expect_error<RangeError>([&] { make({.dim = 4, .layout = layout, .scale = 0}); },
                           "[Sinusoidal] scale: must be from 2^-64 to 2^64 in magnitude, got 0");
  expect_error<RangeError>(
      [&] { make({.dim = 4, .layout = layout, .frequency_scale = 10'000}); },
      "[SinusoidalInputs] frequencies: must be 0 or from 2^-800 to 2^13 radians per token, got 10000");
  const float omega[] = {1, NAN};
  expect_error<RangeError>(
      [&] { SinusoidalInputs<float> encoding({.dim = 4, .layout = layout}, {.frequencies = {dense(omega, 2)}}); },
      "[SinusoidalInputs] frequencies[1]: must be finite, got nan");
  expect_error<ShapeError>(
      [&] { SinusoidalInputs<float> encoding({.dim = 6, .layout = layout}, {.frequencies = {dense(omega, 2)}}); },
      "[SinusoidalInputs] frequencies: must have shape [3], got [2]");
  float d_scale[2] = {};
  expect_error<ShapeError>(
      [&] {
        SinusoidalInputs<float> encoding({.dim = 4, .layout = layout}, {.scale = {dense(omega, 1), dense(d_scale, 2)}});
      },
      "[SinusoidalInputs] scale.grad: must have the shape of the value, [1], got [2]");
  expect_error<ShapeError>(
      [] { sinusoidal_column_order(SinusoidalLayout::interleaved, SinusoidalLayout::tensor2tensor, 8); },
      "[sinusoidal_column_order] to: must have the exponents of `from`, i·2/8, got i·1/3; dim is 8");
  const double one[] = {1};
  expect_error<ShapeError>([&] { sinusoidal_base_gradient({.dim = 4, .layout = layout}, dense(one, 1)); },
                           "[sinusoidal_base_gradient] d_frequencies: must have shape [2], got [1]");
}

TEST(Sinusoidal, NothingIsWrittenWhereACallIsWrong) {
  const SinusoidalInputs<float> encoding({.dim = 4, .layout = SinusoidalLayout::concatenated});
  std::vector<float> x(12, 7.0f);
  const std::vector<double> at{0, 1, NAN}, both(6);
  expect_error<ShapeError>([&] { fill<float>(encoding, {}, dense(x.data(), 3, 3)); },
                           "[fill] rows: must be [batch, time, dim] with dim = 4, got shape [1, 3, 3]");
  expect_error<RangeError>([&] { add<float>(encoding, dense(at.data(), 3), dense(x.data(), 1, 3, 4)); },
                           "[add] positions: must be from -2^31 to 2^31, got nan at [axis 0, batch 0, time 2]");
  expect_error<ShapeError>([&] { fill<float>(encoding, dense(both.data(), 2, 1, 3), dense(x.data(), 3, 4)); },
                           "[fill] positions: must have one axis for Sinusoidal, got 2");
  EXPECT_EQ(x, std::vector<float>(12, 7.0f));
}

}  // namespace
}  // namespace bearing
