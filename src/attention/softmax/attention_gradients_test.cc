#include <gtest/gtest.h>
#include <bearing/encodings/dense_bias.hpp>

#include "support/attention_encodings.hpp"
#include "support/environment.hpp"
#include "support/own_terms.hpp"

// Gradients of every encoding: against the reference's, and against central differences of the forward. Shapes, masks
// and types are in attention_backward_test.cc.

namespace bearing {
namespace {

using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;

const NamedEncodings& encodings() {
  static const NamedEncodings all;
  return all;
}

TEST(AttentionGradients, EveryEncodingsParametersHaveTheirs) {
  for (const NamedEncoding& encoding : encodings().all()) {
    SCOPED_TRACE(encoding.name);
    for (const AttentionCase& c : test::encoding_cases(encoding)) {
      Params params = encoding.params(c);
      const auto f64 = encoding.make<double>(params, c);
      const auto f32 = encoding.make<float>(params, c);
      const AttentionData<double> data(c);
      const auto truth = test::attention_truth(data.problem(true), f64.list);
      std::vector<std::vector<double>> wanted;
      for (std::size_t p = 0; p < params.count(); ++p) wanted.push_back(params.grads(p));
      params.clear_grads();
      test::expect_attention_gradients<double>(data, truth, f64.list);
      test::expect_attention_gradients<float>(AttentionData<float>(c), truth, f32.list);
      for (std::size_t p = 0; p < params.count(); ++p) {
        const std::string what = "parameter " + std::to_string(p) + " of " + describe(c);
        const double size = 16 * std::max(4.0, truth.score_size);
        test::expect_close(params.grads(p), wanted[p], size, c.k_len, what, 1);
        test::expect_close(params.float_grads(p), wanted[p], size, c.k_len, what, 1);
      }
    }
  }
}

TEST(AttentionGradients, OfAUsersOwnEncodings) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const auto& [q_len, k_len] : {std::pair<Index, Index>{1, 1}, {7, 20}, {70, 150}}) {
      AttentionCase c{
          .batch = 2, .q_len = q_len, .k_len = k_len, .options = {.mask = mask}, .place = test::Place::real};
      c.axes = 2;
      const AttentionData<double> data(c);
      const auto run = [&](bool reference) {
        const test::Near near{test::Strengths(2)};
        const test::Content content{test::Strengths(2)};
        const test::Carried carried{test::Strengths(2)};
        const test::Twice wide{test::Strengths(2)};
        const test::Suffix suffix;
        std::vector<double> grads;
        for (const auto& [name, terms] : {std::pair<const char*, TermList<double>>{"near", with(near)},
                                          {"content", with(content)},
                                          {"carried", with(carried)},
                                          {"wide, content and near", with(wide, content, near)},
                                          {"content, suffix and carried", with(content, suffix, carried)}}) {
          SCOPED_TRACE(name);
          if (reference) {
            const auto truth = test::attention_truth(data.problem(true), terms);
            test::expect_attention_gradients<double>(data, truth, terms);
          } else {
            (void)data.backward(terms);
          }
        }
        for (const test::Strengths* c_h : {&near.c, &content.c, &carried.c, &wide.c}) {
          grads.insert(grads.end(), c_h->grad.begin(), c_h->grad.end());
        }
        return grads;
      };
      // Both the reference and the backward add: twice what the backward gives alone.
      const std::vector<double> twice = run(true), once = run(false);
      const double most = test::largest(twice);
      for (std::size_t x = 0; x < once.size(); ++x) EXPECT_NEAR(2 * once[x], twice[x], 1e-12 * std::max(1.0, most));
    }
  }
}

