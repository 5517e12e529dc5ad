#include <gtest/gtest.h>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/rotary_values.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <bearing/reference/rope.hpp>
#include <bearing/reference/rotary_values.hpp>

#include "support/attention.hpp"
#include "support/attention_masks.hpp"
#include "support/errors.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::expect_error;

constexpr Index dim = 8;

/// Both pairings, each part of the head, two factors, three axes.
std::vector<Rope> rotations() {
  return {{.head_dim = dim, .pairing = Pairing::half},
          {.head_dim = dim, .rotary_dim = 4, .pairing = Pairing::interleaved, .part = RotaryPart::last()},
          {.head_dim = dim, .rotary_dim = 2, .pairing = Pairing::half, .part = RotaryPart::window(3)},
          {.head_dim = dim, .pairing = Pairing::interleaved, .attention_factor = 1.25},
          {.head_dim = dim, .pairing = Pairing::half, .scaling = YarnScaling{.factor = 4, .trained_length = 32}},
          {.head_dim = dim, .pairing = Pairing::half, .axes = RopeAxes::sections({1, 2, 1})}};
}

/// A table in an arithmetic, and both of its encodings.
template <class A>
struct Turning {
  explicit Turning(const Rope& rope, Index length = 64) : table(rope, length), rows(table), values(table) {}
  RopeTable<A> table;
  RotaryRows<A> rows;
  RotaryValues<A> values;
};

