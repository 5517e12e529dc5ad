#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/errors.hpp"

namespace bearing {
namespace {

using test::expect_error;

/// Tensors of [1, 4, 3, 2], [1, 2, 5, 2] and [1, 2, 5, 3] zeros, to be spoilt.
struct Calls {
  std::vector<double> memory = std::vector<double>(1000);
  LinearAttentionInputs<double> in{bhtd<const double>(memory.data(), 1, 4, 3, 2),
                                   bhtd<const double>(memory.data() + 100, 1, 2, 5, 2),
                                   bhtd<const double>(memory.data() + 200, 1, 2, 5, 3)};
  View<double, 4> out = bhtd(memory.data() + 300, 1, 4, 3, 3);
  LinearState<double> state;
  LinearAttentionGrads<double> grads{bhtd(memory.data() + 400, 1, 4, 3, 2), bhtd(memory.data() + 500, 1, 2, 5, 2),
                                     bhtd(memory.data() + 600, 1, 2, 5, 3)};
  LinearAttentionOptions options{.mask = Mask::causal};
  TermList<double> terms;

  void forward() { linear_attention<double>(in, out, state, terms, options); }
  void backward() { linear_attention_backward<double>(in, out, {state.s, state.z}, grads, terms, options); }
};

template <class Error, class Spoil>
void expect_wrong(const Spoil& spoil, const std::string& text) {
  Calls calls;
  spoil(calls);
  expect_error<Error>([&] { calls.forward(); }, "[linear_attention] " + text);
  for (const double x : calls.memory) ASSERT_EQ(x, 0);
  Calls back;
  spoil(back);
  std::string renamed = text;
  if (renamed.rfind("out", 0) == 0) renamed = "d_" + renamed;
  if (renamed.rfind("state", 0) == 0) renamed = "start" + renamed.substr(5);
  expect_error<Error>([&] { back.backward(); }, "[linear_attention_backward] " + renamed);
  for (const double x : back.memory) ASSERT_EQ(x, 0);
}

TEST(LinearAttentionWrongCalls, RightOnesPass) {
  Calls calls;
  calls.forward();
  calls.backward();
}

TEST(LinearAttentionWrongCalls, Shapes) {
  expect_wrong<ShapeError>([](Calls& c) { c.in.k.shape[3] = 3; },
                           "k: must be [batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries "
                           "[batch, heads, q_len, dim] = [1, 4, 3, 2], got [1, 2, 5, 3]");
  expect_wrong<ShapeError>([](Calls& c) { c.in.k.shape[1] = 3; },
                           "k: must be [batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries "
                           "[batch, heads, q_len, dim] = [1, 4, 3, 2], got [1, 3, 5, 2]");
  expect_wrong<ShapeError>([](Calls& c) { c.in.k.shape[1] = 0; },
                           "k: must be [batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries "
                           "[batch, heads, q_len, dim] = [1, 4, 3, 2], got [1, 0, 5, 2]");
  expect_wrong<ShapeError>([](Calls& c) { c.in.v.shape[2] = 4; },
                           "v: must have the first three extents of k, [1, 2, 5, 2], got [1, 2, 4, 3]");
  expect_wrong<ShapeError>([](Calls& c) { c.out.shape[3] = 2; },
                           "out: must be [batch, heads, q_len, value_dim] = [1, 4, 3, 3], got [1, 4, 3, 2]");
  expect_wrong<ShapeError>([](Calls& c) { c.in.q.shape[2] = -1; },
                           "q: must have extents of at least 0, got shape [1, 4, -1, 2]");
  expect_wrong<ShapeError>([](Calls& c) { c.in.v.data = nullptr; },
                           "v: must have memory, got a null pointer; shape is [1, 2, 5, 3]");
}

TEST(LinearAttentionWrongCalls, OutputsThatShareMemory) {
  Calls calls;
  calls.out.stride[1] = 0;
  expect_error<ShapeError>([&] { calls.forward(); },
                           "[linear_attention] out: no two elements may share memory, got strides [36, 0, 3, 1] for "
                           "shape [1, 4, 3, 3]");
  calls = {};
  calls.in.v.data = calls.out.data;
  expect_error<ShapeError>([&] { calls.forward(); },
                           "[linear_attention] out: must share no memory with v, got tensors that overlap");
  Calls same;
  same.grads.d_k.data = same.grads.d_q.data;
  expect_error<ShapeError>([&] { same.backward(); },
                           "[linear_attention_backward] d_k: must share no memory with d_q, got tensors that overlap");
  Calls own;
  own.in.k.data = own.grads.d_v.data;
  expect_error<ShapeError>([&] { own.backward(); },
                           "[linear_attention_backward] d_v: must share no memory with k, got tensors that overlap");
  Calls shape;
  shape.grads.d_q.shape[2] = 2;
  expect_error<ShapeError>([&] { shape.backward(); },
                           "[linear_attention_backward] d_q: must have the shape of q, [1, 4, 3, 2], got [1, 4, 2, 2]");
}

TEST(LinearAttentionWrongCalls, Options) {
  expect_wrong<RangeError>([](Calls& c) { c.options.epsilon = -1; }, "epsilon: must be a number of at least 0, got -1");
  expect_wrong<RangeError>([](Calls& c) { c.options.epsilon = std::numeric_limits<double>::infinity(); },
                           "epsilon: must be a number of at least 0, got inf");
  expect_wrong<RangeError>([](Calls& c) { c.options.feature_map = FeatureMap::identity; },
                           "normaliser: must be none if the feature map is identity, as its sums may vanish, got sum");
  expect_wrong<RangeError>([](Calls& c) { c.options.mask = static_cast<Mask>(9); },
                           "mask: must be none, causal, causal_top_left or causal_bottom_right, got 9");
  expect_wrong<RangeError>([](Calls& c) { c.options.feature_map = static_cast<FeatureMap>(9); },
                           "feature_map: must be elu_plus_one, relu or identity, got 9");
  expect_wrong<RangeError>([](Calls& c) { c.options.normaliser = static_cast<Normaliser>(9); },
                           "normaliser: must be sum or none, got 9");
  std::vector<float> one(4, 1);
  const auto row = bhtd<const float>(one.data(), 1, 1, 1, 1);
  expect_error<RangeError>(
      [&] {
        linear_attention<float>({row, row, row}, bhtd(one.data() + 1, 1, 1, 1, 1), {}, {},
                                {.mask = Mask::none, .epsilon = 1e300});
      },
      "[linear_attention] epsilon: must be finite in float, got 1e+300");
}

TEST(LinearAttentionWrongCalls, Positions) {
  static const std::vector<Index> falling{0, 2, 1}, few{0, 1};
  expect_wrong<RangeError>(
      [](Calls& c) { c.in.q_positions = Positions(dense(falling.data(), 3)); },
      "q_positions: must not fall from token to token for a causal mask by position, got 1 after 2 at "
      "token 2 of sequence 0");
  static const std::vector<double> keys{0, 1, 2, 3, 2.5};
  expect_wrong<RangeError>(
      [](Calls& c) { c.in.k_positions = Positions(dense(keys.data(), 5)); },
      "k_positions: must not fall from token to token for a causal mask by position, got 2.5 after 3 at "
      "token 4 of sequence 0");
  static const std::vector<Index> triples(15);
  static const std::vector<Index> patches{0, 0, 0, 0, 1, 0, 1, 1, 0, 0};  // two axes of five keys
  expect_wrong<RangeError>(
      [](Calls& c) { c.in.k_positions = Positions(dense(patches.data(), 2, 1, 5)); },
      "k_positions: must not fall from token to token for a causal mask by position, got 0 after 1 at "
      "token 3 of sequence 0 on axis 1");
  Calls uneven;
  uneven.in.q_positions = Positions(dense(patches.data(), 2, 1, 3));
  uneven.in.k_positions = Positions(dense(triples.data(), 3, 1, 5));
  EXPECT_THROW(uneven.forward(), ShapeError);
  Calls short_one;
  short_one.in.q_positions = Positions(dense(few.data(), 2));
  EXPECT_THROW(short_one.forward(), ShapeError);
  Calls any_order;  // which masks by index, or none, do not mind
  any_order.in.q_positions = Positions(dense(falling.data(), 3));
  any_order.options.mask = Mask::causal_top_left;
  any_order.forward();
}

TEST(LinearAttentionWrongCalls, Terms) {
  static const AlibiBias<double> alibi(Alibi{{0.5, 0.25, 0.125, 0.0625}});
  expect_wrong<ShapeError>([](Calls& c) { c.terms = with(alibi); },
                           "terms: must all be encodings of rows or decays of the state, as there are no scores to add "
                           "to, got one that acts elsewhere as number 1 of 1");
  static const RopeTable<double> table(Rope{.head_dim = 2, .pairing = Pairing::half}, 8);
  static const RotaryRows<double> rope(table);
  expect_wrong<ShapeError>([](Calls& c) { c.terms = with(rope, alibi); },
                           "terms: must all be encodings of rows or decays of the state, as there are no scores to add "
                           "to, got one that acts elsewhere as number 2 of 2");
  static const std::vector<double> frequencies(4);
  static const RopeMixedRows<double> mixed({.head_dim = 2, .axes = 1, .pairing = Pairing::half},
                                           {dense(frequencies.data(), 1, 4, 1)});
  expect_wrong<ShapeError>([](Calls& c) { c.terms = with(mixed); },
                           "RopeMixed: must have a set of parameters for each of 2 heads, got 4 sets for 1 heads each");
}

TEST(LinearAttentionWrongCalls, States) {
  expect_wrong<ShapeError>(
      [](Calls& c) {
        c.state = {bhtd(c.memory.data() + 700, 1, 2, 3, 2), dense(c.memory.data() + 800, 1, 2, 2)};
      },
      "state.s: must be [batch, kv_heads, rows_dim, value_dim] = [1, 2, 2, 3], got [1, 2, 3, 2]");
  expect_wrong<ShapeError>(
      [](Calls& c) {
        c.state = {bhtd(c.memory.data() + 700, 1, 2, 2, 3), dense(c.memory.data() + 800, 1, 4, 2)};
      },
      "state.z: must be [batch, kv_heads, dim] = [1, 2, 2], got [1, 4, 2]");
  expect_wrong<ShapeError>([](Calls& c) { c.state.s = bhtd(c.memory.data() + 700, 1, 2, 2, 3); },
                           "state.z: must be [batch, kv_heads, dim] = [1, 2, 2], got [0, 0, 0]");
  expect_wrong<ShapeError>(
      [](Calls& c) {
        c.state = {bhtd<double>(nullptr, 1, 2, 2, 3), dense<double>(nullptr, 1, 2, 2)};
      },
      "state.s: must have memory, got a null pointer; shape is [1, 2, 2, 3]");
  Calls calls;
  calls.grads.d_state.s = bhtd(calls.memory.data() + 700, 1, 2, 2, 2);
  expect_error<ShapeError>([&] { calls.backward(); },
                           "[linear_attention_backward] d_state.s: must be [batch, kv_heads, rows_dim, value_dim] = "
                           "[1, 2, 2, 3], got [1, 2, 2, 2]");
}

}  // namespace
}  // namespace bearing
