#include <gtest/gtest.h>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/transformer_xl.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/naive_attention.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;

constexpr Index heads = 2, dim = 6;

struct Variant {
  TransformerXL xl;
  Index offsets;
};
// The cases' offsets run from −198 to 166.
const std::vector<Variant> variants = {
    {{}, 200},
    {{.first_offset = -5}, 180},
    {{.clamp_len = 7}, 8},
    {{.first_offset = -200, .direction = TransformerXLDirection::bidirectional}, 400},
    {{.first_offset = -9, .clamp_len = 9, .direction = TransformerXLDirection::bidirectional}, 19},
    {{.first_offset = -12, .clamp_len = 10, .direction = TransformerXLDirection::bidirectional}, 30},
};

TEST(TransformerXL, AgreesWithItsReference) {
  for (const auto& [xl, offsets] : variants) {
    Params params(Params::Shapes{{heads, offsets, dim}, {heads, dim}, {heads, dim}});
    const auto make = [&, spec = xl]<class A>(Params& p) {
      return TransformerXLTerm<A>(spec, p.param<A, 3>(0), p.param<A, 2>(1), p.param<A, 2>(2));
    };
    const auto reference = [&, spec = xl](const Params& p, const Score& s) {
      return reference::transformer_xl(spec, p.value<3>(0), p.value<2>(1), p.value<2>(2), s.h, s.m, s.n, s.q, s.k,
                                       s.scale);
    };
    const auto cases = test::score_cases(heads, dim);
    // 6 products of at most 1 and 6 of at most 2, times 0.375: 15 roundings of a sum of at most 7 are 2^-46.
    test::expect_reference_scores(make, params, cases, reference, 0x1p-46);
    test::expect_gradients(make, params, cases, reference);
    test::expect_float_gradients(make, params, cases);
    test::expect_same_bits_for_any_executor(make, params, cases);
  }
}

TEST(TransformerXL, GradientsAreOnlyThoseThatAreWanted) {
  Params params(Params::Shapes{{heads, 20, dim}, {heads, dim}, {heads, dim}});
  std::vector<double> x(2 * 5 * dim, 0.5), d_s(2 * 25, 1);
  const auto rows = bhtd<const double>(x.data(), 1, heads, 5, dim);
  const auto grads_of = [&](bool r, bool u, bool v) {
    params.clear_grads();
    const auto param = [&]<class P>(P all, bool wanted) {
      if (!wanted) all.grad = {};
      return all;
    };
    const TransformerXLTerm<double> term({}, param(params.param<double, 3>(0), r), param(params.param<double, 2>(1), u),
                                         param(params.param<double, 2>(2), v));
    add_scores_backward(with(term), {{}, {}, rows, rows}, bhtd<const double>(d_s.data(), 1, heads, 5, 5));
    return std::array{params.grads(0), params.grads(1), params.grads(2)};
  };
  const auto all = grads_of(true, true, true);
  for (int wanted = 0; wanted < 8; ++wanted) {
    const auto some = grads_of((wanted & 1) != 0, (wanted & 2) != 0, (wanted & 4) != 0);
    for (std::size_t p = 0; p < 3; ++p) {
      EXPECT_EQ(some[p], (wanted >> p & 1) != 0 ? all[p] : std::vector<double>(all[p].size()));
      EXPECT_NE(all[p], std::vector<double>(all[p].size()));
    }
  }
}

TEST(TransformerXL, ShiftedMatrixOfTheAuthorsIsTheSameUnderTheMask) {
  const rapidjson::Document golden = test::golden("relative/transformer_xl_rel_shift.json");
  const std::vector<double> in = test::numbers(golden["input"]), out = test::numbers(golden["output"]);
  // Query i is the unit vector i, so that its product with row t is in[i][t]; the authors' rows are in falling order of
  // the offset, 6 … 0.
  std::vector<double> q(16), k(28), r(28), zero(4), s(28);
  for (std::size_t i = 0; i < 4; ++i) {
    q[i * 4 + i] = 1;
    for (std::size_t t = 0; t < 7; ++t) r[t * 4 + i] = in[i * 7 + t];
  }
  const Param<double, 3> rows{{&r[6 * 4], {1, 7, 4}, {28, -4, 1}}};
  const Param<double, 2> none{dense<const double>(zero.data(), 1, 4)};
  const TransformerXLTerm<double> term({}, rows, none, none);
  add_scores(with(term),
             {Positions(3), {}, dense<const double>(q.data(), 1, 1, 4, 4), dense<const double>(k.data(), 1, 1, 7, 4)},
             dense(s.data(), 1, 1, 4, 7));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 7; ++j) EXPECT_EQ(s[i * 7 + j], j <= i + 3 ? out[i * 7 + j] : 0) << i << ' ' << j;
  }
}

