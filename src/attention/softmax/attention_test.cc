#include <gtest/gtest.h>
#include <bearing/encodings/dense_bias.hpp>

#include "support/attention.hpp"
#include "support/environment.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"

// The forward without encodings: every type, length, width, layout and number of heads; its accuracy.

namespace bearing {
namespace {

using test::on_every_target;

constexpr Index tails[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129};

AttentionOptions<double> causal() { return {.mask = Mask::causal}; }

/// All four types, and a float's results of the 16-bit ones.
void expect_every_type(const AttentionCase& c) {
  const AttentionData<double> in_double(c);
  const auto same = test::attention_truth(in_double.problem(false), {});
  test::expect_attention<double>(in_double, same);
  test::expect_attention<float>(AttentionData<float>(c), same);
  test::for_each_type([&]<class T>(T) {
    if constexpr (sizeof(T) == 2) {
      const AttentionData<T> data(c);
      const auto truth = test::attention_truth(data.problem(false), {});
      test::expect_attention<T>(data, truth);
      test::expect_attention<T, float>(data, truth);
    }
  });
}

TEST(Attention, EveryTailOfKeysInEveryType) {
  on_every_target([&] {
    for (const Index k_len : tails) {
      expect_every_type({.q_len = 5, .k_len = k_len});
      expect_every_type({.q_len = 5, .k_len = k_len, .options = causal(), .q_first = std::max<Index>(0, k_len - 5)});
    }
  });
}

TEST(Attention, LengthsThatCrossBlocksOfQueriesAndKeys) {
  for (const Index k_len : {255, 256, 257, 300, 511, 513, 700, 1100}) {
    for (const Index q_len : {1, 2, 63, 65, 130}) {
      if (q_len > 2 && k_len % 2 == 0 && k_len != 700) continue;
      AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = q_len, .k_len = k_len};
      test::expect_attention<float>(c);
      c.options = causal(), c.q_first = k_len - q_len;
      test::expect_attention<float>(c);
      if (q_len < 65) test::expect_attention<double>(c);
    }
  }
  test::expect_attention<double>({.heads = 1, .kv_heads = 1, .q_len = 300, .k_len = 300, .options = causal()});
  test::expect_attention<float>({.heads = 1, .kv_heads = 1, .q_len = 700, .k_len = 700, .options = causal()});
}

TEST(Attention, EveryQueryLength) {
  for (Index q_len = 1; q_len <= 40; ++q_len) {
    test::expect_attention<float>(AttentionCase{.q_len = q_len, .k_len = 37});
    test::expect_attention<double>({.q_len = q_len, .k_len = 37, .options = causal(), .q_first = 37 - q_len});
  }
}

TEST(Attention, EveryWidthOfKeysAndValues) {
  on_every_target([&] {
    for (const auto& [dim, value_dim] : {std::pair<Index, Index>{1, 1},
                                         {1, 6},
                                         {6, 1},
                                         {6, 6},
                                         {8, 80},
                                         {64, 64},
                                         {80, 8},
                                         {80, 80},
                                         {17, 33},
                                         {128, 128},
                                         {64, 65},
                                         {3, 129},
                                         {256, 31}}) {
      for (const Index q_len : {3, 17}) {
        const AttentionCase c{
            .heads = 1, .kv_heads = 1, .q_len = q_len, .k_len = 37, .dim = dim, .value_dim = value_dim};
        test::expect_attention<double>(c);
        test::expect_attention<float>(c);
        test::expect_attention<Bfloat16>(c);
      }
    }
  });
}

TEST(Attention, QueryHeadsShareKeyHeads) {
  for (const auto& [heads, kv_heads] :
       {std::pair<Index, Index>{1, 1}, {6, 6}, {6, 3}, {6, 2}, {6, 1}, {8, 1}, {71, 1}}) {
    expect_every_type({.batch = 2, .heads = heads, .kv_heads = kv_heads, .q_len = 3, .k_len = 19});
    test::expect_attention<float>(
        {.heads = heads, .kv_heads = kv_heads, .q_len = 20, .k_len = 20, .options = causal()});
  }
}

TEST(Attention, EveryLayoutOfInputsAndOutputs) {
  for (const Layout layout : test::writable_layouts) {
    AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 21, .dim = 6, .value_dim = 10};
    c.inputs = layout;
    expect_every_type(c);
    c.inputs = Layout::bhtd, c.outputs = layout;
    expect_every_type(c);
  }
  AttentionCase shared{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 21};
  shared.inputs = Layout::one_head;
  expect_every_type(shared);
}