/// The truth of a case whose values turn: the reference's attention over values that the reference of the rotation
/// turned, and its results turned back. A turned number is a sum of two, of at most a² in all: sizes grow by 2 a².
test::AttentionTruth truth_of(test::AttentionProblem problem, const Rope& rope, const TermList<double>& terms = {}) {
  const RopeFrequencies frequencies = resolve(rope);
  const auto like = [](View<const double, 4> x, std::vector<double>& to) {
    to = test::zeros(x.size());
    return bhtd(to.data(), x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
  };
  std::vector<double> v, d_out, back;
  const View<const double, 4> out_like = problem.d_out;
  const Positions& q_positions = problem.q_positions;
  const Positions& k_positions = problem.k_positions;
  const View<double, 4> turned = like(problem.v, v);
  reference::rotate(frequencies, problem.v, k_positions, turned);
  problem.v = turned;
  if (out_like.data != nullptr) {
    const View<double, 4> d_sums = like(out_like, d_out);
    reference::rotate(frequencies, out_like, q_positions, d_sums);
    problem.d_out = d_sums;
  }
  test::AttentionTruth truth = test::attention_truth(problem, terms);
  const auto [batch, heads, q_len, ignored] = problem.q.shape;
  const View<double, 4> out = bhtd(truth.out.data(), batch, heads, q_len, dim);
  reference::rotate_backward(frequencies, out, q_positions, out);
  if (!truth.d_v.empty()) {
    const View<double, 4> d_v = bhtd(truth.d_v.data(), batch, problem.v.shape[1], problem.v.shape[2], dim);
    reference::rotate_backward(frequencies, d_v, k_positions, d_v);
  }
  const double grows = 2 * frequencies.attention_factor * frequencies.attention_factor;
  for (double* size : {&truth.sizes.out, &truth.sizes.d_q, &truth.sizes.d_k, &truth.sizes.d_v}) *size *= grows;
  return truth;
}

/// Forward and backward of a case, in T and with results in O. Out that was rounded to 16 bits says too little of D for
/// gradients that are as good as float's.
template <class T, class O = T>
void expect_turned(const AttentionCase& c, const Rope& rope) {
  const AttentionData<T> data(c);
  const Turning<Compute<T>> by(rope);
  const test::AttentionTruth truth = truth_of(data.problem(true), rope);
  test::expect_attention<T, O>(data, truth, with(by.values));
  if constexpr (sizeof(O) > 2) test::expect_attention_gradients<T, O>(data, truth, with(by.values));
}

AttentionCase case_of(Index q_len, Index k_len, Index axes = 1) {
  AttentionCase c{.heads = 4, .kv_heads = 2, .q_len = q_len, .k_len = k_len, .options = {.mask = Mask::causal}};
  c.axes = axes, c.q_first = std::max<Index>(0, k_len - q_len);
  return c;
}

TEST(RotaryValues, AreSeenTurnedByTheirDistance) {
  // o = Σ p R(n − m) v, with the probabilities that the reference has: no sum is turned back here.
  for (const Rope& rope : rotations()) {
    const RopeFrequencies frequencies = resolve(rope);
    const AttentionData<double> data(case_of(5, 9, frequencies.axes));
    const test::AttentionProblem problem = data.problem(false);
    const test::AttentionTruth plain = test::attention_truth(problem, {});
    const Turning<double> by(rope);
    const std::vector<double> got = data.forward(with(by.values)).out;
    const auto place = [&](const Positions& at, Index t) {
      std::vector<double> p;
      for (Index axis = 0; axis < frequencies.axes; ++axis) p.push_back(at.real(axis, 0, t));
      return p;
    };
    std::vector<double> seen(dim);
    for (Index h = 0; h < 4; ++h) {
      for (Index i = 0; i < 5; ++i) {
        std::vector<double> out(dim);
        for (Index j = 0; j < 9; ++j) {
          const std::vector<double> m = place(problem.q_positions, i), n = place(problem.k_positions, j);
          reference::rotary_value(frequencies, dense(m.data(), frequencies.axes), dense(n.data(), frequencies.axes),
                                  {&problem.v(0, h / 2, j, 0), {dim}, {1}}, dense(seen.data(), dim));
          const double p = plain.p[static_cast<std::size_t>((h * 5 + i) * 9 + j)];
          for (std::size_t d = 0; d < dim; ++d) out[d] += p * seen[d];
        }
        // A sum of nine, whose p and rotations are good to some units of 2^-53, and which is at most 2 a².
        for (std::size_t d = 0; d < dim; ++d) {
          ASSERT_NEAR(got[static_cast<std::size_t>(h * 5 + i) * dim + d], out[d], 0x1p-46)
              << "head " << h << " row " << i;
        }
      }
    }
  }
}

TEST(RotaryValues, EveryRotationInEveryType) {
  test::on_every_target([] {
    for (const Rope& rope : rotations()) {
      // Decoding, a few rows, and more than a block of keys; the last with blocks of queries too.
      for (const auto& [q_len, k_len] : {std::pair<Index, Index>{1, 300}, {2, 17}, {40, 70}}) {
        const AttentionCase c = case_of(q_len, k_len, resolve(rope).axes);
        expect_turned<double>(c, rope);
        expect_turned<float>(c, rope);
        expect_turned<Bfloat16>(c, rope);
        expect_turned<Bfloat16, float>(c, rope);
        expect_turned<Float16>(c, rope);
        expect_turned<Float16, float>(c, rope);
      }
    }
  });
}

TEST(RotaryValues, EveryMask) {
  const Rope rope = rotations()[1];
  const test::Masks masks(3, 2, 34, 37);
  for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    for (const Window& window : {Window{}, Window{.before = 6, .after = 2}}) {
      for (unsigned bits = 0; bits < 16; ++bits) {
        const AttentionCase c = masks.of(mask, window, test::standings[bits % 6], bits);
        expect_turned<double>(c, rope);
        if (bits % 5 == 0) expect_turned<float>(c, rope);
      }
    }
  }
}

TEST(RotaryValues, LongRowsOfManyBlocks) {
  const Rope rope = rotations()[0];
  expect_turned<double>(case_of(500, 700), rope);
  expect_turned<float>(case_of(300, 1100), rope);
  expect_turned<float>(case_of(3, 3000), rope);  // decoded in slices
  for (const Layout layout : {Layout::bthd, Layout::padded}) {
    AttentionCase c = case_of(70, 90);
    c.inputs = c.outputs = layout;
    expect_turned<double>(c, rope);
    expect_turned<Bfloat16>(c, rope);
  }
}

