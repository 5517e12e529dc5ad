#include <gtest/gtest.h>

#include "support/attention_encodings.hpp"
#include "support/attention_masks.hpp"
#include "support/environment.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "terms/own_terms.hpp"

// The backward: against the reference's, and against central differences of the forward.

namespace bearing {
namespace {

using test::AttentionCase;
using test::AttentionData;
using test::Layout;
using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;

const NamedEncodings& encodings() {
  static const NamedEncodings all;
  return all;
}

/// double and float, which have the same numbers.
void expect_both_types(const AttentionCase& c) {
  const AttentionData<double> in_double(c);
  const auto truth = test::attention_truth(in_double.problem(true), {});
  test::expect_attention_gradients<double>(in_double, truth);
  test::expect_attention_gradients<float>(AttentionData<float>(c), truth);
}

TEST(AttentionGradients, EveryTailOfKeys) {
  test::on_every_target([&] {
    for (const Index k_len : {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129}) {
      expect_both_types({.q_len = 5, .k_len = k_len});
      expect_both_types(
          {.q_len = 5, .k_len = k_len, .options = {.mask = Mask::causal}, .q_first = std::max<Index>(0, k_len - 5)});
    }
  });
}

TEST(AttentionGradients, LengthsThatCrossBlocksOfQueriesAndKeys) {
  for (const auto& [q_len, k_len] : {std::pair<Index, Index>{1, 1100}, {65, 300}, {130, 257}, {200, 200}, {300, 700}}) {
    AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = q_len, .k_len = k_len};
    expect_both_types(c);
    c.options.mask = Mask::causal, c.q_first = k_len - q_len;
    expect_both_types(c);
  }
}

TEST(AttentionGradients, EveryWidthAndNumberOfHeads) {
  for (const auto& [dim, value_dim] :
       {std::pair<Index, Index>{1, 1}, {6, 6}, {8, 80}, {64, 64}, {80, 8}, {17, 33}, {128, 128}, {3, 129}}) {
    expect_both_types({.heads = 1, .kv_heads = 1, .q_len = 19, .k_len = 37, .dim = dim, .value_dim = value_dim});
  }
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{6, 6}, {6, 3}, {6, 2}, {6, 1}, {17, 1}}) {
    expect_both_types({.batch = 2, .heads = heads, .kv_heads = kv_heads, .q_len = 7, .k_len = 19});
  }
}

TEST(AttentionGradients, EveryLayout) {
  for (const Layout layout : test::writable_layouts) {
    AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 21, .dim = 6, .value_dim = 10};
    c.inputs = layout;
    expect_both_types(c);
    c.inputs = Layout::bhtd, c.outputs = layout;
    expect_both_types(c);
  }
  AttentionCase shared{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 21};
  shared.inputs = Layout::one_head;  // the gradients of each head are its own
  expect_both_types(shared);
}

TEST(AttentionGradients, EveryMaskWithEveryOther) {
  const test::Masks masks(3, 2, 9, 20);
  masks.each([&](const AttentionCase& c, const std::string& others) {
    SCOPED_TRACE(others);
    const AttentionData<double> data(c);
    test::expect_attention_gradients<double>(data, test::attention_truth(data.problem(true), {}));
  });
}

TEST(AttentionGradients, EveryMaskOverManyBlocks) {
  const test::Masks masks(2, 1, 140, 300);
  Index n = 0;
  masks.each([&](const AttentionCase& c, const std::string& others) {
    if (n++ % 13 != 0) return;  // no common divisor with the 480 combinations: every kind takes its turn
    SCOPED_TRACE(others);
    test::expect_attention_gradients<float>(c);
  });
}

TEST(AttentionGradients, ScalesCapsAndSinks) {
  const std::vector<double> sinks = {0.5, 4, -300, -std::numeric_limits<double>::infinity()};
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const double cap : {0.0, 0.5, 3.0}) {
      for (const double scale : {1.0, -0.5}) {
        AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 70, .k_first = 4};
        c.options = {.mask = mask, .scale = scale, .soft_cap = cap};
        c.options.sinks = {dense(sinks.data(), 4)};
        expect_both_types(c);
      }
    }
  }
}

