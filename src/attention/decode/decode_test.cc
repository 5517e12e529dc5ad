#include <gtest/gtest.h>

#include "support/attention.hpp"
#include "support/attention_encodings.hpp"
#include "support/attention_masks.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// A few queries against a long cache: the numbers of the reference, whatever else the call asks for, with the same bits
// for any executor.

namespace bearing {
namespace {

/// All four types, and a float's results of the 16-bit ones.
void expect_every_type(const AttentionCase& c) {
  test::expect_attention<double>(c);
  test::expect_attention<float>(c);
  test::for_each_type([&]<class T>(T) {
    if constexpr (sizeof(T) == 2) {
      const AttentionData<T> data(c);
      const auto truth = test::attention_truth(data.problem(false), {});
      test::expect_attention<T>(data, truth);
      test::expect_attention<T, float>(data, truth);
    }
  });
}

AttentionCase cached(Index q_len, Index k_len) {
  AttentionCase c{.q_len = q_len, .k_len = k_len, .options = {.mask = Mask::causal}};
  c.q_first = k_len - q_len;
  return c;
}

TEST(Decode, EveryLengthOfTheCacheInEveryType) {
  // Around blocks of four keys, of 64 and 512, and where the number of slices changes.
  test::on_every_target([] {
    for (const Index k_len : {256, 257, 258, 259, 300, 511, 513, 575}) expect_every_type(cached(1, k_len));
  });
  for (const Index k_len : {1023, 1025, 1100, 1537, 2500}) {
    expect_every_type(cached(1, k_len));
    expect_every_type(cached(3, k_len));
  }
}

TEST(Decode, EveryNumberOfRowsThatShareAKvHead) {
  test::on_every_target([] {
    for (const auto& [heads, q_len] : {std::pair<Index, Index>{1, 1},
                                       {1, 2},
                                       {1, 3},
                                       {2, 2},
                                       {5, 1},
                                       {2, 3},
                                       {7, 1},
                                       {1, 8},
                                       {3, 3},
                                       {10, 1},
                                       {11, 1},
                                       {13, 1},
                                       {4, 4},
                                       {2, 9},
                                       {8, 4},
                                       {71, 1}}) {
      AttentionCase c = cached(q_len, 300);
      c.heads = 2 * heads, c.kv_heads = 2;
      test::expect_attention<double>(c);
      test::expect_attention<float>(c);
      test::expect_attention<Bfloat16>(c);
    }
  });
}

TEST(Decode, EveryWidthOfKeysAndValues) {
  test::on_every_target([] {
    for (const auto& [dim, value_dim] : {std::pair<Index, Index>{1, 1},
                                         {1, 6},
                                         {6, 1},
                                         {15, 17},
                                         {16, 8},
                                         {72, 80},
                                         {64, 65},
                                         {17, 33},
                                         {128, 128},
                                         {129, 127},
                                         {3, 130},
                                         {0, 4},
                                         {4, 0}}) {
      for (const Index heads : {1, 2, 7}) {
        AttentionCase c = cached(1, 270);
        c.heads = heads, c.kv_heads = 1, c.dim = dim, c.value_dim = value_dim;
        if (dim == 0) c.options.scale = 1;
        c.batch = 3;  // so that not all results are near 0, which errors are measured against
        test::expect_attention<double>(c);
        test::expect_attention<float>(c);
        test::expect_attention<Bfloat16>(c);
        test::expect_attention<Float16>(c);
      }
    }
  });
}

TEST(Decode, EveryLayoutOfInputsAndOutputs) {
  AttentionCase c{.batch = 2, .heads = 6, .kv_heads = 2, .q_len = 2, .k_len = 300, .dim = 10, .value_dim = 7};
  const auto plain = AttentionData<float>(c).forward({});
  for (const Layout layout : test::writable_layouts) {
    for (const bool inputs : {true, false}) {
      AttentionCase moved = c;
      (inputs ? moved.inputs : moved.outputs) = layout;
      expect_every_type(moved);
      EXPECT_TRUE(AttentionData<float>(moved).forward({}).same_bits_as(plain)) << name(layout);
    }
  }
  c.inputs = Layout::one_head;
  expect_every_type(c);
}

TEST(Decode, EveryMaskWithEveryOther) {
  const test::Masks masks(3, 2, 3, 300);
  Index n = 0;
  masks.each([&](const AttentionCase& c, const std::string& others) {
    if (n++ % 7 != 0) return;  // 480 combinations and 7 have no common divisor: every kind takes its turn
    SCOPED_TRACE(others);
    test::expect_attention<double>(c);
  });
}

TEST(Decode, SinksCountOnceHoweverManySlicesThereAre) {
  const std::vector<double> sinks = {0.5, 40, -300, -std::numeric_limits<double>::infinity()};
  for (const Index k_len : {300, 1100, 2500}) {
    AttentionCase c = cached(1, k_len);
    c.batch = 2, c.heads = 4, c.options.sinks = {dense(sinks.data(), 4)};
    expect_every_type(c);
    c.q_first = 0, c.k_first = 1;  // nothing but the sink is seen
    expect_every_type(c);
  }
}

TEST(Decode, CapsScalesAndLargeLogits) {
  for (const double scale : {1.0, 0.0, -0.5}) {
    AttentionCase c = cached(2, 600);
    c.options.scale = scale;
    expect_every_type(c);
    c.options.soft_cap = 1.5;
    expect_every_type(c);
  }
  AttentionCase large = cached(1, 1100);
  large.size = 3500;  // logits to ±1e4
  test::expect_attention<double>(large);
  test::expect_attention<float>(large);
}

TEST(Decode, EveryEncodingGivesItsScoresAndValues) {
  const test::NamedEncodings encodings;
  for (const test::NamedEncoding& encoding : encodings.all()) {
    SCOPED_TRACE(encoding.name);
    if (encoding.serves == test::Serves::grid) continue;  // a grid of so many tokens is no cache
    AttentionCase c = encoding.placed({.batch = 2, .heads = test::encoding_heads, .q_len = 2, .k_len = 300});
    c.dim = c.value_dim = test::encoding_dim;
    for (const Mask mask : {Mask::causal, Mask::none}) {
      c.q_first = 298, c.options.mask = mask;
      test::Params params = encoding.params(c);
      const auto f64 = encoding.make<double>(params, c);
      const auto f32 = encoding.make<float>(params, c);
      const AttentionData<double> in_double(c);
      const auto truth = test::attention_truth(in_double.problem(false), f64.list);
      test::expect_attention<double>(in_double, truth, f64.list);
      test::expect_attention<float>(AttentionData<float>(c), truth, f32.list);
      const AttentionData<Bfloat16> in_bf16(c);
      test::expect_attention<Bfloat16>(in_bf16, test::attention_truth(in_bf16.problem(false), f64.list), f32.list);
    }
  }
}

TEST(Decode, EncodingsServeQueriesThatStandAnywhere) {
  const test::NamedEncodings encodings;
  for (const char* name : {"alibi", "shaw", "rope", "fire", "pope", "rotation, bias and values"}) {
    SCOPED_TRACE(name);
    const test::NamedEncoding& encoding = encodings.find(name);
    for (const test::Place place : {test::Place::shuffled, test::Place::real}) {
      if (place == test::Place::real && encoding.serves == test::Serves::whole) continue;
      AttentionCase c{
          .batch = 2, .heads = test::encoding_heads, .kv_heads = encoding.kv_heads, .q_len = 3, .k_len = 290};
      c.dim = c.value_dim = test::encoding_dim, c.place = place, c.options.mask = Mask::causal;
      test::Params params = encoding.params(c);
      const auto made = encoding.make<double>(params, c);
      const AttentionData<double> data(c);
      test::expect_attention<double>(data, test::attention_truth(data.problem(false), made.list), made.list);
    }
  }
}

TEST(Decode, AgreesWithTheSameQueryAmongMany) {
  // Forty queries at once take another way; a row of theirs and the same query alone differ by roundings of float:
  // twice what each may be off.
  const AttentionCase c{.heads = 2,
                        .kv_heads = 1,
                        .q_len = 40,
                        .k_len = 900,
                        .dim = 16,
                        .value_dim = 16,
                        .options = {.mask = Mask::causal},
                        .q_first = 860};
  const AttentionData<float> data(c);
  const auto all = data.forward({});
  double furthest = 0;
  for (Index i = 0; i < 40; ++i) {
    AttentionInputs<float> in = data.inputs();
    in.q.data += i * in.q.stride[2], in.q.shape[2] = 1, in.q_positions = Positions(860 + i);
    std::vector<float> out(32);
    attention<float>(in, bhtd(out.data(), 1, 2, 1, 16), {}, {}, {.mask = Mask::causal});
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t d = 0; d < 16; ++d) {
        const float other = all.out[(h * 40 + static_cast<std::size_t>(i)) * 16 + d];
        furthest = std::max(furthest, std::abs(static_cast<double>(out[h * 16 + d] - other)));
      }
    }
  }
  EXPECT_LE(furthest, 2 * 2e-6);
}