TEST(Attention, LayoutDoesNotChangeTheBits) {
  AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 33, .k_len = 70, .dim = 10, .value_dim = 7};
  const auto plain = AttentionData<float>(c).forward({});
  for (const Layout layout : test::writable_layouts) {
    c.inputs = layout;
    EXPECT_TRUE(AttentionData<float>(c).forward({}).same_bits_as(plain)) << name(layout) << " inputs";
    c.inputs = Layout::bhtd, c.outputs = layout;
    EXPECT_TRUE(AttentionData<float>(c).forward({}).same_bits_as(plain)) << name(layout) << " outputs";
  }
}

TEST(Attention, SlicesOfOneArrayServeAndMayBeBroadcast) {
  const Index batch = 3, time = 13, heads = 2, dim = 5;
  std::vector<float> qkv(static_cast<std::size_t>(batch * time * 3 * heads * dim));
  test::Random random(3);
  for (float& x : qkv) x = static_cast<float>(random.uniform(-1, 1));
  const Index row = 3 * heads * dim;
  const auto slice = [&](Index which, Index batch_stride) {
    return View<const float, 4>{
        qkv.data() + which * heads * dim, {batch, heads, time, dim}, {batch_stride, dim, row, 1}};
  };
  for (const Index keys_stride : {time * row, Index{0}}) {  // 0: all sequences look at the keys of the first one
    const View<const float, 4> q = slice(0, time * row), k = slice(1, keys_stride), v = slice(2, keys_stride);
    std::vector<float> out(qkv.size() / 3), lse(static_cast<std::size_t>(batch * heads * time));
    attention<float>({q, k, v}, bthd(out.data(), batch, time, heads, dim), dense(lse.data(), batch, heads, time), {},
                     {.mask = Mask::causal});
    std::vector<double> wide(qkv.begin(), qkv.end());
    const auto in_double = [&](View<const float, 4> x) {
      return View<const double, 4>{wide.data() + (x.data - qkv.data()), x.shape, x.stride};
    };
    const auto truth = test::attention_truth({in_double(q), in_double(k), in_double(v), {}, {}, causal()}, {});
    const View<const float, 4> got = bthd<const float>(out.data(), batch, time, heads, dim);
    std::size_t x = 0;
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < heads; ++h) {
        for (Index i = 0; i < time; ++i) {
          for (Index d = 0; d < dim; ++d, ++x) ASSERT_NEAR(static_cast<double>(got(b, h, i, d)), truth.out[x], 2e-6);
        }
      }
    }
  }
}

TEST(Attention, NothingToDoIsDone) {
  for (const auto& [batch, heads, q_len] : {std::array<Index, 3>{0, 2, 3}, {2, 0, 3}, {2, 2, 0}}) {
    for (const Index k_len : {0, 5}) {
      const AttentionCase c{.batch = batch, .heads = heads, .kv_heads = heads, .q_len = q_len, .k_len = k_len};
      EXPECT_TRUE(AttentionData<float>(c).forward({}).out.empty());
    }
  }
  const auto no_keys = AttentionData<float>(AttentionCase{.q_len = 3, .k_len = 0}).forward({});
  for (const float x : no_keys.out) EXPECT_EQ(x, 0);
  for (const float x : no_keys.lse) EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
  const auto no_values = AttentionData<float>(AttentionCase{.q_len = 3, .k_len = 4, .value_dim = 0}).forward({});
  for (const float x : no_values.lse) EXPECT_TRUE(std::isfinite(x));
  // Rows of no features are all alike: every key weighs the same.
  expect_every_type({.q_len = 3, .k_len = 4, .dim = 0});
}

