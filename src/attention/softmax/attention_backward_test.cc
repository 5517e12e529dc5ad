#include <gtest/gtest.h>
#include <array>
#include <bearing/encodings/alibi.hpp>
#include <bearing/error.hpp>
#include <limits>

#include "support/attention.hpp"
#include "support/attention_encodings.hpp"
#include "support/attention_masks.hpp"
#include "support/errors.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// The backward: gradients of queries, keys, values, sinks and parameters against the reference, for every type, shape,
// mask and layout; the same bits for any number of workers.

namespace bearing {
namespace {

using test::NamedEncoding;
using test::NamedEncodings;
using test::on_every_target;
using test::Params;

constexpr Index tails[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129};

AttentionOptions<double> causal() { return {.mask = Mask::causal}; }

void expect_every_type(const AttentionCase& c) {
  test::expect_attention_gradients<double>(c);
  test::expect_attention_gradients<float>(c);
}

TEST(AttentionBackward, EveryTailOfKeys) {
  on_every_target([&] {
    for (const Index k_len : tails) {
      expect_every_type({.q_len = 5, .k_len = k_len});
      expect_every_type({.q_len = 5, .k_len = k_len, .options = causal(), .q_first = std::max<Index>(0, k_len - 5)});
    }
  });
}

TEST(AttentionBackward, EveryTailOfQueries) {
  for (const Index q_len : tails) {
    expect_every_type({.q_len = q_len, .k_len = 37});
    expect_every_type({.q_len = q_len, .k_len = 37, .options = causal()});
  }
}

TEST(AttentionBackward, LengthsThatCrossSlabsAndBlocks) {
  for (const auto& [q_len, k_len] : {std::pair<Index, Index>{71, 255}, {73, 257}, {145, 300}, {289, 70}, {300, 530}}) {
    AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = q_len, .k_len = k_len};
    expect_every_type(c);
    c.options = causal(), c.q_first = k_len - q_len;
    expect_every_type(c);
  }
}

TEST(AttentionBackward, EveryWidthOfKeysAndValues) {
  on_every_target([&] {
    for (const auto& [dim, value_dim] : {std::pair<Index, Index>{1, 1},
                                         {1, 6},
                                         {6, 1},
                                         {8, 80},
                                         {80, 8},
                                         {17, 33},
                                         {64, 65},
                                         {128, 128},
                                         {3, 129},
                                         {600, 31}}) {
      expect_every_type({.heads = 1, .kv_heads = 1, .q_len = 15, .k_len = 37, .dim = dim, .value_dim = value_dim});
    }
  });
}

TEST(AttentionBackward, QueryHeadsShareKeyHeads) {
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{6, 6}, {6, 3}, {6, 1}, {8, 1}, {31, 1}}) {
    expect_every_type({.batch = 2, .heads = heads, .kv_heads = kv_heads, .q_len = 20, .k_len = 20});
    expect_every_type(
        {.heads = heads, .kv_heads = kv_heads, .q_len = 20, .k_len = 20, .options = causal(), .q_first = 3});
  }
}

TEST(AttentionBackward, SixteenBits) {
  // out and lse come rounded from the forward: D = d_o·o is off by half a unit of o, on the order of a unit of the
  // gradient's largest. The truth starts from those very results.
  for (const Mask mask : {Mask::none, Mask::causal}) {
    const AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 40, .k_len = 40, .options = {.mask = mask}};
    const auto expect = [&]<class T>(T) {
      const AttentionData<T> data(c);
      const auto truth = test::attention_truth(data.problem(true), {});
      const auto got = data.backward({});
      const auto compare = [&](const char* what, const std::vector<T>& numbers, const std::vector<double>& of) {
        ASSERT_EQ(numbers.size(), of.size());
        // |d_s| ≤ p (|d_p − D| + |error of D|), errors of D: half a unit of each of 8 o times d_o ≤ 1.
        const double unit = test::ulp<T>(1);
        for (std::size_t x = 0; x < of.size(); ++x) {
          ASSERT_NEAR(test::to_double(numbers[x]), of[x], 4 * unit * std::max(1.0, std::abs(of[x]))) << what << x;
        }
      };
      compare("d_q ", got.d_q, truth.d_q);
      compare("d_k ", got.d_k, truth.d_k);
      compare("d_v ", got.d_v, truth.d_v);
    };
    expect(Bfloat16());
    expect(Float16());
  }
}