TEST(TransformerXL, AttentionIsThatOfTheAuthors) {
  const rapidjson::Document golden = test::golden("attention/transformer_xl_b2h2q4k7d8c.json");
  std::vector<std::vector<double>> memory;
  memory.reserve(20);
  const auto data = [&](const rapidjson::Value& value) {
    memory.push_back(test::tensor(value).data);
    return memory.back().data();
  };
  const auto tensor = [&](const char* name) {
    const std::vector<Index> shape = test::tensor(golden[name]).shape;
    return bhtd<const double>(data(golden[name]), shape[0], shape[1], shape[2], shape[3]);
  };
  const Index count = 2, features = 8, offsets = 7, d_model = golden["r_dim"].GetInt64();
  const auto w_r = dense<const double>(data(golden["params"]["w_kr"]), count * features, d_model);
  const auto u = dense<const double>(data(golden["params"]["u"]), count, features);
  const auto v = dense<const double>(data(golden["params"]["v_bias"]), count, features);
  std::vector<double> r(static_cast<std::size_t>(count * offsets * features)), d_r(r.size()), d_u(16), d_v(16);
  std::vector<double> d_w_r(static_cast<std::size_t>(w_r.size()));
  transformer_xl_relative<double>({}, w_r, dense(r.data(), count, offsets, features));

  const TransformerXLTerm<double> term(
      {}, {dense<const double>(r.data(), count, offsets, features), dense(d_r.data(), count, offsets, features)},
      {u, dense(d_u.data(), count, features)}, {v, dense(d_v.data(), count, features)});
  test::NaiveAttention attention{tensor("q"), tensor("k"), tensor("v"), tensor("grad_out"), golden["scale"].GetDouble(),
                                 Positions(3)};
  attention.causal = true;
  attention.run(with(term));
  transformer_xl_relative_backward<double>({}, dense<const double>(d_r.data(), count, offsets, features),
                                           dense(d_w_r.data(), count * features, d_model));
  test::expect_tensor(attention.out, tensor("out"), "out");
  test::expect_tensor(attention.d_q, tensor("grad_q"), "d_q");
  test::expect_tensor(attention.d_k, tensor("grad_k"), "d_k");
  test::expect_tensor(attention.d_v, tensor("grad_v"), "d_v");
  const auto compare = [&](const std::vector<double>& got, const char* name) {
    const auto size = static_cast<Index>(got.size());
    test::expect_tensor(got, dense<const double>(data(golden["grad_params"][name]), 1, 1, 1, size), name);
  };
  compare(d_u, "u");
  compare(d_v, "v_bias");
  compare(d_w_r, "w_kr");
}