TEST(Attention, LogarithmOfTheSumIsOptional) {
  const AttentionCase c{.q_len = 5, .k_len = 11};
  const AttentionData<float> data(c);
  std::vector<float> out(5 * 2 * 8);
  attention<float>(data.inputs(), bhtd(out.data(), 1, 2, 5, 8), {}, {}, data.options());
  EXPECT_TRUE(test::same_bits(out, data.forward({}).out));
}

TEST(Attention, ScaleIsTheCallersOrThatOfTheWidth) {
  for (const double scale : {1.0, 0.125, 3.0, 0.0, -0.5}) {
    AttentionCase c{.q_len = 7, .k_len = 40};
    c.options.scale = scale;
    expect_every_type(c);
  }
}

TEST(Attention, SoftCapBoundsTheProduct) {
  on_every_target([&] {
    for (const double cap : {0.25, 1.0, 30.0, 1e6}) {
      for (const double size : {1.0, 60.0}) {
        AttentionCase c{.q_len = 7, .k_len = 70, .size = size};
        c.options.soft_cap = cap;
        test::expect_attention<double>(c);
        test::expect_attention<float>(c);
        if (size == 1) test::expect_attention<Float16>(c);
      }
    }
  });
}

TEST(Attention, SinksTakePartInTheSum) {
  // As large as the scores, far above, far below, and none.
  const std::vector<double> sinks = {0.5, 40, -300, -std::numeric_limits<double>::infinity()};
  for (const Mask mask : {Mask::none, Mask::causal}) {
    AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 70, .options = {.mask = mask}};
    c.options.sinks = {dense(sinks.data(), 4)};
    expect_every_type(c);
    c.k_first = 4;  // under a causal mask the first four queries see nothing but the sink: out 0, lse the sink
    expect_every_type(c);
  }
}

TEST(Attention, LargeLogitsDoNotOverflow) {
  // Queries of ±q times keys of ±1 over √8, eight products: logits to ±1e4.
  on_every_target([&] {
    for (const double size : {100.0, 3500.0}) {
      AttentionCase c{.q_len = 11, .k_len = 75, .size = size};
      for (const Mask mask : {Mask::none, Mask::causal}) {
        c.options.mask = mask;
        test::expect_attention<double>(c);
        test::expect_attention<float>(c);
        test::expect_attention<Bfloat16>(c);
      }
    }
  });
}

TEST(Attention, AllLogitsFarFromZeroAreAsGoodAsNear) {
  // A constant of ±1e4 on every score changes nothing but lse; it is exact here, the scores being multiples of 2^-6.
  for (const float constant : {1e4f, -1e4f}) {
    std::vector<float> q(4 * 8), k(40 * 8), v(40 * 8), near(4 * 8), far(4 * 8), lse(4);
    test::Random random(9);
    for (std::vector<float>* x : {&q, &k, &v}) {
      for (float& number : *x) number = static_cast<float>(random.integer(-8, 8)) / 8;
    }
    const AttentionInputs<float> in{bhtd<const float>(q.data(), 1, 1, 4, 8), bhtd<const float>(k.data(), 1, 1, 40, 8),
                                    bhtd<const float>(v.data(), 1, 1, 40, 8)};
    const AttentionOptions<float> options{.mask = Mask::none, .scale = 1};
    attention<float>(in, bhtd(near.data(), 1, 1, 4, 8), {}, {}, options);
    const DenseBias<float> bias(Param<float, 4>{dense(&constant, 1, 1, 1, 1)});
    attention<float>(in, bhtd(far.data(), 1, 1, 4, 8), dense(lse.data(), 1, 1, 4), with(bias), options);
    for (std::size_t x = 0; x < near.size(); ++x) {
      // The scale of logarithms rounds 1e4·log2(e) to 2^-11: weights differ by 2^-11·ln 2 at most.
      EXPECT_NEAR(far[x], near[x], 0x1p-11);
    }
    for (const float x : lse) EXPECT_NEAR(x, constant, 100);
  }
}