/// Attention as a model without the encoding has it: turned before, turned back after.
template <class T>
std::vector<T> by_hand(const RopeTable<Compute<T>>& table, const AttentionInputs<T>& in, Index heads) {
  const auto copy = [&](View<const T, 4> x, const Positions& at, std::vector<T>& to) {
    to.resize(static_cast<std::size_t>(x.size()));
    const View<T, 4> y = bhtd(to.data(), x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
    rotate_to<T>(table, x, y, at);
    return View<const T, 4>(y);
  };
  std::vector<T> q, k, v, out(static_cast<std::size_t>(in.q.size()));
  const View<T, 4> to = bhtd(out.data(), in.q.shape[0], heads, in.q.shape[2], in.q.shape[3]);
  AttentionInputs<T> turned = in;
  turned.q = copy(in.q, in.q_positions, q), turned.k = copy(in.k, in.k_positions, k);
  turned.v = copy(in.v, in.k_positions, v);
  attention<T>(turned, to, {}, {}, {.mask = Mask::causal});
  rotate_backward<T>(table, to, in.q_positions);
  return out;
}

TEST(RotaryValues, KeysThatAreValuesTurnedByHand) {
  // DeepSeek-V4: one tensor is keys and values of all heads, the last dimensions turn, entries stand apart.
  for (const Index q_len : {1, 50}) {
    AttentionCase c = case_of(q_len, 50);
    c.kv_heads = 1;
    const AttentionData<double> data(c);
    const Turning<double> by(rotations()[1]);
    AttentionInputs<double> in = data.inputs();
    in.v = in.k;
    std::vector<Index> entries;
    for (Index j = 0; j < 50; ++j) entries.push_back(j < 30 ? j + 20 : 4 * (j - 30));
    in.k_positions = Positions(dense(entries.data(), 50));
    std::vector<double> out(static_cast<std::size_t>(in.q.size()));
    attention<double>(in, bhtd(out.data(), 1, 4, q_len, dim), {}, with(by.rows, by.values), {.mask = Mask::causal});
    const std::vector<double> wanted = by_hand(by.table, in, 4);
    for (std::size_t x = 0; x < out.size(); ++x) ASSERT_NEAR(out[x], wanted[x], 0x1p-48);
  }
}

TEST(RotaryValues, NoSecondRoundingComesIn) {
  // One key: the output is R(n − m) v. By hand bfloat16 rounds thrice (v, out, out turned back), here once.
  const Rope rope{.head_dim = 64, .pairing = Pairing::interleaved};
  AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 40, .k_len = 1, .dim = 64, .value_dim = 64};
  c.q_first = 7;
  const AttentionData<Bfloat16> data(c);
  const Turning<float> by(rope);
  const std::vector<Bfloat16> out = data.forward(with(by.values)).out;
  const test::AttentionProblem problem = data.problem(false);
  const RopeFrequencies frequencies = resolve(rope);
  std::vector<double> exact(64);
  Index nearest = 0;
  for (Index i = 0; i < 40; ++i) {
    const double m = problem.q_positions.real(0, 0, i), n = problem.k_positions.real(0, 0, 0);
    reference::rotary_value(frequencies, dense(&m, 1), dense(&n, 1), {problem.v.data, {64}, {1}},
                            dense(exact.data(), 64));
    for (Index d = 0; d < 64; ++d) {
      const auto x = static_cast<std::size_t>(d);
      nearest += test::to_double(out[static_cast<std::size_t>(i * 64 + d)]) ==
                 test::to_double(Bfloat16(static_cast<float>(exact[x])));
    }
  }
  // float is off by some 2^-22 of 1, which crosses the middle of two bfloat16 of 2^-8 in one of some thousand.
  EXPECT_GE(nearest, 40 * 64 - 8);
}