TEST(AttentionBackward, SixteenBitsWithGradientsInFloat) {
  // Widened inputs are exact, and nothing else is rounded to 16 bits: gradients are as good as float's.
  const std::vector<double> sinks = {0.5, -1, 2, 0};
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const Layout layout : {Layout::bhtd, Layout::bthd, Layout::dim_outermost}) {
      AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 80, .k_len = 90, .options = {.mask = mask}};
      c.options.sinks = {dense(sinks.data(), 4)};
      c.inputs = c.outputs = layout;
      test::expect_attention_gradients<Bfloat16, float>(c);
      test::expect_attention_gradients<Float16, float>(c);
      const AttentionData<Bfloat16> data(c);
      test::Workers workers(3);
      EXPECT_TRUE(data.backward<float>({}, workers).same_bits_as(data.backward<float>({}))) << name(layout);
    }
  }
}

TEST(AttentionBackward, SixteenBitsAndEncodingsWithGradientsInFloat) {
  const NamedEncodings encodings;
  for (const char* name : {"t5", "rope_mixed, small", "shaw", "pope", "cope", "rotation, bias and values"}) {
    SCOPED_TRACE(name);
    const NamedEncoding& encoding = encodings.find(name);
    const AttentionCase c{.heads = 4, .kv_heads = encoding.kv_heads, .q_len = 20, .k_len = 30, .q_first = 10};
    Params params = encoding.params(c), exact = encoding.params(c);
    const AttentionData<Float16> data(c);
    const auto made = encoding.make<float>(params, c);
    const auto truth = test::attention_truth(data.problem(true), encoding.make<double>(exact, c).list);
    test::expect_attention_gradients<Float16, float>(data, truth, made.list);
  }
}

TEST(AttentionBackward, EveryLayoutOfInputsAndGradients) {
  for (const Layout layout : test::writable_layouts) {
    AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 80, .k_len = 21, .dim = 6, .value_dim = 10};
    const auto plain = AttentionData<float>(c).backward({});
    const auto plain16 = AttentionData<Bfloat16>(c).backward({});
    c.inputs = layout;
    expect_every_type(c);
    EXPECT_TRUE(AttentionData<float>(c).backward({}).same_bits_as(plain)) << name(layout) << " inputs";
    EXPECT_TRUE(AttentionData<Bfloat16>(c).backward({}).same_bits_as(plain16)) << name(layout) << " inputs";
    c.inputs = Layout::bhtd, c.outputs = layout;
    expect_every_type(c);
    EXPECT_TRUE(AttentionData<float>(c).backward({}).same_bits_as(plain)) << name(layout) << " gradients";
    EXPECT_TRUE(AttentionData<Bfloat16>(c).backward({}).same_bits_as(plain16)) << name(layout) << " gradients";
  }
  AttentionCase shared{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 21};
  shared.inputs = Layout::one_head;
  expect_every_type(shared);
}

TEST(AttentionBackward, EveryMaskWithEveryOther) {
  const test::Masks masks(2, 2, 11, 20);
  masks.each([&](const AttentionCase& c, const std::string& others) {
    SCOPED_TRACE(others);
    test::expect_attention_gradients<double>(c);
  });
}

TEST(AttentionBackward, EveryMaskOverManyBlocks) {
  const test::Masks masks(2, 1, 300, 290);
  Index n = 0;
  masks.each([&](const AttentionCase& c, const std::string& others) {
    if (n++ % 37 != 0) return;  // no divisor of the combinations' number: every kind takes its turn
    SCOPED_TRACE(others);
    test::expect_attention_gradients<float>(c);
  });
}