/// Central differences of Σ d_out·out + Σ d_lse·lse. With a step h the error is h²/6 of the third derivative and
/// 2^-53/h of the loss, some tens here: at h = 2^-17, 1e-11 and 1e-9.
void expect_central_differences(const NamedEncoding& encoding, AttentionCase c) {
  SCOPED_TRACE(encoding.name);
  Params params = encoding.params(c);
  AttentionData<double> data(c);
  const auto got = data.backward(encoding.make<double>(params, c).list);
  const auto loss = [&] {
    const auto made = encoding.make<double>(params, c);  // anew: some keep numbers that follow from parameters
    const auto results = data.forward(made.list);
    double sum = 0;
    for (std::size_t x = 0; x < results.out.size(); ++x) sum += data.out_weight(x) * results.out[x];
    for (std::size_t x = 0; x < results.lse.size(); ++x) {
      if (std::isfinite(results.lse[x])) sum += data.lse_weight(x) * results.lse[x];  // −∞: no key, no gradient
    }
    return sum;
  };
  const double step = 0x1p-17;
  const auto compare = [&](double& value, double grad, const std::string& what) {
    const double before = value;
    value = before + step;
    const double above = loss();
    value = before - step;
    const double below = loss();
    value = before;
    const double slope = (above - below) / (2 * step);
    ASSERT_NEAR(grad, slope, 1e-7 * std::max(1.0, std::abs(slope))) << what;
    ++test::compared_gradients();
  };
  const auto rows = [&](View<double, 4> x, const std::vector<double>& grads, const std::string& what) {
    std::size_t n = 0;
    for (Index b = 0; b < x.shape[0]; ++b) {
      for (Index h = 0; h < x.shape[1]; ++h) {
        for (Index t = 0; t < x.shape[2]; ++t) {
          for (Index d = 0; d < x.shape[3]; ++d, ++n) {
            if (n % 5 == 0) compare(x(b, h, t, d), grads[n], what + ' ' + std::to_string(n));
          }
        }
      }
    }
  };
  rows(data.q(), got.d_q, "d_q");
  rows(data.k(), got.d_k, "d_k");
  rows(data.v(), got.d_v, "d_v");
  for (std::size_t h = 0; h < got.d_sinks.size(); ++h) {
    compare(data.sinks()(static_cast<Index>(h)), got.d_sinks[h], "d_sinks");
  }
  for (std::size_t p = 0; p < params.count(); ++p) {
    std::vector<double>& values = params.values(p);
    const std::vector<double> grads = params.grads(p);
    Index moved = 0;  // at most 100 elements that have a gradient, and some of the others
    for (std::size_t x = 0; x < values.size(); ++x) {
      if (grads[x] == 0 && x % 64 != 0) continue;
      if (++moved > 100) break;
      compare(values[x], grads[x], "parameter " + std::to_string(p) + " element " + std::to_string(x));
    }
  }
}

