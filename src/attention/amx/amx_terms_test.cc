#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/encodings/t5.hpp>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/amx_cases.hpp"
#include "support/attention_encodings.hpp"
#include "support/attention_masks.hpp"
#include "support/workers.hpp"

// Masks with holes and encodings that add to scores, in attention() on a machine with matrix tiles; here they are plain
// loops. The bounds are those of the float kernels: numbers are in pieces.

namespace bearing {
namespace {

namespace amx = attend::amx;
using test::Forced;
using test::Masks;
using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;
using test::Standing;
using test::tiles_case;

/// Other sums have other roundings.
bool on_tiles(const AttentionData<float>& data, const TermList<float>& terms) {
  const Forced tiles(&amx::emulated);
  const auto got = data.forward<float>(terms);
  const Forced none(nullptr);
  return !test::same_bits(data.forward<float>(terms).out, got.out);
}
/// Products of tiles outside of the block kernel are the backward's.
bool backward_on_tiles(const AttentionData<float>& data, const TermList<float>& terms) {
  static Index products;
  products = 0;
  amx::Kernels counting = amx::emulated;
  counting.multiply = [](const amx::TileProduct& product) {
    ++products;
    amx::emulated.multiply(product);
  };
  const Forced tiles(&counting);
  data.backward<float>(terms);
  return products > 0;
}

/// Both ways, whoever serves the backward.
void expect_both(const AttentionData<float>& data, const TermList<float>& terms, const TermList<double>& exact) {
  const auto truth = test::attention_truth(data.problem(true), exact);
  const Forced forced(&amx::emulated);
  test::expect_attention<float>(data, truth, terms);
  test::expect_attention_gradients<float>(data, truth, terms);
}

TEST(AmxTerms, MasksOfAllKindsTogether) {
  const Masks masks(2, 1, 33, 70);
  Index some = 0;
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const Window& window : {Window{}, Window{.before = 6, .after = 2}}) {
      for (const Standing standing : test::standings) {
        for (unsigned bits = 0; bits < 16; ++bits) {
          if (++some % 7 != 0) continue;  // each kind meets each other one
          AttentionCase c = masks.of(mask, window, standing, bits);
          c.dim = 32, c.value_dim = 32;
          SCOPED_TRACE("standing " + std::to_string(static_cast<int>(standing)) + ", bits " + std::to_string(bits));
          expect_both(AttentionData<float>(c), {}, {});
        }
      }
    }
  }
}

TEST(AmxTerms, AMaskOfTheCallersOwnIsReadWhereItLies) {
  // Shared by heads, with rows apart; and with columns apart, which is copied.
  const Index q_len = 40, k_len = 600;
  const auto visible = std::make_unique<bool[]>(static_cast<std::size_t>(q_len * k_len * 2));
  for (Index x = 0; x < q_len * k_len * 2; ++x)
    visible[static_cast<std::size_t>(x)] = x % 11 < 5 && x / (k_len * 2) != 7;
  for (const Index step : {1, 2}) {
    AttentionCase c{.q_len = q_len, .k_len = k_len, .dim = 32, .value_dim = 32};
    c.options.visible = {visible.get(), {1, 2, q_len, k_len}, {0, 0, 2 * k_len, step}};
    const AttentionData<float> data(c);
    EXPECT_TRUE(on_tiles(data, {}) && backward_on_tiles(data, {}));
    expect_both(data, {}, {});
    test::Workers threads(3);
    const Forced forced(&amx::emulated);
    EXPECT_TRUE(data.backward<float>({}, threads).same_bits_as(data.backward<float>({})));
  }
}