TEST(RotaryValues, GradientsAreThoseOfDifferences) {
  const Rope rope = rotations()[3];
  const Turning<double> by(rope);
  for (const Index q_len : {1, 6}) {
    AttentionCase c = case_of(q_len, 11);
    c.options.window = {.before = 7, .after = -1};
    AttentionData<double> data(c);
    const TermList<double> terms = with(by.rows, by.values);
    const auto got = data.backward(terms);
    const auto loss = [&] {
      const auto results = data.forward(terms);
      double sum = 0;
      for (std::size_t x = 0; x < results.out.size(); ++x) sum += data.out_weight(x) * results.out[x];
      for (std::size_t x = 0; x < results.lse.size(); ++x) sum += data.lse_weight(x) * results.lse[x];
      return sum;
    };
    const auto compare = [&](View<double, 4> x, const std::vector<double>& d_x, const char* what) {
      const double step = 0x1p-14;
      for (Index n = 0; n < x.size(); ++n) {
        double& number = x(0, n / (x.shape[2] * dim), n / dim % x.shape[2], n % dim);
        const double value = number;
        number = value + step;
        const double above = loss();
        number = value - step;
        const double below = loss();
        number = value;
        // The step's own error is a third derivative times 2^-28 / 6, rounding some hundred units of 2^-53 / 2^-14.
        ASSERT_NEAR(d_x[static_cast<std::size_t>(n)], (above - below) / (2 * step), 1e-7) << what << ", element " << n;
      }
    };
    compare(data.q(), got.d_q, "d_q");
    compare(data.k(), got.d_k, "d_k");
    compare(data.v(), got.d_v, "d_v");
  }
}

TEST(RotaryValues, TheSameBitsForAnyExecutor) {
  const Turning<float> by(rotations()[1]);
  test::Workers three(3);
  for (const AttentionCase& c : {case_of(1, 1500), case_of(130, 260)}) {
    const AttentionData<float> data(c);
    const auto one = data.backward(with(by.rows, by.values));
    for (const Executor& on : {Executor(three), test::backwards(4)}) {
      EXPECT_TRUE(data.backward(with(by.rows, by.values), on).same_bits_as(one)) << describe(c);
    }
  }
}

TEST(RotaryValues, AShiftOfAllTokensChangesNothing) {
  const Turning<double> by(rotations()[0]);
  AttentionCase near = case_of(30, 30), far = near;
  far.q_first += 1000, far.k_first += 1000;
  const std::vector<double> here = AttentionData<double>(near).forward(with(by.rows, by.values)).out;
  const std::vector<double> there = AttentionData<double>(far).forward(with(by.rows, by.values)).out;
  for (std::size_t x = 0; x < here.size(); ++x) ASSERT_NEAR(here[x], there[x], 0x1p-44);
}

TEST(RotaryValues, PartsOfTheKeysAreMerged) {
  AttentionCase c = case_of(5, 40);
  const AttentionData<double> data(c);
  const Turning<double> by(rotations()[1]);
  const auto whole = data.forward(with(by.values));
  const AttentionInputs<double> in = data.inputs();
  std::vector<double> out(whole.out.size()), part(out.size()), lse(whole.lse.size()), part_lse(lse.size());
  const auto attend = [&](Index first, Index n, std::vector<double>& to, std::vector<double>& lse_to) {
    AttentionInputs<double> some = in;
    for (View<const double, 4>* x : {&some.k, &some.v}) x->data += first * x->stride[2], x->shape[2] = n;
    some.k_positions = Positions(first);
    attention<double>(some, bhtd(to.data(), 1, 4, 5, dim), dense(lse_to.data(), 1, 4, 5), with(by.values),
                      {.mask = Mask::causal});
  };
  attend(0, 13, out, lse);
  attend(13, 27, part, part_lse);
  merge<double>(bhtd<const double>(part.data(), 1, 4, 5, dim), dense<const double>(part_lse.data(), 1, 4, 5),
                bhtd(out.data(), 1, 4, 5, dim), dense(lse.data(), 1, 4, 5));
  for (std::size_t x = 0; x < out.size(); ++x) ASSERT_NEAR(out[x], whole.out[x], 0x1p-48);
}