TEST(AttentionGradients, AreCentralDifferencesForEveryEncodingAndShape) {
  const std::vector<double> sinks = {0.5, -1, 2, 0};
  for (const NamedEncoding& encoding : encodings().all()) {
    AttentionCase c = encoding.placed({.heads = 4, .q_len = 4, .k_len = 6});
    expect_central_differences(encoding, c);  // more keys than queries
    c.options.mask = Mask::causal, c.q_len = 5, c.k_len = 5;
    expect_central_differences(encoding, c);
    c.options = {.mask = Mask::none, .scale = 0.8, .soft_cap = 2};
    c.options.sinks = {dense(sinks.data(), 4)};
    c.q_len = 1, c.k_len = 7, c.q_first = 6;  // a decode step
    expect_central_differences(encoding, c);
    c.q_len = 6, c.k_len = 1, c.q_first = 0, c.batch = 2;
    if (encoding.serves != test::Serves::tokens) expect_central_differences(encoding, c);
  }
  EXPECT_GT(test::compared_gradients(), 20'000);
}

TEST(AttentionGradients, OfParametersAreAddedThoseOfRowsWritten) {
  const NamedEncoding& encoding = encodings().find("rotation, bias and values");
  const AttentionCase c = test::encoding_cases(encoding)[1];
  Params params = encoding.params(c);
  const auto made = encoding.make<double>(params, c);
  const AttentionData<double> data(c);
  const auto once = data.backward(made.list);
  const std::vector<double> one = params.grads(0);
  const auto twice = data.backward(made.list);
  EXPECT_TRUE(once.same_bits_as(twice));
  // One at a time for each head of each sequence, rounded each time. What is added may cancel, so the sum's own size
  // says nothing: of a row of p·(d_p − D + d_lse), with values and gradients below 1, the sizes sum to 2·value_dim + 1.
  const auto heads = static_cast<double>(c.batch * c.heads), row = static_cast<double>(2 * c.value_dim + 1);
  const double rounding = heads * 0x1p-53 * 2 * heads * static_cast<double>(c.q_len) * row;
  EXPECT_GT(test::largest(one), 1e6 * rounding);
  for (std::size_t x = 0; x < one.size(); ++x) EXPECT_NEAR(params.grads(0)[x], 2 * one[x], rounding);
}

TEST(AttentionGradients, OfASliceOfKeysStartFromMergedResults) {
  // Each slice's backward is given the whole's out and lse: d_q add up, d_k and d_v are the slices' own.
  const Index k_len = 70, first = 30;
  const AttentionCase c{.q_len = 20, .k_len = k_len, .options = {.mask = Mask::causal}, .q_first = 50};
  const AttentionData<double> data(c);
  const auto truth = test::attention_truth(data.problem(true), {});
  const auto whole = data.backward({});
  std::vector<double> d_out(whole.out.size()), d_lse(whole.lse.size()), d_q_sum(whole.d_q.size());
  for (std::size_t x = 0; x < d_out.size(); ++x) d_out[x] = data.out_weight(x);
  for (std::size_t x = 0; x < d_lse.size(); ++x) d_lse[x] = data.lse_weight(x);
  const AttentionResults<double> results{
      bhtd<const double>(whole.out.data(), 1, 2, 20, 8), dense<const double>(whole.lse.data(), 1, 2, 20),
      bhtd<const double>(d_out.data(), 1, 2, 20, 8), dense<const double>(d_lse.data(), 1, 2, 20)};
  for (const auto& [from, end] : {std::pair<Index, Index>{0, first}, {first, k_len}}) {
    AttentionInputs<double> in = data.inputs();
    for (View<const double, 4>* x : {&in.k, &in.v}) x->data += from * x->stride[2], x->shape[2] = end - from;
    in.k_positions = Positions(from);
    std::vector<double> d_q(d_q_sum.size()), d_k(static_cast<std::size_t>(2 * (end - from) * 8)), d_v(d_k.size());
    attention_backward(
        in, results,
        {bhtd(d_q.data(), 1, 2, 20, 8), bhtd(d_k.data(), 1, 2, end - from, 8), bhtd(d_v.data(), 1, 2, end - from, 8)},
        {}, data.options());
    for (std::size_t x = 0; x < d_q.size(); ++x) d_q_sum[x] += d_q[x];
    for (Index x = 0; x < 2 * (end - from) * 8; ++x) {
      const Index h = x / ((end - from) * 8), row = x % ((end - from) * 8) + from * 8;
      const auto of_whole = static_cast<std::size_t>(h * k_len * 8 + row);
      EXPECT_NEAR(d_k[static_cast<std::size_t>(x)], truth.d_k[of_whole], 1e-12);
      EXPECT_NEAR(d_v[static_cast<std::size_t>(x)], truth.d_v[of_whole], 1e-12);
    }
  }
  for (std::size_t x = 0; x < d_q_sum.size(); ++x) EXPECT_NEAR(d_q_sum[x], truth.d_q[x], 1e-12);
}

TEST(AttentionGradients, InfinitelyLowBiasesHaveNone) {
  // The same as of keys that a mask hides, a row that sees nothing among them; and never a NaN.
  const Index rows = 20, cols = 90;
  test::Random random(31);
  const auto visible = std::make_unique<bool[]>(rows * cols);
  std::vector<double> bias(rows * cols), d_bias(rows * cols);
  for (Index x = 0; x < rows * cols; ++x) {
    const bool sees = x / cols != 3 && random.integer(0, 2) > 0;
    visible[static_cast<std::size_t>(x)] = sees;
    bias[static_cast<std::size_t>(x)] = sees ? 0 : -std::numeric_limits<double>::infinity();
  }
  const auto view = [](auto* x) { return dense(x, 1, 1, rows, cols); };
  const DenseBias<double> hidden(Param<double, 4>{view(static_cast<const double*>(bias.data())), view(d_bias.data())});
  for (const double cap : {0.0, 2.0}) {
    AttentionCase c{.q_len = rows, .k_len = cols};
    c.options.soft_cap = cap;
    const AttentionData<double> biased(c);
    c.options.visible = View<const bool, 4>{visible.get(), {1, 2, rows, cols}, {0, 0, cols, 1}};
    const auto truth = test::attention_truth(AttentionData<double>(c).problem(true), {});
    test::expect_attention_gradients<double>(biased, truth, with(hidden));
  }
  for (std::size_t x = 0; x < bias.size(); ++x) {
    if (bias[x] != 0) {
      EXPECT_EQ(d_bias[x], 0);
    }
  }
  EXPECT_GT(test::largest(d_bias), 0);
}

TEST(AttentionGradients, KeepTheirAccuracyOverLongSequences) {
  const AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 40, .k_len = 4096, .dim = 64, .value_dim = 64};
  test::expect_attention_gradients<float>(c);
}

TEST(AttentionGradients, LeaveTheFloatingPointEnvironmentAlone) {
  const AttentionData<float> data(AttentionCase{.q_len = 40, .k_len = 80, .size = 100});
  test::expect_environment_kept([&] { (void)data.backward({}); });
}

}  // namespace
}  // namespace bearing