TEST(AttentionBackward, NothingToDoIsDone) {
  for (const auto& [batch, heads, q_len] : {std::array<Index, 3>{0, 2, 3}, {2, 0, 3}, {2, 2, 0}, {2, 2, 3}}) {
    for (const Index k_len : {0, 5}) {
      const AttentionCase c{.batch = batch, .heads = heads, .kv_heads = heads, .q_len = q_len, .k_len = k_len};
      const auto got = AttentionData<float>(c).backward({});
      if (q_len > 0 && k_len > 0) continue;
      for (const std::vector<float>* grad : {&got.d_q, &got.d_k, &got.d_v}) {
        for (const float x : *grad) EXPECT_EQ(x, 0);
      }
    }
  }
  for (const auto& [dim, value_dim] : {std::pair<Index, Index>{0, 4}, {4, 0}, {0, 0}}) {
    expect_every_type({.q_len = 3, .k_len = 4, .dim = dim, .value_dim = value_dim});
  }
}

TEST(AttentionBackward, WhatHasNoFeaturesNeedsNoMemory) {
  // Null, with strides of any size: no reference to null, and no step from it, as the sanitizer would see.
  constexpr Index heads = 2;
  const auto check = [&]<class T>(T, Index q_len, Index k_len, Index dim, Index value_dim, Mask mask) {
    using A = Compute<T>;
    std::vector<T> memory(static_cast<std::size_t>(heads * k_len * 8), T(0.5f)), written(3 * memory.size());
    const auto rows = [&](T* data, Index time, Index features) {
      return View<T, 4>{
          features == 0 ? nullptr : data, {1, heads, time, features}, {heads * k_len * 8, k_len * 8, 8, 1}};
    };
    T *const out = written.data(), *const d_k = out + memory.size(), *const d_v = d_k + memory.size();
    std::vector<A> lse(static_cast<std::size_t>(heads * q_len));
    const AttentionInputs<T> in{rows(memory.data(), q_len, dim), rows(memory.data(), k_len, dim),
                                rows(memory.data(), k_len, value_dim), Positions(k_len - q_len)};
    attention<T>(in, rows(out, q_len, value_dim), dense(lse.data(), 1, heads, q_len), {}, {.mask = mask});
    for (const A x : lse) EXPECT_TRUE(std::isfinite(x));
    attention_backward<T>(in,
                          {rows(out, q_len, value_dim), dense<const A>(lse.data(), 1, heads, q_len),
                           rows(memory.data(), q_len, value_dim)},
                          {{}, rows(d_k, k_len, dim), rows(d_v, k_len, value_dim)}, {}, {.mask = mask});
    // Every row of values weighs what its keys do: together as much as there are queries, of half each. bfloat16
    // rounds each to 2^-9 of itself.
    double sum = 0;
    for (Index j = 0; value_dim > 0 && j < k_len; ++j) sum += test::to_double(d_v[j * 8]);
    const double all = value_dim > 0 ? 0.5 * static_cast<double>(q_len) : 0;
    EXPECT_NEAR(sum, all, 0x1p-8 * all);
  };
  for (const auto& [q_len, k_len] : {std::pair<Index, Index>{3, 4}, {40, 70}, {1, 300}}) {  // and a decode step
    for (const auto& [dim, value_dim] : {std::pair<Index, Index>{0, 4}, {4, 0}, {0, 0}}) {
      for (const Mask mask : {Mask::none, Mask::causal}) {
        SCOPED_TRACE(std::to_string(q_len) + " queries, dims " + std::to_string(dim) + " " + std::to_string(value_dim));
        check(0.0f, q_len, k_len, dim, value_dim, mask);
        check(Bfloat16(), q_len, k_len, dim, value_dim, mask);
      }
    }
  }
}

TEST(AttentionBackward, WithoutKeysPositionsAndParametersAreLeftAlone) {
  // Keys have positions in a view of nothing, which must not be read for the distances of no diagonal.
  std::vector<float> q(3 * 4, 1), d_q(q), lse(3, -std::numeric_limits<float>::infinity()), slope{0.5f}, d_slope{2};
  const View<const Index, 1> nowhere{nullptr, {0}, {1}};
  const AlibiBias<float> alibi(Param<float, 1>{dense<const float>(slope.data(), 1), dense(d_slope.data(), 1)});
  const auto rows = [&](Index n) { return bhtd<const float>(q.data(), 1, 1, n, 4); };
  attention_backward<float>({rows(3), rows(0), rows(0), {}, Positions(nowhere)},
                            {rows(3), dense<const float>(lse.data(), 1, 1, 3), rows(3)}, {bhtd(d_q.data(), 1, 1, 3, 4)},
                            with(alibi), {.mask = Mask::none});
  EXPECT_EQ(d_q, std::vector<float>(3 * 4));
  EXPECT_EQ(d_slope[0], 2);
}