/// Of those that act on scores and on nothing else; causal every second one.
TEST(AmxTerms, EveryEncodingOfScores) {
  const NamedEncodings encodings;
  std::set<std::string> served;
  Index some = 0;
  for (const test::DescribedEncoding& one : test::described_terms()) {
    if (!one.info->scores || one.info->rows || one.info->values || one.info->whole_rows || one.variant) continue;
    const NamedEncoding& encoding = encodings.find(one.name);
    if (encoding.serves == test::Serves::grid) continue;  // whose calls are those of the grid's size
    SCOPED_TRACE(encoding.name);
    AttentionCase c{.heads = test::encoding_heads, .q_len = 33, .k_len = 100, .dim = 32, .value_dim = 32};
    c.q_first = 67, c.options.mask = ++some % 2 == 0 ? Mask::causal : Mask::none;
    c = encoding.placed(c);
    Params params = encoding.params(c);
    const auto f64 = encoding.make<double>(params, c);
    const auto f32 = encoding.make<float>(params, c);
    const AttentionData<float> data(c);
    ASSERT_TRUE(on_tiles(data, f32.list));
    served.insert(one.info->name);
    params.clear_grads();
    const auto truth = test::attention_truth(data.problem(true), f64.list);
    std::vector<std::vector<double>> wanted;
    for (std::size_t p = 0; p < params.count(); ++p) wanted.push_back(params.grads(p));
    const Forced forced(&amx::emulated);
    test::expect_attention<float>(data, truth, f32.list);
    params.clear_grads();
    test::expect_attention_gradients<float>(data, truth, f32.list);
    for (std::size_t p = 0; p < params.count(); ++p) {
      test::expect_close(params.float_grads(p), wanted[p], 16 * std::max(4.0, truth.score_size), c.k_len,
                         "parameter " + std::to_string(p), 1);
    }
  }
  EXPECT_GE(served.size(), 15u);
}

TEST(AmxTerms, DistancesThatAreNoFunctionOfIndices) {
  for (const test::Place place : {test::Place::shuffled, test::Place::real}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      AttentionCase c = tiles_case(40, 150);
      c.place = place, c.options.mask = mask;
      const Alibi alibi{{0.25, 0.5}};
      const AlibiBias<double> bias64(alibi);
      const AlibiBias<float> bias32(alibi);
      const AttentionData<float> data(c);
      EXPECT_TRUE(on_tiles(data, with(bias32)) && backward_on_tiles(data, with(bias32)));
      expect_both(data, with(bias32), with(bias64));
    }
  }
}

TEST(AmxTerms, CapsOfScores) {
  for (const double cap : {0.5, 30.0}) {
    AttentionCase c = tiles_case(40, 150);
    c.options = {.mask = Mask::causal, .soft_cap = cap};
    c.q_first = 110;
    const Alibi alibi{{0.25, 0.5}};
    const AlibiBias<double> bias64(alibi);
    const AlibiBias<float> bias32(alibi);
    const AttentionData<float> data(c);
    EXPECT_TRUE(on_tiles(data, {}) && backward_on_tiles(data, {}));
    expect_both(data, {}, {});
    expect_both(data, with(bias32), with(bias64));
  }
}

/// A matrix for all heads, with columns side by side or not.
struct Matrix {
  Index rows, cols, step;
  std::vector<double> wide;
  std::vector<float> narrow;

  Matrix(Index q_len, Index k_len, Index apart) : rows(q_len), cols(k_len), step(apart) {
    test::Random random(19);
    for (Index x = 0; x < q_len * k_len * apart; ++x) {
      narrow.push_back(random.integer(0, 9) == 0 ? -std::numeric_limits<float>::infinity()
                                                 : static_cast<float>(random.uniform(-1, 1)));
      wide.push_back(narrow.back());
    }
  }
  template <class A>
  DenseBias<A> bias(const std::vector<A>& numbers) const {
    return DenseBias<A>(Param<A, 4>{View<const A, 4>{numbers.data(), {1, 1, rows, cols}, {0, 0, cols * step, step}}});
  }
};

