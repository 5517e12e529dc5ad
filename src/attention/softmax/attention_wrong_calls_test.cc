#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>
#include <limits>
#include <memory>
#include <vector>

#include "support/errors.hpp"

// Wrong calls say what must hold and what came, and write nothing.

namespace bearing {
namespace {

using test::expect_error;

constexpr Index batch = 2, heads = 4, kv_heads = 2, q_len = 3, k_len = 5, dim = 8, value_dim = 6;
constexpr float mark = 7;

/// The arguments of a call that is right until a test changes one of them.
struct Call {
  std::vector<float> memory = std::vector<float>(1024, 0.5f);                                       // what is read
  std::vector<float> written = std::vector<float>(4096, mark), d_sinks = {mark, mark, mark, mark};  // what is written
  AttentionInputs<float> in{bhtd<const float>(memory.data(), batch, heads, q_len, dim),
                            bhtd<const float>(memory.data(), batch, kv_heads, k_len, dim),
                            bhtd<const float>(memory.data(), batch, kv_heads, k_len, value_dim)};
  View<float, 4> out = bhtd(written.data(), batch, heads, q_len, value_dim);
  View<float, 3> lse = dense(written.data() + 512, batch, heads, q_len);
  AttentionOptions<float> options{.mask = Mask::none};
  TermList<float> terms = {};

  AttentionResults<float> results{bhtd<const float>(memory.data(), batch, heads, q_len, value_dim),
                                  dense<const float>(memory.data(), batch, heads, q_len),
                                  bhtd<const float>(memory.data(), batch, heads, q_len, value_dim),
                                  dense<const float>(memory.data(), batch, heads, q_len)};
  AttentionGrads<float> grads{bhtd(written.data() + 1024, batch, heads, q_len, dim),
                              bhtd(written.data() + 2048, batch, kv_heads, k_len, dim),
                              bhtd(written.data() + 3072, batch, kv_heads, k_len, value_dim)};