TEST(AttentionBackward, ScaleCapAndSinks) {
  const std::vector<double> sinks = {0.5, 40, -300, -std::numeric_limits<double>::infinity()};
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const double scale : {1.0, 0.0, -0.5}) {
      for (const double cap : {0.0, 0.25, 30.0}) {
        AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 75, .k_len = 70, .options = {.mask = mask}};
        c.options.scale = scale, c.options.soft_cap = cap;
        expect_every_type(c);
        c.options.sinks = {dense(sinks.data(), 4)};
        expect_every_type(c);
        c.k_first = 4;  // under a causal mask the first four queries see nothing but the sink
        expect_every_type(c);
      }
    }
  }
}

TEST(AttentionBackward, RowsThatSeeNothingHaveNoGradient) {
  AttentionCase c{.q_len = 80, .k_len = 40, .options = causal(), .k_first = 40};
  const AttentionData<float> data(c);
  expect_every_type(c);
  const auto got = data.backward({});
  for (Index h = 0; h < 2; ++h) {
    for (Index i = 0; i < 40 * 8; ++i) EXPECT_EQ(got.d_q[static_cast<std::size_t>(h * 80 * 8 + i)], 0);
  }
  c.k_first = 100;  // none sees anything
  const auto none = AttentionData<float>(c).backward({});
  for (const std::vector<float>* grad : {&none.d_q, &none.d_k, &none.d_v}) {
    for (const float x : *grad) EXPECT_EQ(x, 0);
  }
}

TEST(AttentionBackward, LargeLogitsDoNotOverflow) {
  for (const double size : {100.0, 3500.0}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      const AttentionCase c{.q_len = 11, .k_len = 75, .options = {.mask = mask}, .size = size};
      on_every_target([&] { expect_every_type(c); });
    }
  }
}

TEST(AttentionBackward, HiddenKeysMayHoldAnything) {
  // No number at all in rows of k and v that do not exist, nor in those of a packed neighbour that ends the panel.
  const Index present = 41;
  std::vector<float> q(30 * 8), k(64 * 8), v(64 * 8), out(30 * 8), lse(30), d_q(q.size()), d_k(k.size()), d_v(v.size());
  test::Random random(4);
  for (std::vector<float>* x : {&q, &k, &v}) {
    for (float& number : *x) number = static_cast<float>(random.uniform(-1, 1));
  }
  for (std::size_t x = present * 8; x < k.size(); ++x) k[x] = v[x] = std::numeric_limits<float>::quiet_NaN();
  const AttentionInputs<float> in{bhtd<const float>(q.data(), 1, 1, 30, 8), bhtd<const float>(k.data(), 1, 1, 64, 8),
                                  bhtd<const float>(v.data(), 1, 1, 64, 8)};
  const AttentionOptions<float> options{.mask = Mask::none, .k_lengths = dense(&present, 1)};
  attention(in, bhtd(out.data(), 1, 1, 30, 8), dense(lse.data(), 1, 1, 30), {}, options);
  attention_backward<float>(
      in,
      {bhtd<const float>(out.data(), 1, 1, 30, 8), dense<const float>(lse.data(), 1, 1, 30),
       bhtd<const float>(q.data(), 1, 1, 30, 8)},
      {bhtd(d_q.data(), 1, 1, 30, 8), bhtd(d_k.data(), 1, 1, 64, 8), bhtd(d_v.data(), 1, 1, 64, 8)}, {}, options);
  for (const std::vector<float>* grad : {&d_q, &d_k, &d_v}) {
    for (const float x : *grad) EXPECT_TRUE(std::isfinite(x));
  }
  for (std::size_t x = present * 8; x < k.size(); ++x) EXPECT_TRUE(d_k[x] == 0 && d_v[x] == 0);
}