/// Attention as one writes it down, in float throughout: products, exponentials and sums one by one.
std::vector<float> naive(const AttentionData<float>& data) {
  const AttentionInputs<float> in = data.inputs();
  const auto [batch, heads, q_len, dim] = in.q.shape;
  const Index k_len = in.k.shape[2], value_dim = in.v.shape[3];
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  std::vector<float> out;
  for (Index row = 0; row < batch * heads * q_len; ++row) {
    const Index i = row % q_len, h = row / q_len % heads, b = row / q_len / heads;
    const Index kv = h / (heads / in.k.shape[1]);
    std::vector<float> s;
    for (Index j = 0; j < k_len; ++j) {
      float product = 0;
      for (Index d = 0; d < dim; ++d) product += in.q(b, h, i, d) * in.k(b, kv, j, d);
      s.push_back(scale * product);
    }
    const float max = *std::max_element(s.begin(), s.end());
    float sum = 0;
    for (float& x : s) sum += x = std::exp(x - max);
    for (Index d = 0; d < value_dim; ++d) {
      float o = 0;
      for (Index j = 0; j < k_len; ++j) o += s[static_cast<std::size_t>(j)] / sum * in.v(b, kv, j, d);
      out.push_back(o);
    }
  }
  return out;
}

double error_of(const std::vector<float>& got, const std::vector<double>& truth) {
  double most = 0;
  for (std::size_t x = 0; x < truth.size(); ++x)
    most = std::max(most, std::abs(static_cast<double>(got[x]) - truth[x]));
  return most;
}

TEST(Attention, ErrsAtMostTwiceAsMuchAsTheNaiveEvaluation) {
  for (const Index k_len : {1, 9, 129, 1024, 4096}) {
    for (const Index dim : {8, 64, 128}) {
      for (const double size : {1.0, 10.0}) {
        const AttentionCase c{
            .heads = 1, .kv_heads = 1, .q_len = 16, .k_len = k_len, .dim = dim, .value_dim = dim, .size = size};
        const AttentionData<float> data(c);
        const auto truth = test::attention_truth(data.problem(false), {});
        // Results are rounded to float: half a unit of the largest is not an evaluation's doing.
        const double rounding = 0.5 * test::ulp<float>(test::largest(truth.out));
        EXPECT_LE(error_of(data.forward({}).out, truth.out), 2 * error_of(naive(data), truth.out) + rounding)
            << describe(c);
      }
    }
  }
}

TEST(Attention, KeepsItsAccuracyOverLongSequences) {
  const Index k_len = 32'768;
  const AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 4, .k_len = k_len, .dim = 64, .value_dim = 64};
  const AttentionData<float> data(c);
  const auto truth = test::attention_truth(data.problem(false), {});
  const auto got = data.forward({});
  EXPECT_LE(error_of(got.out, truth.out), 1e-5 * test::largest(truth.out));
  EXPECT_LE(error_of(got.lse, truth.lse), 1e-5);
}

TEST(Attention, RowsDoNotDependOnTheirNeighbours) {
  // The same queries by themselves, among others, and under a mask that hides later keys: the same bits. (Four queries
  // and fewer are decoded, by other kernels.)
  const AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 150, .k_len = 150, .options = causal()};
  const AttentionData<float> data(c);
  const auto all = data.forward({});
  for (const Index i : {0, 1, 31, 63, 64, 100, 145}) {
    AttentionInputs<float> in = data.inputs();
    in.q.data += i * in.q.stride[2], in.q.shape[2] = 5, in.q_positions = Positions(i);
    std::vector<float> out(5 * 8);
    attention<float>(in, bhtd(out.data(), 1, 1, 5, 8), {}, {}, {.mask = Mask::causal});
    EXPECT_TRUE(std::equal(out.begin(), out.end(), all.out.begin() + 8 * i)) << "query " << i;
  }
}

TEST(Attention, LeavesTheFloatingPointEnvironmentAlone) {
  const AttentionData<float> data(AttentionCase{.q_len = 40, .k_len = 80, .size = 100});
  test::expect_environment_kept([&] { (void)data.forward({}); });
}

}  // namespace
}  // namespace bearing