TEST(AmxTerms, AnyMatrixAloneAndWithOthers) {
  const Alibi alibi{{0.25}};
  const AlibiBias<double> alibi64(alibi);
  const AlibiBias<float> alibi32(alibi);
  for (const Index step : {1, 2}) {
    const Matrix matrix(40, 600, step);
    const DenseBias<double> bias64 = matrix.bias(matrix.wide);
    const DenseBias<float> bias32 = matrix.bias(matrix.narrow);
    AttentionCase c = tiles_case(40, 600);
    c.heads = c.kv_heads = 1;
    for (const Mask mask : {Mask::none, Mask::causal}) {
      c.options.mask = mask, c.q_first = 560;
      const AttentionData<float> data(c);
      EXPECT_TRUE(on_tiles(data, with(bias32)) && backward_on_tiles(data, with(bias32)));
      expect_both(data, with(bias32), with(bias64));
      expect_both(data, with(alibi32, bias32), with(alibi64, bias64));
    }
  }
}

/// A matrix [330, 1100] that is added tile by tile; and one that says where it lies.
struct Sums {
  using Arithmetic = float;
  static constexpr bool constant = true;
  const std::vector<float>* numbers;

  void add_scores(const Tile<float>& tile, float* s) const {
    const auto all = dense(numbers->data(), 330, 1100);
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] += all(tile.row + i, tile.col + j);
    }
  }
};
struct Lying : Sums {
  View<const float, 2> matrix(Index, Index) const { return dense(numbers->data(), 330, 1100); }
};

TEST(AmxTerms, AMatrixThatLiesInMemoryGivesTheBitsOfOneThatIsWritten) {
  const Matrix matrix(330, 1100, 1);
  AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 330, .k_len = 1100, .dim = 32, .value_dim = 32};
  const AttentionData<float> data(c);
  const Lying lying{{&matrix.narrow}};
  const Sums written{&matrix.narrow};
  const Forced forced(&amx::emulated);
  EXPECT_TRUE(data.forward<float>(with(lying)).same_bits_as(data.forward<float>(with(written))));
}

TEST(AmxTerms, NaNsAreSeenWhereTheyAreOnVectors) {
  // Of a query, of a key below −∞ of a matrix, and of a key that masks hide.
  AttentionCase c = tiles_case(40, 150);
  c.heads = c.kv_heads = 1;
  std::vector<float> numbers(40 * 150);
  for (std::size_t i = 0; i < 40; ++i) numbers[150 * i + 70] = -std::numeric_limits<float>::infinity();
  const DenseBias<float> bias(Param<float, 4>{dense<const float>(numbers.data(), 1, 1, 40, 150)});
  const auto hidden = std::make_unique<bool[]>(150);
  for (std::size_t j = 0; j < 150; ++j) hidden[j] = j != 20;
  c.options.key_mask = dense<const bool>(hidden.get(), 1, 150);
  for (const Index nan_key : {Index(70), Index(20)}) {
    AttentionData<float> data(c);
    data.k()(0, 0, nan_key, 3) = std::numeric_limits<float>::quiet_NaN();
    const auto count = [&](const amx::Kernels* kernels) {
      const Forced forced(kernels);
      const auto out = data.forward<float>(with(bias)).out;
      return std::ranges::count_if(out, [](float x) { return std::isnan(x); });
    };
    EXPECT_EQ(count(&amx::emulated), count(nullptr)) << nan_key;
    EXPECT_EQ(count(nullptr) > 0, nan_key == 70);
  }
}

TEST(AmxTerms, BatchesMixDistancesAndTiles) {
  // The second sequence's positions do not rise by one.
  AttentionCase c = tiles_case(40, 150);
  c.batch = 2;
  std::vector<double> q_at, k_at;
  for (Index b = 0; b < 2; ++b) {
    for (Index i = 0; i < 40; ++i) q_at.push_back(static_cast<double>(110 + i) * (b == 0 ? 1 : 1.5));
    for (Index j = 0; j < 150; ++j) k_at.push_back(static_cast<double>(j) * (b == 0 ? 1 : 1.5));
  }
  c.q_positions = Positions(dense(q_at.data(), 2, 40)), c.k_positions = Positions(dense(k_at.data(), 2, 150));
  c.options.mask = Mask::causal;
  const Alibi alibi{{0.25, 0.5}};
  const AlibiBias<double> bias64(alibi);
  const AlibiBias<float> bias32(alibi);
  expect_both(AttentionData<float>(c), with(bias32), with(bias64));
}