template <class T>
void expect_same_bits(const AttentionCase& c, const NamedEncoding& encoding) {
  const test::Everything<T> serial = test::everything<T>(encoding, c, {});
  for (const Index count : {1, 2, 3, 7, 16}) {
    test::Workers workers(count);
    EXPECT_TRUE(test::everything<T>(encoding, c, workers).same_bits_as(serial))
        << count << " workers, " << encoding.name;
    EXPECT_TRUE(test::everything<T>(encoding, c, test::backwards(count)).same_bits_as(serial))
        << count << " backwards, " << encoding.name;
  }
}

TEST(AttentionBackward, SameBitsForAnyNumberOfWorkers) {
  const NamedEncodings encodings;
  for (const char* name : {"nothing", "t5", "alibi_learned", "rope", "rope_mixed, small", "shaw", "pope", "dense_bias",
                           "cope", "rotation, bias and values", "two biases and rows"}) {
    const NamedEncoding& encoding = encodings.find(name);
    AttentionCase c{.batch = 1, .heads = 4, .kv_heads = encoding.kv_heads, .q_len = 330, .k_len = 400};
    c.q_first = 70;
    for (const Mask mask : {Mask::none, Mask::causal}) {
      c.options.mask = mask;
      expect_same_bits<float>(c, encoding);
    }
    expect_same_bits<Bfloat16>(c, encoding);
  }
}

TEST(AttentionBackward, SameBitsForOneHeadAndForMany) {
  const NamedEncodings encodings;
  const NamedEncoding& nothing = encodings.find("nothing");
  for (const auto& [batch, heads, kv_heads] :
       {std::array<Index, 3>{1, 1, 1}, {1, 7, 1}, {2, 6, 2}, {3, 8, 8}, {2, 16, 16}}) {
    AttentionCase c{.batch = batch, .heads = heads, .kv_heads = kv_heads, .q_len = 310, .k_len = 310};
    const std::vector<double> sinks(static_cast<std::size_t>(heads), 0.5);
    c.options.sinks = {dense(sinks.data(), heads)};
    for (const Mask mask : {Mask::none, Mask::causal}) {
      c.options.mask = mask;
      expect_same_bits<float>(c, nothing);
    }
    expect_same_bits<double>(c, nothing);
  }
}

TEST(AttentionBackward, GradientsThatNobodyWantsChangeNoOther) {
  const NamedEncodings encodings;
  const AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 90, .k_len = 300};
  const AttentionData<float> data(c);
  for (const char* name : {"nothing", "t5", "shaw"}) {
    Params params = encodings.find(name).params(c);
    const auto made = encodings.find(name).make<float>(params, c);
    const auto all = data.backward(made.list);
    const std::vector<float> zeros_q(all.d_q.size()), zeros_k(all.d_k.size()), zeros_v(all.d_v.size());
    for (int wanted = 0; wanted < 8; ++wanted) {
      std::vector<float> d_q = zeros_q, d_k = zeros_k, d_v = zeros_v, d_out, d_lse(all.lse.size());
      d_out.assign(all.out.begin(), all.out.end());
      const auto run = [&](int which) {
        AttentionGrads<float> grads;
        if (which & 1) grads.d_q = bhtd(d_q.data(), 2, 4, 90, 8);
        if (which & 2) grads.d_k = bhtd(d_k.data(), 2, 2, 300, 8);
        if (which & 4) grads.d_v = bhtd(d_v.data(), 2, 2, 300, 8);
        attention_backward<float>(
            data.inputs(),
            {bhtd<const float>(all.out.data(), 2, 4, 90, 8), dense<const float>(all.lse.data(), 2, 4, 90),
             bhtd<const float>(d_out.data(), 2, 4, 90, 8)},
            grads, made.list, data.options());
      };
      run(7);
      const std::array<std::vector<float>, 3> together = {d_q, d_k, d_v};
      d_q = zeros_q, d_k = zeros_k, d_v = zeros_v;
      run(wanted);
      EXPECT_TRUE(test::same_bits(d_q, wanted & 1 ? together[0] : zeros_q)) << name << wanted;
      EXPECT_TRUE(test::same_bits(d_k, wanted & 2 ? together[1] : zeros_k)) << name << wanted;
      EXPECT_TRUE(test::same_bits(d_v, wanted & 4 ? together[2] : zeros_v)) << name << wanted;
    }
  }
}