  bool untouched() const {
    for (const std::vector<float>* numbers : {&written, &d_sinks}) {
      for (const float x : *numbers) {
        if (x != mark) return false;
      }
    }
    return true;
  }
};

template <class Error, class Change>
void expect_refused_forward(const Change& change, const std::string& text) {
  Call call;
  change(call);
  expect_error<Error>([&] { attention(call.in, call.out, call.lse, call.terms, call.options); }, "[attention] " + text);
  EXPECT_TRUE(call.untouched()) << text;
}

template <class Error, class Change>
void expect_refused_backward(const Change& change, const std::string& text) {
  Call call;
  change(call);
  expect_error<Error>([&] { attention_backward(call.in, call.results, call.grads, call.terms, call.options); },
                      "[attention_backward] " + text);
  EXPECT_TRUE(call.untouched()) << text;
}

/// What both functions refuse alike.
template <class Error, class Change>
void expect_refused(const Change& change, const std::string& text) {
  expect_refused_forward<Error>(change, text);
  expect_refused_backward<Error>(change, text);
}

TEST(AttentionWrongCalls, ARightOneWrites) {
  Call call;
  attention(call.in, call.out, call.lse, call.terms, call.options);
  EXPECT_FALSE(call.untouched());
  Call backward;
  attention_backward(backward.in, backward.results, backward.grads, backward.terms, backward.options);
  EXPECT_FALSE(backward.untouched());
}

TEST(AttentionWrongCalls, NoEncodingsAreAnEmptyListOrWith) {
  Call braces, words;
  attention(braces.in, braces.out, braces.lse, {}, braces.options);
  attention(words.in, words.out, words.lse, with(), words.options);
  EXPECT_EQ(words.written, braces.written);
  attention_backward(words.in, words.results, words.grads, with(), words.options);
}

TEST(AttentionWrongCalls, Inputs) {
  expect_refused<ShapeError>([](Call& c) { c.in.q.shape[1] = -1; },
                             "q: must have extents of at least 0, got shape [2, -1, 3, 8]");
  expect_refused<ShapeError>([](Call& c) { c.in.q.data = nullptr; },
                             "q: must have memory, got a null pointer; shape is [2, 4, 3, 8]");
  expect_refused<ShapeError>([](Call& c) { c.in.k.data = nullptr; },
                             "k: must have memory, got a null pointer; shape is [2, 2, 5, 8]");
  expect_refused<ShapeError>([](Call& c) { c.in.v.data = nullptr; },
                             "v: must have memory, got a null pointer; shape is [2, 2, 5, 6]");
  expect_refused<ShapeError>([](Call& c) { c.in.k.shape[2] = Index{1} << 60; },
                             "k: must span at most 2^60 bytes, got shape [2, 2, 1152921504606846976, 8]");
  expect_refused<ShapeError>(
      [](Call& c) { c.in.v.stride[0] = Index{1} << 62; },
      "v: must span at most 2^60 bytes, got strides [4611686018427387904, 30, 6, 1] for shape [2, 2, 5, 6]");
  const auto k = [](const char* got) {
    return std::string(
               "k: must be [batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries [batch, "
               "heads, q_len, dim] = [2, 4, 3, 8], got ") +
           got;
  };
  expect_refused<ShapeError>([](Call& c) { c.in.k.shape[0] = 1; }, k("[1, 2, 5, 8]"));
  expect_refused<ShapeError>([](Call& c) { c.in.k.shape[1] = 3; }, k("[2, 3, 5, 8]"));
  expect_refused<ShapeError>([](Call& c) { c.in.k.shape[1] = 0; }, k("[2, 0, 5, 8]"));
  expect_refused<ShapeError>([](Call& c) { c.in.k.shape[1] = 8; }, k("[2, 8, 5, 8]"));
  expect_refused<ShapeError>([](Call& c) { c.in.k.shape[3] = 6; }, k("[2, 2, 5, 6]"));
  const auto v = [](const char* got) {
    return std::string("v: must have the first three extents of k, [2, 2, 5, 8], got ") + got;
  };
  expect_refused<ShapeError>([](Call& c) { c.in.v.shape[0] = 1; }, v("[1, 2, 5, 6]"));
  expect_refused<ShapeError>([](Call& c) { c.in.v.shape[1] = 1; }, v("[2, 1, 5, 6]"));
  expect_refused<ShapeError>([](Call& c) { c.in.v.shape[2] = 4; }, v("[2, 2, 4, 6]"));
}

TEST(AttentionWrongCalls, Positions) {
  const std::vector<Index> few(2), far(2 * 5, max_position + 1);
  const std::vector<double> nan(5, std::numeric_limits<double>::quiet_NaN()), five(2 * 5 * 5);
  expect_refused<ShapeError>([&](Call& c) { c.in.q_positions = Positions(dense(few.data(), 2)); },
                             "q_positions: must have 3 tokens, got 2");
  expect_refused<RangeError>([&](Call& c) { c.in.k_positions = Positions(dense(far.data(), 2, 5)); },
                             "k_positions: must be from -2^31 to 2^31, got 2147483649 at [axis 0, batch 0, time 0]");
  expect_refused<RangeError>([&](Call& c) { c.in.k_positions = Positions(dense(nan.data(), 5)); },
                             "k_positions: must be from -2^31 to 2^31, got nan at [axis 0, batch 0, time 0]");
  expect_refused<ShapeError>([&](Call& c) { c.in.k_positions = Positions(dense(five.data(), 5, 2, 5)); },
                             "k_positions: must have 1 to 4 axes, got 5");
  expect_refused<ShapeError>(
      [&](Call& c) {
        c.in.q_positions = Positions(dense(five.data(), 2, 2, 3)),
        c.in.k_positions = Positions(dense(five.data(), 3, 2, 5));
        c.options.mask = Mask::causal;
      },
      "k_positions: must have as many axes as q_positions, 2, or one for a causal mask, got 3");
  expect_refused<RangeError>(
      [](Call& c) { c.in.q_positions = Positions(max_position - 1); },
      "q_positions: must be from -2^31 to 2^31, got 2147483647 + 2 at [axis 0, batch 0, time 2]");
}

TEST(AttentionWrongCalls, Numbers) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused<RangeError>([=](Call& c) { c.options.scale = infinity; }, "scale: must be finite, got inf");
  expect_refused<RangeError>([=](Call& c) { c.options.scale = nan; }, "scale: must be finite, got nan");
  expect_refused<RangeError>([](Call& c) { c.options.scale = 1e300; }, "scale: must be finite, got 1e+300");
  expect_refused<RangeError>([](Call& c) { c.options.window = {.before = -2, .after = 0}; },
                             "window: must be whole numbers from 0 on, or -1 for no limit, got (-2, 0)");
  expect_refused<RangeError>([](Call& c) { c.options.window = {.before = 0, .after = -100}; },
                             "window: must be whole numbers from 0 on, or -1 for no limit, got (0, -100)");
  expect_refused<RangeError>([](Call& c) { c.options.soft_cap = -1; },
                             "soft_cap: must be positive, or 0 for none, got -1");
  expect_refused<RangeError>([=](Call& c) { c.options.soft_cap = nan; },
                             "soft_cap: must be positive, or 0 for none, got nan");
  expect_refused<RangeError>([=](Call& c) { c.options.soft_cap = infinity; },
                             "soft_cap: must be positive, or 0 for none, got inf");
  expect_refused<RangeError>([](Call& c) { c.options.soft_cap = 1e-40; },
                             "soft_cap: must be a normal number, got 1e-40");
}

TEST(AttentionWrongCalls, Sinks) {
  const std::vector<float> sinks = {0, 1, std::numeric_limits<float>::infinity(), 0},
                           nans = {0, std::numeric_limits<float>::quiet_NaN(), 0, 0}, good(4);
  expect_refused<ShapeError>([&](Call& c) { c.options.sinks = {dense(good.data(), 3)}; },
                             "sinks: must be [heads] = [4], got [3]");
  expect_refused<RangeError>([&](Call& c) { c.options.sinks = {dense(sinks.data(), 4)}; },
                             "sinks: must be finite or −∞, got inf for head 2");
  expect_refused<RangeError>([&](Call& c) { c.options.sinks = {dense(nans.data(), 4)}; },
                             "sinks: must be finite or −∞, got nan for head 1");
  expect_refused<ShapeError>(
      [&](Call& c) {
        c.options.sinks = {dense(good.data(), 4), dense(c.d_sinks.data(), 3)};
      },
      "sinks.grad: must have the shape of the sinks, [4], got [3]");
  expect_refused<ShapeError>(
      [&](Call& c) {
        c.options.sinks = {dense(good.data(), 4), {c.d_sinks.data(), {4}, {0}}};
      },
      "sinks.grad: no two elements may share memory, got strides [0] for shape [4]");
  expect_refused<ShapeError>([](Call& c) { c.options.sinks.grad = dense(c.d_sinks.data(), 4); },
                             "sinks.grad: must have the shape of the sinks, [0], got [4]");
}

TEST(AttentionWrongCalls, Masks) {
  const std::vector<Index> lengths = {5, 6}, negative = {-1, 0};
  const auto shown = std::make_unique<bool[]>(batch * heads * q_len * k_len);
  expect_refused<ShapeError>([&](Call& c) { c.options.k_lengths = dense(lengths.data(), 1); },
                             "k_lengths: must be [batch] = [2], got [1]");
  expect_refused<RangeError>([&](Call& c) { c.options.k_lengths = dense(lengths.data(), 2); },
                             "k_lengths: must be from 0 to k_len = 5, got 6 for sequence 1");
  expect_refused<RangeError>([&](Call& c) { c.options.k_lengths = dense(negative.data(), 2); },
                             "k_lengths: must be from 0 to k_len = 5, got -1 for sequence 0");
  expect_refused<ShapeError>([&](Call& c) { c.options.key_mask = dense<const bool>(shown.get(), 2, 3); },
                             "key_mask: must be [batch, k_len] = [2, 5], got [2, 3]");
  expect_refused<ShapeError>([&](Call& c) { c.options.visible = dense<const bool>(shown.get(), 1, 1, 3, 5); },
                             "visible: must be [batch, heads, q_len, k_len] = [2, 4, 3, 5], got [1, 1, 3, 5]");
  expect_refused<RangeError>([](Call& c) { c.options.mask = static_cast<Mask>(9); },
                             "mask: must be none, causal, causal_top_left or causal_bottom_right, got 9");
}

// A shape says that the tensor is meant: without memory it is no argument that was left out.
TEST(AttentionWrongCalls, ShapesWithoutMemory) {
  const auto lacks = [](const std::string& name, const std::string& shape) {
    return name + ": must have memory, got a null pointer; shape is " + shape;
  };
  expect_refused<ShapeError>([](Call& c) { c.options.k_lengths.shape = {2}; }, lacks("k_lengths", "[2]"));
  expect_refused<ShapeError>(
      [](Call& c) {
        c.options.key_mask = {nullptr, {2, 5}, {5, 1}};
      },
      lacks("key_mask", "[2, 5]"));
  expect_refused<ShapeError>(
      [](Call& c) {
        c.options.key_mask.shape = {7, 7};
      },
      "key_mask: must be [batch, k_len] = [2, 5], got [7, 7]");
  expect_refused<ShapeError>([](Call& c) { c.options.visible.shape = {2, 4, 3, 5}; }, lacks("visible", "[2, 4, 3, 5]"));
  expect_refused<ShapeError>([](Call& c) { c.options.sinks.value.shape = {4}; }, lacks("sinks", "[4]"));
  expect_refused<ShapeError>([](Call& c) { c.options.q_starts.shape = c.options.k_starts.shape = {2}; },
                             lacks("q_starts", "[2]"));
  expect_refused_forward<ShapeError>([](Call& c) { c.lse.data = nullptr; }, lacks("lse", "[2, 4, 3]"));
  expect_refused_backward<ShapeError>([](Call& c) { c.results.d_lse.data = nullptr; }, lacks("d_lse", "[2, 4, 3]"));
  expect_refused_forward<ShapeError>(
      [](Call& c) {
        c.in.block_table = {nullptr, {2, 2}, {2, 1}};
      },
      lacks("block_table", "[2, 2]"));
  const std::vector<Index> table = {0, 1, 1, 0};
  expect_refused_forward<ShapeError>(
      [&](Call& c) { c.in.block_table = dense(table.data(), 2, 2), c.options.k_lengths.shape = {2}; },
      lacks("k_lengths", "[2]"));
}

TEST(AttentionWrongCalls, PackedSequences) {
  const std::vector<Index> q = {0, 1, 3}, k = {0, 2, 5}, late = {1, 2, 3}, short_of = {0, 1, 2}, falling = {0, 3, 2, 3};
  const auto starts = [](const std::vector<Index>& x, Index n) { return dense(x.data(), n); };
  expect_refused<ShapeError>([&](Call& c) { c.options.q_starts = starts(q, 3); },
                             "k_starts: must be given together with q_starts [3], got none");
  expect_refused<ShapeError>([&](Call& c) { c.options.k_starts = starts(k, 3); },
                             "q_starts: must be given together with k_starts [3], got none");
  expect_refused<ShapeError>([&](Call& c) { c.options.q_starts = starts(q, 2), c.options.k_starts = starts(k, 3); },
                             "q_starts, k_starts: must both be [sequences + 1], got [2] and [3]");
  expect_refused<ShapeError>([&](Call& c) { c.options.q_starts = starts(q, 1), c.options.k_starts = starts(k, 1); },
                             "q_starts, k_starts: must both be [sequences + 1], got [1] and [1]");
  expect_refused<RangeError>([&](Call& c) { c.options.q_starts = starts(late, 3), c.options.k_starts = starts(k, 3); },
                             "q_starts: must rise from 0 to q_len = 3, got 1 to 3");
  expect_refused<RangeError>(
      [&](Call& c) { c.options.q_starts = starts(short_of, 3), c.options.k_starts = starts(k, 3); },
      "q_starts: must rise from 0 to q_len = 3, got 0 to 2");
  expect_refused<RangeError>([&](Call& c) { c.options.q_starts = starts(q, 3), c.options.k_starts = starts(q, 3); },
                             "k_starts: must rise from 0 to k_len = 5, got 0 to 3");
  expect_refused<RangeError>(
      [&](Call& c) { c.options.q_starts = starts(falling, 4), c.options.k_starts = starts(falling, 4); },
      "q_starts: must rise from 0 to q_len = 3, got 2 after 3 as number 3 of 4");
}

TEST(AttentionWrongCalls, Outputs) {
  expect_refused_forward<ShapeError>([](Call& c) { c.out.shape[3] = dim; },
                                     "out: must be [batch, heads, q_len, value_dim] = [2, 4, 3, 6], got [2, 4, 3, 8]");
  expect_refused_forward<ShapeError>([](Call& c) { c.out.data = nullptr; },
                                     "out: must have memory, got a null pointer; shape is [2, 4, 3, 6]");
  expect_refused_forward<ShapeError>(
      [](Call& c) { c.out.stride[0] = 0; },
      "out: no two elements may share memory, got strides [0, 18, 6, 1] for shape [2, 4, 3, 6]");
  expect_refused_forward<ShapeError>([](Call& c) { c.in.q.data = c.out.data; },
                                     "out: must share no memory with q, got tensors that overlap");
  expect_refused_forward<ShapeError>([](Call& c) { c.in.k.data = c.out.data; },
                                     "out: must share no memory with k, got tensors that overlap");
  expect_refused_forward<ShapeError>([](Call& c) { c.in.v.data = c.out.data; },
                                     "out: must share no memory with v, got tensors that overlap");
  expect_refused_forward<ShapeError>([](Call& c) { c.in.q.data = c.lse.data; },
                                     "lse: must share no memory with q, got tensors that overlap");
  expect_refused_forward<ShapeError>([](Call& c) { c.out.data = c.lse.data; },
                                     "lse: must share no memory with out, got tensors that overlap");
  expect_refused_forward<ShapeError>([](Call& c) { c.lse.shape[2] = 4; },
                                     "lse: must be [batch, heads, q_len] = [2, 4, 3], got [2, 4, 4]");
  expect_refused_forward<ShapeError>(
      [](Call& c) { c.lse.stride[1] = 1; },
      "lse: no two elements may share memory, got strides [12, 1, 1] for shape [2, 4, 3]");
}

TEST(AttentionWrongCalls, Encodings) {
  const Alibi three{{1, 2, 3}};
  const AlibiBias<float> alibi(three);
  expect_refused<ShapeError>([&](Call& c) { c.terms = with(alibi); },
                             "Alibi.slopes: must be one for each of 4 heads, got 3");
  std::vector<float> table(32 * 4);
  const T5Bias<float> t5({.direction = T5Direction::causal}, {dense<const float>(table.data(), 32, 4)});
  const std::vector<double> half = {0, 0.5, 1};
  expect_refused<RangeError>([&](Call& c) { c.terms = with(t5), c.in.q_positions = Positions(dense(half.data(), 3)); },
                             "q_positions: must be whole numbers for T5, got 0.5 for token 1 of sequence 0");
  const RopeTable<float> wide(Rope{.head_dim = 16, .pairing = Pairing::half}, 8);
  const RotaryRows<float> rope(wide);
  expect_refused<ShapeError>([&](Call& c) { c.terms = with(rope); },
                             "RotaryRows.head_dim: must be the last extent of the rows, 8, got 16");
  const ShawTerm<float> shaw({4}, {dense<const float>(table.data(), 9, 8)}, {dense<const float>(table.data(), 9, 8)});
  expect_refused<ShapeError>([&](Call& c) { c.terms = with(shaw); }, "Shaw.value: must have v's dim of 6, got 8");
  const DenseBias<float> bias({dense<const float>(table.data(), 1, 1, 3, 4)});
  expect_refused<ShapeError>(
      [&](Call& c) { c.terms = with(bias); },
      "DenseBias: must be [batch, heads, q_len, k_len] = [2, 4, 3, 5] or 1 on any axis, got shape [1, 1, 3, 4]");
}

TEST(AttentionWrongCalls, PagedCaches) {
  // Blocks of 5 keys, two to a sequence.
  std::vector<Index> table = {0, 1, 1, 0}, lengths = {10, 4};
  const auto paged = [&](Call& c) {
    c.in.block_table = dense<const Index>(table.data(), 2, 2);
    c.options.k_lengths = dense<const Index>(lengths.data(), 2);
  };
  {
    Call call;
    paged(call);
    attention(call.in, call.out, call.lse, call.terms, call.options);
    EXPECT_FALSE(call.untouched());
  }
  expect_refused_forward<ShapeError>([&](Call& c) { paged(c), c.options.k_lengths = {}; },
                                     "k_lengths: must be given for a paged cache");
  expect_refused_forward<ShapeError>(
      [&](Call& c) { paged(c), c.in.block_table = dense<const Index>(table.data(), 1, 2); },
      "block_table: must be [batch, blocks of a sequence] with batch = 2, got [1, 2]");
  expect_refused_forward<ShapeError>(
      [&](Call& c) { paged(c), c.in.k.shape[2] = c.in.v.shape[2] = 0; },
      "block_table: must name blocks with rows, at most 2^31 rows in all, got 2 blocks of 0 rows");
  lengths[0] = 11;
  expect_refused_forward<RangeError>(paged, "k_lengths: must be from 0 to k_len = 10, got 11 for sequence 0");
  lengths[0] = 10, table[1] = 2;
  expect_refused_forward<RangeError>(paged, "block_table: must name one of 2 blocks, got 2 for block 1 of sequence 0");
  table[1] = -1;
  expect_refused_forward<RangeError>(paged, "block_table: must name one of 2 blocks, got -1 for block 1 of sequence 0");
  table[1] = 1, table[3] = 99;  // a block that no key is in may be anything
  Call call;
  paged(call);
  attention(call.in, call.out, call.lse, call.terms, call.options);
  expect_refused_backward<ShapeError>(
      paged, "block_table: must be empty, as a paged cache has no gradients, got shape [2, 2]");
}

TEST(AttentionWrongCalls, ResultsAndTheirGradients) {
  expect_refused_backward<ShapeError>([](Call& c) { c.results.out.shape[3] = dim; },
                                      "out: must be [batch, heads, q_len, value_dim] = [2, 4, 3, 6], got [2, 4, 3, 8]");
  expect_refused_backward<ShapeError>([](Call& c) { c.results.out.data = nullptr; },
                                      "out: must have memory, got a null pointer; shape is [2, 4, 3, 6]");
  expect_refused_backward<ShapeError>([](Call& c) { c.results.lse.shape[0] = 1; },
                                      "lse: must be [batch, heads, q_len] = [2, 4, 3], got [1, 4, 3]");
  expect_refused_backward<ShapeError>([](Call& c) { c.results.lse = {}; },
                                      "lse: must be [batch, heads, q_len] = [2, 4, 3], got [0, 0, 0]");
  expect_refused_backward<ShapeError>(
      [](Call& c) { c.results.d_out.shape[2] = 4; },
      "d_out: must be [batch, heads, q_len, value_dim] = [2, 4, 3, 6], got [2, 4, 4, 6]");
  expect_refused_backward<ShapeError>([](Call& c) { c.results.d_lse.shape[1] = 2; },
                                      "d_lse: must be [batch, heads, q_len] = [2, 4, 3], got [2, 2, 3]");
}

TEST(AttentionWrongCalls, GradientsOfInputs) {
  expect_refused_backward<ShapeError>([](Call& c) { c.grads.d_q.shape[2] = 2; },
                                      "d_q: must have the shape of q, [2, 4, 3, 8], got [2, 4, 2, 8]");
  expect_refused_backward<ShapeError>([](Call& c) { c.grads.d_k.shape[1] = 4; },
                                      "d_k: must have the shape of k, [2, 2, 5, 8], got [2, 4, 5, 8]");
  expect_refused_backward<ShapeError>([](Call& c) { c.grads.d_v.shape[3] = 8; },
                                      "d_v: must have the shape of v, [2, 2, 5, 6], got [2, 2, 5, 8]");
  expect_refused_backward<ShapeError>(
      [](Call& c) { c.grads.d_k.stride[1] = 0; },
      "d_k: no two elements may share memory, got strides [80, 0, 8, 1] for shape [2, 2, 5, 8]");
  expect_refused_backward<ShapeError>([](Call& c) { c.in.q.data = c.grads.d_q.data; },
                                      "d_q: must share no memory with q, got tensors that overlap");
  expect_refused_backward<ShapeError>([](Call& c) { c.in.v.data = c.grads.d_v.data; },
                                      "d_v: must share no memory with v, got tensors that overlap");
  expect_refused_backward<ShapeError>([](Call& c) { c.grads.d_k.data = c.grads.d_q.data; },
                                      "d_k: must share no memory with d_q, got tensors that overlap");
}

TEST(AttentionWrongCalls, MergedParts) {
  std::vector<float> memory(64, mark), read(64);
  const auto part = bhtd<const float>(read.data(), 1, 2, 3, 4);
  const auto part_lse = dense<const float>(read.data(), 1, 2, 3);
  const auto out = bhtd(memory.data(), 1, 2, 3, 4);
  const auto lse = dense(memory.data() + 32, 1, 2, 3);
  const auto refused = [&](auto p, auto p_lse, auto o, auto l, const std::string& text) {
    expect_error<ShapeError>([&] { merge<float>(p, p_lse, o, l); }, "[merge] " + text);
    EXPECT_EQ(memory, std::vector<float>(64, mark));
  };
  refused(bhtd<const float>(read.data(), 1, 2, 3, 5), part_lse, out, lse,
          "part: must be of the shape of out = [1, 2, 3, 4], got [1, 2, 3, 5]");
  refused(part, dense<const float>(read.data(), 1, 2, 4), out, lse,
          "part_lse: must be [batch, heads, q_len] = [1, 2, 3], got [1, 2, 4]");
  refused(part, part_lse, out, dense(memory.data(), 1, 1, 3),
          "lse: must be [batch, heads, q_len] = [1, 2, 3], got [1, 1, 3]");
  refused(part, View<const float, 3>{}, out, lse, "part_lse: must be [batch, heads, q_len] = [1, 2, 3], got [0, 0, 0]");
  refused(part, part_lse, bhtd<float>(nullptr, 1, 2, 3, 4), lse,
          "out: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  refused(View<const float, 4>(out), part_lse, out, lse,
          "out: must share no memory with part, got tensors that overlap");
  refused(part, View<const float, 3>(lse), out, lse,
          "lse: must share no memory with part_lse, got tensors that overlap");
  refused(part, part_lse, View<float, 4>{memory.data(), {1, 2, 3, 4}, {24, 0, 4, 1}}, lse,
          "out: no two elements may share memory, got strides [24, 0, 4, 1] for shape [1, 2, 3, 4]");
}

}  // namespace
}  // namespace bearing