TEST(TransformerXL, RelativeRowsAgreeWithTheirReference) {
  const Index d_model = 10, offsets = 70;
  for (const TransformerXL& xl : {TransformerXL{}, {.first_offset = -33}, {.first_offset = -4, .clamp_len = 20}}) {
    for (const double base : {10'000.0, 50.0}) {
      Params params(Params::Shapes{{heads * dim, d_model}});
      test::on_every_target([&] {
        std::vector<double> r(static_cast<std::size_t>(heads * offsets * dim));
        std::vector<float> r32(r.size());
        transformer_xl_relative<double>(xl, params.value<2>(0), dense(r.data(), heads, offsets, dim), base);
        transformer_xl_relative<float>(xl, params.param<float, 2>(0).value, dense(r32.data(), heads, offsets, dim),
                                       base);
        std::size_t x = 0;
        for (Index h = 0; h < heads; ++h) {
          for (Index o = 0; o < offsets; ++o) {
            for (Index d = 0; d < dim; ++d, ++x) {
              const double truth = reference::transformer_xl_relative(xl, params.value<2>(0), dim, h, o, d, base);
              // 10 products of at most 1: 12 roundings of a sum of at most 10.
              ASSERT_NEAR(r[x], truth, 2 * 120 * 0x1p-53);
              ASSERT_NEAR(static_cast<double>(r32[x]), truth, 120 * 0x1p-24);
            }
          }
        }
      });
    }
  }
}

TEST(TransformerXL, RelativeRowsHaveTheirGradient) {
  const Index d_model = 10, offsets = 70;
  const TransformerXL xl{.first_offset = -4, .clamp_len = 50};
  Params params(Params::Shapes{{heads * dim, d_model}});
  test::Random random(4);
  std::vector<double> d_r(static_cast<std::size_t>(heads * offsets * dim)),
      d_w(static_cast<std::size_t>(heads * dim * d_model), 1);
  for (double& x : d_r) x = random.uniform(-1, 1);
  transformer_xl_relative_backward<double>(xl, dense<const double>(d_r.data(), heads, offsets, dim),
                                           dense(d_w.data(), heads * dim, d_model));
  const auto loss = [&] {
    double sum = 0;
    std::size_t x = 0;
    for (Index h = 0; h < heads; ++h) {
      for (Index o = 0; o < offsets; ++o) {
        for (Index d = 0; d < dim; ++d) {
          sum += d_r[x++] * reference::transformer_xl_relative(xl, params.value<2>(0), dim, h, o, d);
        }
      }
    }
    return sum;
  };
  for (std::size_t x = 0; x < d_w.size(); ++x) {
    double& value = params.values(0)[x];
    const double before = value, step = 0x1p-10;
    value = before + step;
    const double above = loss();
    value = before - step;
    const double below = loss();
    value = before;
    // The loss is linear: its rounding, 840 numbers of at most 10 at 2^-53, over the step. The gradient began at 1.
    ASSERT_NEAR(d_w[x], 1 + (above - below) / (2 * step), 1e-9);
  }
}

TEST(TransformerXL, ProjectionsAndRowsMayLieInAnyOrder) {
  // XLNet keeps W_R as [d_model, heads, dim]; the authors keep rows of r as [offsets, heads, dim], in falling order.
  const Index d_model = 8, offsets = 5;
  Params params(Params::Shapes{{heads * dim, d_model}});
  const View<const double, 2> w_r = params.value<2>(0);
  std::vector<double> transposed(static_cast<std::size_t>(w_r.size())),
      r(static_cast<std::size_t>(heads * offsets * dim));
  std::vector<double> falling(r.size()), d_w_r(transposed.size()), d_transposed(transposed.size());
  const View<double, 2> across{transposed.data(), {heads * dim, d_model}, {1, heads * dim}};
  for (Index x = 0; x < heads * dim; ++x) {
    for (Index y = 0; y < d_model; ++y) across(x, y) = w_r(x, y);
  }
  const View<double, 3> rows = dense(r.data(), heads, offsets, dim);
  const View<double, 3> others{
      &falling[static_cast<std::size_t>((offsets - 1) * heads * dim)], rows.shape, {dim, -heads * dim, 1}};
  transformer_xl_relative<double>({}, w_r, rows);
  transformer_xl_relative<double>({}, across, others);
  transformer_xl_relative_backward<double>({}, rows, dense(d_w_r.data(), heads * dim, d_model));
  transformer_xl_relative_backward<double>(
      {}, others, View<double, 2>{d_transposed.data(), {heads * dim, d_model}, {1, heads * dim}});
  for (Index h = 0; h < heads; ++h) {
    for (Index o = 0; o < offsets; ++o) {
      for (Index d = 0; d < dim; ++d) EXPECT_EQ(others(h, o, d), rows(h, o, d));
    }
  }
  for (Index x = 0; x < heads * dim; ++x) {
    for (Index y = 0; y < d_model; ++y) {
      EXPECT_EQ(d_transposed[static_cast<std::size_t>(y * heads * dim + x)],
                d_w_r[static_cast<std::size_t>(x * d_model + y)]);
    }
  }
}

TEST(TransformerXL, WrongCallsSayWhatMustHold) {
  std::vector<float> memory(1000);
  const auto r = [&](Index count, Index offsets) {
    return Param<float, 3>{dense<const float>(memory.data(), count, offsets, 4)};
  };
  const auto bias = [&](Index count) { return Param<float, 2>{dense<const float>(memory.data(), count, 4)}; };
  expect_error<RangeError>([&] { TransformerXLTerm<float>({.clamp_len = -1}, r(1, 5), bias(1), bias(1)); },
                           "[TransformerXLTerm] clamp_len: must be at least 0 (none), got -1");
  expect_error<ShapeError>([&] { TransformerXLTerm<float>({}, {}, bias(1), bias(1)); },
                           "[TransformerXLTerm] r: must be [heads, offsets, dim] with at least one offset, got shape "
                           "[0, 0, 0]");
  expect_error<ShapeError>([&] { TransformerXLTerm<float>({}, r(1, 5), bias(1), bias(2)); },
                           "[TransformerXLTerm] u, v: must be [heads, dim] = [1, 4] like r, got shapes [1, 4] and "
                           "[2, 4]");
  expect_error<ShapeError>(
      [&] { TransformerXLTerm<float>({}, {dense<const float>(nullptr, 1, 5, 4)}, bias(1), bias(1)); },
      "[TransformerXLTerm] r: must have memory, got a null pointer; shape is [1, 5, 4]");

  const TransformerXLTerm<float> term({.direction = TransformerXLDirection::bidirectional}, r(1, 5), bias(1), bias(1)),
      causal({}, r(1, 5), bias(1), bias(1));
  std::vector<float> x(1000), s(64, 7.0f);
  const auto rows = [&](Index time) { return bhtd<const float>(x.data(), 1, 1, time, 4); };
  expect_error<RangeError>(
      [&] {
        add_scores(with(term), {{}, {}, rows(3), rows(3)}, dense(s.data(), 1, 1, 3, 3));
      },
      "[add_scores] q_positions, k_positions: must meet offsets that TransformerXL.r has rows for, 0 to 4, got -2 to "
      "2 (for keys on both sides, first_offset = 1 - time, and r has 2 time - 1 rows)");
  expect_error<RangeError>(
      [&] {
        add_scores(with(causal), {Positions(4), {}, rows(3), rows(7)}, dense(s.data(), 1, 1, 3, 7));
      },
      "[add_scores] q_positions, k_positions: must meet offsets that TransformerXL.r has rows for, 0 to 4, got 0 to 6");
  expect_error<ShapeError>(
      [&] {
        add_scores(with(causal),
                   {{}, {}, bhtd<const float>(x.data(), 1, 2, 3, 4), bhtd<const float>(x.data(), 1, 2, 3, 4)},
                   dense(s.data(), 1, 2, 3, 3));
      },
      "[add_scores] TransformerXL.r: must be for 2 heads, got 1");
  expect_error<ShapeError>(
      [&] { transformer_xl_relative<float>({}, dense<const float>(x.data(), 8, 6), dense(s.data(), 2, 3, 5)); },
      "[transformer_xl_relative] w_r: must be [heads * dim, d_model] with r [heads, offsets, dim] and d_model even, "
      "got shapes [8, 6] and [2, 3, 5]");
  expect_error<ShapeError>(
      [&] {
        transformer_xl_relative_backward<float>({}, dense<const float>(x.data(), 2, 3, 4), dense(s.data(), 8, 7));
      },
      "[transformer_xl_relative_backward] w_r: must be [heads * dim, d_model] with d_r [heads, offsets, dim] and "
      "d_model even, got shapes [8, 7] and [2, 3, 4]");
  expect_error<ShapeError>(
      [&] { transformer_xl_relative<float>({}, dense<const float>(nullptr, 8, 6), dense(s.data(), 2, 3, 4)); },
      "[transformer_xl_relative] w_r, r: must have memory, got a null pointer");
  expect_error<RangeError>(
      [&] { transformer_xl_relative<float>({}, dense<const float>(x.data(), 8, 6), dense(s.data(), 2, 3, 4), 0); },
      "[transformer_xl_relative] base: must be finite and above 0, got 0");
  EXPECT_EQ(s, std::vector<float>(64, 7.0f));

  // Keys after all queries need no rows where they add nothing.
  add_scores(with(causal), {{}, Positions(3), rows(3), rows(3)}, dense(s.data(), 1, 1, 3, 3));
  EXPECT_EQ(s, std::vector<float>(64, 7.0f));
}

}  // namespace
}  // namespace bearing