TEST(RotaryValues, APagedCacheHasTheNumbersOfAPlainOne) {
  for (const Index q_len : {1, 40}) {
    const Index block = 16, blocks = 5, k_len = block * blocks;
    AttentionCase c = case_of(q_len, k_len);
    const AttentionData<float> data(c);
    const Turning<float> by(rotations()[1]);
    const AttentionInputs<float> in = data.inputs();
    const std::vector<Index> table{3, 0, 4, 1, 2}, lengths{k_len - 3};
    std::vector<float> k(static_cast<std::size_t>(in.k.size())), v(k.size()),
        plain(static_cast<std::size_t>(in.q.size()));
    const auto at = [&](std::vector<float>& to) { return bhtd(to.data(), blocks, 2, block, dim); };
    for (Index j = 0; j < k_len; ++j) {
      const Index to = table[static_cast<std::size_t>(j / block)];
      for (Index x = 0; x < 2 * dim; ++x) {
        at(k)(to, x / dim, j % block, x % dim) = in.k(0, x / dim, j, x % dim);
        at(v)(to, x / dim, j % block, x % dim) = in.v(0, x / dim, j, x % dim);
      }
    }
    std::vector<float> paged(plain.size());
    const AttentionOptions<float> options{.mask = Mask::causal, .k_lengths = dense(lengths.data(), 1)};
    attention<float>(in, bhtd(plain.data(), 1, 4, q_len, dim), {}, with(by.values), options);
    attention<float>({in.q, at(k), at(v), in.q_positions, in.k_positions, dense(table.data(), 1, blocks)},
                     bhtd(paged.data(), 1, 4, q_len, dim), {}, with(by.values), options);
    EXPECT_EQ(paged, plain);
  }
}

TEST(RotaryValues, HiddenValuesMayHoldAnything) {
  for (const Index q_len : {1, 40}) {
    AttentionCase c = case_of(q_len, 300);
    auto seen = std::make_unique<bool[]>(300);
    for (Index j = 0; j < 300; ++j) seen[static_cast<std::size_t>(j)] = j % 7 != 3;
    c.options.key_mask = dense<const bool>(seen.get(), 1, 300);
    AttentionData<double> data(c);
    const Turning<double> by(rotations()[0]);
    const test::AttentionTruth truth = truth_of(data.problem(true), rotations()[0]);
    for (Index j = 3; j < 300; j += 7) {
      for (Index d = 0; d < dim; ++d) data.v()(0, 1, j, d) = d % 2 == 0 ? std::nan("") : HUGE_VAL;
    }
    test::expect_attention<double>(data, truth, with(by.values));
    test::expect_attention_gradients<double>(data, truth, with(by.values));
  }
}

TEST(RotaryValues, WhatOthersAddIsTurnedBackToo) {
  // Shaw's vectors come between: o = R(−m) Σ p (R(n) v + V[ρ]).
  const Rope rope = rotations()[0];
  const Turning<double> by(rope);
  std::vector<double> table(9 * dim);
  test::Random random(3);
  for (double& x : table) x = random.uniform(-1, 1);
  std::vector<double> d_table(table.size()), d_wanted(table.size());
  const auto shaw = [&](std::vector<double>& d) {
    return ShawTerm<double>(Shaw{4}, {},
                            Param<double, 2>{dense<const double>(table.data(), 9, dim), dense(d.data(), 9, dim)});
  };
  for (const Index q_len : {1, 20}) {
    const AttentionData<double> data(case_of(q_len, 60));
    const ShawTerm<double> added = shaw(d_table), wanted = shaw(d_wanted);
    const test::AttentionTruth truth = truth_of(data.problem(true), rope, with(wanted));
    test::expect_attention<double>(data, truth, with(by.values, added));
    test::expect_attention_gradients<double>(data, truth, with(added, by.values));
    for (std::size_t x = 0; x < table.size(); ++x) ASSERT_NEAR(d_table[x], d_wanted[x], 1e-11);
  }
}