TEST(Decode, SameBitsForAnyExecutor) {
  const test::NamedEncodings encodings;
  for (const char* name : {"nothing", "rotation, bias and values"}) {
    const test::NamedEncoding& encoding = encodings.find(name);
    for (const auto& [batch, k_len] : {std::pair<Index, Index>{1, 460}, {3, 300}, {300, 256}}) {
      AttentionCase c{.batch = batch, .heads = 4, .kv_heads = 2, .q_len = 2, .k_len = k_len};
      c.dim = c.value_dim = 8, c.options.mask = Mask::causal, c.q_first = k_len - 2;
      test::Params params = encoding.params(c);
      const auto made = encoding.make<float>(params, c);
      const AttentionData<float> data(c);
      const auto serial = data.forward(made.list);
      for (const Index threads : {1, 2, 3, 7, 16}) {
        EXPECT_TRUE(data.forward(made.list, test::Workers(threads)).same_bits_as(serial)) << threads;
      }
      EXPECT_TRUE(data.forward(made.list, test::backwards(4)).same_bits_as(serial));
    }
  }
  const AttentionData<float> sliced(cached(1, 5000));  // nine slices a head
  const auto serial = sliced.forward({});
  for (const Index threads : {1, 2, 3, 7, 16}) {
    EXPECT_TRUE(sliced.forward({}, test::Workers(threads)).same_bits_as(serial)) << threads;
  }
  EXPECT_TRUE(sliced.forward({}, test::backwards(4)).same_bits_as(serial));
}

TEST(Decode, KeepsItsAccuracyOverLongCaches) {
  AttentionCase c = cached(1, 32'768);
  c.heads = c.kv_heads = 1, c.dim = c.value_dim = 64;
  test::expect_attention<float>(c);
  c.options.window = {.before = 1023, .after = 0};
  test::expect_attention<float>(c);
}

}  // namespace
}  // namespace bearing