TEST(AmxTerms, RowsThatTheLeastFloatHidesAreTheMeanOfTheirValues) {
  AttentionCase c = tiles_case(40, 150);
  c.heads = c.kv_heads = 1;
  const AttentionData<float> data(c);
  constexpr float least = std::numeric_limits<float>::lowest();
  std::vector<float> numbers(40 * 150);
  std::fill_n(numbers.begin(), 150, least);            // hides row 0
  std::fill_n(numbers.begin() + 150, 100, least);      // and a part of row 1
  std::fill_n(numbers.begin() + 2 * 150, 150, -1e9f);  // and row 2
  const DenseBias<float> mask(Param<float, 4>{dense<const float>(numbers.data(), 1, 1, 40, 150)});
  const Forced forced(&amx::emulated);
  const auto got = data.backward<float>(with(mask));
  const Forced none(nullptr);
  const auto want = data.backward<float>(with(mask));
  EXPECT_EQ(got.lse[0], least);
  EXPECT_EQ(got.lse[2], want.lse[2]);
  for (std::size_t x = 0; x < got.out.size(); ++x) ASSERT_NEAR(got.out[x], want.out[x], 1e-5) << x;
  for (std::size_t x = 0; x < got.d_v.size(); ++x) ASSERT_NEAR(got.d_v[x], want.d_v[x], 1e-5) << x;
}

TEST(AmxTerms, LargeBiasesByDistanceAreRoundedAsLogits) {
  // Units of −1e9 are 64: what is left of a score is a multiple of that, here as elsewhere.
  AttentionCase c = tiles_case(40, 150);
  c.size = 100;
  const T5 t5{.direction = T5Direction::bidirectional};
  const std::vector<float> table(2 * static_cast<std::size_t>(t5.buckets), -1e9f);
  const T5Bias<float> bias(t5, {dense(table.data(), t5.buckets, 2)});
  const AttentionData<float> data(c);
  const auto run = [&](const amx::Kernels* kernels) {
    const Forced forced(kernels);
    return data.backward<float>(with(bias));
  };
  const auto got = run(&amx::emulated), want = run(nullptr);
  for (std::size_t x = 0; x < got.out.size(); ++x) ASSERT_NEAR(got.out[x], want.out[x], 1e-5) << x;
  for (std::size_t x = 0; x < got.d_v.size(); ++x) ASSERT_NEAR(got.d_v[x], want.d_v[x], 1e-4) << x;
}

TEST(AmxTerms, SinksOfTheLeastFloatAreNoNaN) {
  AttentionCase c = tiles_case(40, 70);
  const std::vector<double> sinks = {std::numeric_limits<float>::lowest(), 0.5};
  c.options.sinks = {dense(sinks.data(), 2)};
  expect_both(AttentionData<float>(c), {}, {});
}

TEST(AmxTerms, Bfloat16TooIsServed) {
  const Masks masks(2, 2, 40, 70);
  const Matrix matrix(40, 70, 1);
  const DenseBias<double> bias64 = matrix.bias(matrix.wide);
  const DenseBias<float> bias32 = matrix.bias(matrix.narrow);
  for (const unsigned bits : {4u, 8u, 12u}) {
    AttentionCase c = masks.of(Mask::none, {}, Standing::in_order, bits);
    c.dim = 32, c.value_dim = 32;
    const AttentionData<Bfloat16> data(c);
    const auto truth = test::attention_truth(data.problem(false), with(bias64));
    const Forced forced(&amx::emulated);
    const auto got = data.forward<float>(with(bias32));
    const Forced none(nullptr);
    EXPECT_FALSE(test::same_bits(data.forward<float>(with(bias32)).out, got.out));
    for (std::size_t x = 0; x < truth.out.size(); ++x)
      ASSERT_NEAR(got.out[x], truth.out[x], 0x1p-7) << bits << " " << x;
  }
}

}  // namespace
}  // namespace bearing