TEST(AttentionGradients, LargeLogits) {
  // One key has all the weight, or two share it: most gradients vanish, none is NaN.
  for (const double size : {100.0, 3500.0}) {
    AttentionCase c{.q_len = 11, .k_len = 75, .size = size};
    test::expect_attention_gradients<double>(c);
    c.options.mask = Mask::causal;
    test::expect_attention_gradients<double>(c);
    const auto got = AttentionData<float>(c).backward({});
    for (const std::vector<float>* grad : {&got.d_q, &got.d_k, &got.d_v}) {
      for (const float x : *grad) ASSERT_TRUE(std::isfinite(x));
    }
  }
}

TEST(AttentionGradients, SixteenBits) {
  // What a call is given is rounded: out to 2^-9 (bf16) of itself, which enters every d_s by d_o·o, a sum of value_dim
  // products, times p and c·k or c·q below 1: in d_k once for each query.
  test::for_each_type([&]<class T>(T) {
    if constexpr (sizeof(T) == 2) {
      for (const Mask mask : {Mask::none, Mask::causal}) {
        const AttentionCase c{
            .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 40, .options = {.mask = mask}, .q_first = 31};
        const AttentionData<T> data(c);
        const auto truth = test::attention_truth(data.problem(true), {});
        const auto got = data.backward({});
        const double of_out = std::ldexp(0.5, 1 - test::Format<T>::digits) * 8 * test::largest(truth.out);
        const auto expect = [&](const std::vector<T>& grads, const std::vector<double>& wanted, double rounding) {
          for (std::size_t x = 0; x < wanted.size(); ++x) {
            ASSERT_NEAR(test::to_double(grads[x]), wanted[x], rounding + 1.5 * test::ulp<T>(wanted[x]));
          }
        };
        expect(got.d_q, truth.d_q, of_out);
        expect(got.d_k, truth.d_k, 2 * 9 * of_out);
        expect(got.d_v, truth.d_v, 1e-5);
      }
    }
  });
}

TEST(AttentionGradients, OnlyWhatIsWantedIsWritten) {
  const AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 40};
  const AttentionData<float> data(c);
  const auto all = data.backward({});
  const auto out = bhtd<const float>(all.out.data(), 2, 4, 9, 8);
  const auto lse = dense<const float>(all.lse.data(), 2, 4, 9);
  std::vector<float> d_out, d_lse;
  for (std::size_t x = 0; x < all.out.size(); ++x) d_out.push_back(static_cast<float>(data.out_weight(x)));
  for (std::size_t x = 0; x < all.lse.size(); ++x) d_lse.push_back(static_cast<float>(data.lse_weight(x)));
  const AttentionResults<float> results{out, lse, bhtd<const float>(d_out.data(), 2, 4, 9, 8),
                                        dense<const float>(d_lse.data(), 2, 4, 9)};
  for (int wanted = 0; wanted < 8; ++wanted) {
    std::vector<float> d_q(all.d_q.size(), 9), d_k(all.d_k.size(), 9), d_v(all.d_v.size(), 9);
    AttentionGrads<float> grads;
    if (wanted & 1) grads.d_q = bhtd(d_q.data(), 2, 4, 9, 8);
    if (wanted & 2) grads.d_k = bhtd(d_k.data(), 2, 2, 40, 8);
    if (wanted & 4) grads.d_v = bhtd(d_v.data(), 2, 2, 40, 8);
    attention_backward(data.inputs(), results, grads, {}, data.options());
    if (wanted & 1) {
      EXPECT_TRUE(test::same_bits(d_q, all.d_q)) << wanted;
    }
    if (wanted & 2) {
      EXPECT_TRUE(test::same_bits(d_k, all.d_k)) << wanted;
    }
    if (wanted & 4) {
      EXPECT_TRUE(test::same_bits(d_v, all.d_v)) << wanted;
    }
  }
}