TEST(AttentionBackward, SaysWhatIsWrongBeforeItWrites) {
  std::vector<float> x(2 * 3 * 4), y(x.size()), lse(6), d_q(x.size(), 7), d_k(x.size(), 7), d_v(x.size(), 7);
  const auto view = [](std::vector<float>& from) { return bhtd(from.data(), 1, 2, 3, 4); };
  const AttentionInputs<float> in{view(x), view(x), view(x)};
  const AttentionResults<float> results{view(y), dense(lse.data(), 1, 2, 3), view(y)};
  const AttentionGrads<float> grads{view(d_q), view(d_k), view(d_v)};
  const auto expect = [&](const AttentionInputs<float>& inputs, const AttentionResults<float>& from,
                          const AttentionGrads<float>& to, const char* text) {
    test::expect_error<ShapeError>([&] { attention_backward<float>(inputs, from, to, {}, {.mask = Mask::none}); },
                                   std::string("[attention_backward] ") + text);
    for (const std::vector<float>* grad : {&d_q, &d_k, &d_v}) {
      for (const float number : *grad) ASSERT_EQ(number, 7);
    }
  };
  AttentionInputs<float> paged = in;
  const Index block = 0;
  paged.block_table = dense(&block, 1, 1);
  expect(paged, results, grads, "block_table: must be empty, as a paged cache has no gradients, got shape [1, 1]");
  AttentionResults<float> other = results;
  other.out.shape[3] = 3;
  expect(in, other, grads, "out: must be [batch, heads, q_len, value_dim] = [1, 2, 3, 4], got [1, 2, 3, 3]");
  other = results, other.lse = {};
  expect(in, other, grads, "lse: must be [batch, heads, q_len] = [1, 2, 3], got [0, 0, 0]");
  other = results, other.d_out.data = nullptr;
  expect(in, other, grads, "d_out: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  other = results, other.d_lse = dense(lse.data(), 2, 2, 3);
  expect(in, other, grads, "d_lse: must be [batch, heads, q_len] = [1, 2, 3], got [2, 2, 3]");
  AttentionGrads<float> to = grads;
  to.d_k.shape[2] = 2;
  expect(in, results, to, "d_k: must have the shape of k, [1, 2, 3, 4], got [1, 2, 2, 4]");
  to = grads, to.d_v.stride[2] = 0;
  expect(in, results, to, "d_v: no two elements may share memory, got strides [24, 12, 0, 1] for shape [1, 2, 3, 4]");
  to = grads, to.d_q = view(x);
  expect(in, results, to, "d_q: must share no memory with q, got tensors that overlap");
  to = grads, to.d_v = view(y);
  expect(in, results, to, "d_v: must share no memory with out, got tensors that overlap");
  to = grads, to.d_v = view(d_k);
  expect(in, results, to, "d_v: must share no memory with d_k, got tensors that overlap");
}

/// A function of the distance that asks for whole rows all the same.
template <bool whole>
struct Falling {
  using Arithmetic = float;
  static constexpr bool constant = true, whole_rows = whole;

  void bias(Index, Index n, const double* distances, float* b) const {
    for (Index x = 0; x < n; ++x) b[x] = -0.01f * static_cast<float>(std::abs(distances[x]));
  }
};

TEST(AttentionBackward, ABiasByDistanceMayAskForWholeRows) {
  const AttentionCase c{.q_len = 40, .k_len = 700};  // keys of several blocks
  const AttentionData<float> data(c);
  const Falling<true> whole;
  const Falling<false> usual;
  const auto got = data.backward(with(whole)), want = data.backward(with(usual));
  const auto expect_near = [](const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t x = 0; x < a.size(); ++x) ASSERT_NEAR(a[x], b[x], 1e-5) << x;
  };
  expect_near(got.out, want.out);
  expect_near(got.d_q, want.d_q);
  expect_near(got.d_k, want.d_k);
  expect_near(got.d_v, want.d_v);
}

}  // namespace
}  // namespace bearing