TEST(RotaryValues, TheLastThatTurnedIsTheFirstThatTurnsBack) {
  // Two rotations of pairs that share dimensions do not commute: by hand, in the order that the header says.
  const Turning<double> first(rotations()[0]), second(rotations()[3]);
  for (const Index q_len : {1, 9}) {
    const AttentionData<double> data(case_of(q_len, 12));
    const auto got = data.forward(with(first.values, second.values));
    AttentionInputs<double> in = data.inputs();
    std::vector<double> v(static_cast<std::size_t>(in.v.size())), out(got.out.size());
    const View<double, 4> turned = bhtd(v.data(), 1, 2, 12, dim), to = bhtd(out.data(), 1, 4, q_len, dim);
    rotate_to<double>(first.table, in.v, turned, in.k_positions);
    rotate<double>(second.table, turned, in.k_positions);
    in.v = turned;
    attention<double>(in, to, {}, {}, {.mask = Mask::causal});
    rotate_backward<double>(second.table, to, in.q_positions);
    rotate_backward<double>(first.table, to, in.q_positions);
    for (std::size_t x = 0; x < out.size(); ++x) ASSERT_NEAR(got.out[x], out[x], 0x1p-47);
    const auto grads = data.backward(with(first.values, second.values));
    EXPECT_EQ(grads.out, got.out);
    // ⟨d_out, out⟩ = ⟨d_v, v⟩: the output is linear in v.
    double of_out = 0, of_v = 0;
    for (std::size_t x = 0; x < out.size(); ++x) of_out += data.out_weight(x) * got.out[x];
    for (std::size_t x = 0; x < v.size(); ++x) {
      const auto n = static_cast<Index>(x);
      of_v += grads.d_v[x] * data.inputs().v(0, n / (12 * dim), n / dim % 12, n % dim);
    }
    EXPECT_NEAR(of_out, of_v, 1e-12);
  }
}

TEST(RotaryValues, WrongCallsSayWhatMustHold) {
  const Turning<float> by({.head_dim = 4, .pairing = Pairing::half}, 8);
  std::vector<float> x(24, 1.0f), out(24, 7.0f);
  const auto rows = bhtd<const float>(x.data(), 1, 1, 3, 4), wide = bhtd<const float>(x.data(), 1, 1, 3, 6);
  const auto to = bhtd(out.data(), 1, 1, 3, 4), wide_to = bhtd(out.data(), 1, 1, 3, 6);
  expect_error<ShapeError>(
      [&] {
        attention<float>({rows, rows, wide}, wide_to, {}, with(by.values), {.mask = Mask::none});
      },
      "[attention] RotaryValues.head_dim: must be the last extent of v, 6, got 4");
  const std::vector<float> cos{1, 1}, sin{0, 0};
  const auto given = RopeTable<float>::from_cos_sin({.head_dim = 4, .pairing = Pairing::half}, dense(cos.data(), 1, 2),
                                                    dense(sin.data(), 1, 2));
  const RotaryValues<float> short_of(given);
  EXPECT_THROW(attention<float>({rows, rows, rows}, to, {}, with(short_of), {.mask = Mask::none}), RangeError);
  const std::vector<double> two{1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_THROW(attention<float>({rows, rows, rows, Positions(dense(two.data(), 3, 1, 3))}, to, {}, with(by.values),
                                {.mask = Mask::none}),
               ShapeError);
  expect_error<ShapeError>(
      [&] { add_values(with(by.values), {}, {}, dense<const float>(x.data(), 1, 1, 3, 3), to); },
      "[add_values] terms: must not turn values, as only probabilities are given here, got one that does as number 1 "
      "of 1");
  expect_error<ShapeError>(
      [&] {
        linear_attention<float>({rows, rows, rows}, to, {}, with(by.rows, by.values),
                                {.mask = Mask::causal, .feature_map = FeatureMap::elu_plus_one});
      },
      "[linear_attention] terms: must all be encodings of rows or decays of the state, as there are no scores to add "
      "to, got one that acts elsewhere as number 2 of 2");
  EXPECT_EQ(out, std::vector<float>(24, 7.0f));
}

}  // namespace
}  // namespace bearing