TEST(AttentionGradients, RowsThatSeeNothingHaveGradientZero) {
  AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 6, .k_len = 20, .options = {.mask = Mask::causal}};
  c.k_first = 3;  // queries 0, 1, 2 see no key, keys 3 … 19 are seen by no query
  const auto got = AttentionData<double>(c).backward({});
  for (std::size_t x = 0; x < 3 * 8; ++x) EXPECT_EQ(got.d_q[x], 0);
  for (std::size_t x = 3 * 8; x < 20 * 8; ++x) {
    EXPECT_EQ(got.d_k[x], 0);
    EXPECT_EQ(got.d_v[x], 0);
  }
  EXPECT_NE(got.d_q[3 * 8], 0);
  EXPECT_NE(got.d_v[0], 0);
  test::expect_attention_gradients<double>(c);
}

TEST(AttentionGradients, NothingToDoIsDone) {
  for (const auto& [batch, heads, q_len] : {std::array<Index, 3>{0, 2, 3}, {2, 0, 3}, {2, 2, 0}}) {
    const AttentionCase c{.batch = batch, .heads = heads, .kv_heads = heads, .q_len = q_len, .k_len = 5};
    const auto got = AttentionData<float>(c).backward({});
    for (const std::vector<float>* grad : {&got.d_q, &got.d_k, &got.d_v}) {
      for (const float x : *grad) EXPECT_EQ(x, 0);
    }
  }
  for (const float x : AttentionData<float>(AttentionCase{.q_len = 3, .k_len = 0}).backward({}).d_q) EXPECT_EQ(x, 0);
  for (const Index k_len : {1, 4}) expect_both_types({.q_len = 3, .k_len = k_len, .dim = 0});
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
    AttentionCase c{.heads = 4, .kv_heads = encoding.kv_heads, .q_len = 4, .k_len = 6};
    if (encoding.serves == test::Serves::grid) c.height = test::grid_height, c.width = test::grid_width, c.axes = 2;
    if (encoding.serves == test::Serves::three_axes) c.axes = 3;
    expect_central_differences(encoding, c);  // more keys than queries
    c.options.mask = Mask::causal, c.q_len = 5, c.k_len = 5;
    expect_central_differences(encoding, c);
    c.options = {.mask = Mask::none, .scale = 0.8, .soft_cap = 2};
    c.options.sinks = {dense(sinks.data(), 4)};
    c.q_len = 1, c.k_len = 7, c.q_first = 6;  // a decode step
    expect_central_differences(encoding, c);
    c.q_len = 6, c.k_len = 1, c.q_first = 0, c.batch = 2;
    if (encoding.name != "forgetting") expect_central_differences(encoding, c);  // which counts keys up to each query
  }
  EXPECT_GT(test::compared_gradients(), 20'000);
}

TEST(AttentionGradients, OfParametersAreAddedThoseOfRowsWritten) {
  const NamedEncoding& encoding = encodings().find("rope, t5 and shaw");
  const AttentionCase c = test::encoding_cases(encoding)[1];
  Params params = encoding.params(c);
  const auto made = encoding.make<double>(params, c);
  const AttentionData<double> data(c);
  const auto once = data.backward(made.list);
  const std::vector<double> one = params.grads(0);
  const auto twice = data.backward(made.list);
  EXPECT_TRUE(once.same_bits_as(twice));
  // One at a time for each of eight heads: rounded at most eight times more.
  const double rounding = 8 * 0x1p-53 * 2 * test::largest(one);
  for (std::size_t x = 0; x < one.size(); ++x) EXPECT_NEAR(params.grads(0)[x], 2 * one[x], rounding);
  EXPECT_GT(test::largest(one), 0);
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
    in.k_at = Positions(from);
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

TEST(AttentionGradients, LeaveTheFloatingPointEnvironmentAlone) {
  const AttentionData<float> data(AttentionCase{.q_len = 40, .k_len = 80, .size = 100});
  test::expect_environment_kept([&] { (void)data.backward({}); });
}

}  // namespace
}  // namespace bearing
