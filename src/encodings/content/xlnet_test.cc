#include <gtest/gtest.h>
#include <bearing/encodings/xlnet.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/xlnet.hpp>
#include <bearing/scores.hpp>

#include "support/errors.hpp"
#include "support/terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::Score;

constexpr Index heads = 2, dim = 6;

/// Segments of any case: token t of sequence b is of segment (t + b) / 3 mod 3, a key's of the same rule.
Index segment(Index b, Index t) { return (t + b) / 3 % 3; }

struct Segments {
  std::vector<Index> q, k;
  View<const Index, 2> q_view, k_view;

  explicit Segments(const test::ScoreCase& c) {
    const auto fill = [&](std::vector<Index>& to, Index time) {
      for (Index b = 0; b < c.batch; ++b) {
        for (Index t = 0; t < time; ++t) to.push_back(segment(b, t));
      }
      return dense<const Index>(to.data(), c.batch, time);
    };
    q_view = fill(q, c.q_len);
    k_view = fill(k, c.k_len);
  }
};

TEST(XlnetSegment, AgreesWithItsReference) {
  for (const test::ScoreCase& c : test::score_cases(heads, dim)) {
    const Segments segments(c);
    Params params(Params::Shapes{{2, heads, dim}, {heads, dim}});
    const auto make = [&]<class A>(Params& p) {
      return XlnetSegmentTerm<A>(p.param<A, 3>(0), p.param<A, 2>(1), segments.q_view, segments.k_view);
    };
    const auto reference = [&](const Params& p, const Score& s) {
      const Index sigma = segment(s.b, s.i) == segment(s.b, s.j) ? 0 : 1;
      return reference::xlnet_segment(p.value<3>(0), p.value<2>(1), s.h, sigma, s.q, s.scale);
    };
    // 6 products of at most 2, times 0.375: 9 roundings of a sum of at most 4.5 are 2^-47.
    test::expect_reference_scores(make, params, {c}, reference, 0x1p-47);
    test::expect_gradients(make, params, {c}, reference);
    test::expect_float_gradients(make, params, {c});
    test::expect_same_bits_for_any_executor(make, params, {c});
  }
}

TEST(XlnetSegment, GradientsAreOnlyThoseThatAreWanted) {
  const test::ScoreCase c{1, heads, heads, 5, 7, dim};
  const Segments segments(c);
  Params params(Params::Shapes{{2, heads, dim}, {heads, dim}});
  test::ScoreData data(c);
  const auto grads_of = [&](bool seg, bool r_s) {
    params.clear_grads();
    Param<double, 3> seg_embed = params.param<double, 3>(0);
    Param<double, 2> bias = params.param<double, 2>(1);
    if (!seg) seg_embed.grad = {};
    if (!r_s) bias.grad = {};
    const XlnetSegmentTerm<double> term(seg_embed, bias, segments.q_view, segments.k_view);
    add_scores_backward(with(term), data.inputs<double>(0.5), data.weights<double>());
    return std::array{params.grads(0), params.grads(1)};
  };
  const auto all = grads_of(true, true);
  EXPECT_EQ(grads_of(true, false)[0], all[0]);
  EXPECT_EQ(grads_of(true, false)[1], std::vector<double>(all[1].size()));
  EXPECT_EQ(grads_of(false, true)[1], all[1]);
  EXPECT_EQ(grads_of(false, true)[0], std::vector<double>(all[0].size()));
}

TEST(Xlnet, OffsetsAreThoseOfTheAuthorsShift) {
  // The published code multiplies queries with vectors for klen … 1 − qlen, in that order, drops the first row of the
  // result read as [klen + qlen, qlen], and takes klen columns of the rest.
  const Index q_len = 4, k_len = 7, rows = q_len + k_len, features = 3;
  test::Random random(2);
  const auto numbers = [&](Index n) {
    std::vector<double> x(static_cast<std::size_t>(n));
    for (double& y : x) y = random.uniform(-1, 1);
    return x;
  };
  const std::vector<double> q = numbers(q_len * features), k = numbers(k_len * features), r = numbers(rows * features);
  const std::vector<double> zero(static_cast<std::size_t>(features));
  std::vector<double> product;
  for (Index i = 0; i < q_len; ++i) {
    for (Index t = 0; t < rows; ++t) {
      double sum = 0;
      for (Index d = 0; d < features; ++d) {
        sum += q[static_cast<std::size_t>(i * features + d)] * r[static_cast<std::size_t>(t * features + d)];
      }
      product.push_back(sum);
    }
  }
  // The oldest offset that is met is k_len − 1: row 1 of theirs; the newest, 1 − q_len, is their last.
  const Param<double, 3> falling{
      {&r[static_cast<std::size_t>((rows - 1) * features)], {1, rows - 1, features}, {0, -features, 1}}};
  const Param<double, 2> none{dense<const double>(zero.data(), 1, features)};
  const TransformerXLTerm<double> term(Xlnet{}.relative(q_len), falling, none, none);
  std::vector<double> s(static_cast<std::size_t>(q_len * k_len));
  add_scores(with(term),
             {Positions(k_len - q_len),
              {},
              dense<const double>(q.data(), 1, 1, q_len, features),
              dense<const double>(k.data(), 1, 1, k_len, features)},
             dense(s.data(), 1, 1, q_len, k_len));
  for (Index i = 0; i < q_len; ++i) {
    for (Index j = 0; j < k_len; ++j) {
      const double shifted = product[static_cast<std::size_t>(q_len + i * (rows - 1) + j)];
      EXPECT_NEAR(s[static_cast<std::size_t>(i * k_len + j)], shifted, 5 * 3 * 0x1p-53) << i << ' ' << j;
    }
  }
}

TEST(Xlnet, OneDirectionIsTransformerXL) {
  EXPECT_EQ((Xlnet{.clamp_len = 9, .direction = TransformerXLDirection::causal}.relative(4)), (TransformerXL{0, 9}));
  EXPECT_EQ((Xlnet{}.relative(4)), (TransformerXL{-3, 0, TransformerXLDirection::bidirectional}));
}

TEST(XlnetSegment, WrongCallsSayWhatMustHold) {
  std::vector<float> memory(1000);
  std::vector<Index> ids(100);
  const auto seg = [&](Index kinds) { return Param<float, 3>{dense<const float>(memory.data(), kinds, 2, 4)}; };
  const auto bias = [&](Index count) { return Param<float, 2>{dense<const float>(memory.data(), count, 4)}; };
  const auto of = [&](Index batch, Index time) { return dense<const Index>(ids.data(), batch, time); };
  expect_error<ShapeError>([&] { XlnetSegmentTerm<float>(seg(3), bias(2), of(1, 3), of(1, 3)); },
                           "[XlnetSegmentTerm] seg_embed: must be [2, heads, dim], got shape [3, 2, 4]");
  expect_error<ShapeError>([&] { XlnetSegmentTerm<float>(seg(2), bias(3), of(1, 3), of(1, 3)); },
                           "[XlnetSegmentTerm] r_s: must be [heads, dim] = [2, 4] like seg_embed, got shape [3, 4]");
  const XlnetSegmentTerm<float> term(seg(2), bias(2), of(1, 3), of(1, 5));
  const XlnetSegmentTerm<float> nowhere(seg(2), bias(2), of(1, 3), dense<const Index>(nullptr, 1, 5));
  std::vector<float> x(1000), s(50, 7.0f);
  const auto rows = [&](Index count, Index time) { return bhtd<const float>(x.data(), 1, count, time, 4); };
  expect_error<ShapeError>(
      [&] {
        add_scores(with(term), {{}, {}, rows(2, 3), rows(2, 4)}, dense(s.data(), 1, 2, 3, 4));
      },
      "[add_scores] XlnetSegment.q_segments, k_segments: must be [1, 3] and [1, 4], got shapes [1, 3] and [1, 5]");
  expect_error<ShapeError>(
      [&] {
        add_scores(with(term), {{}, {}, rows(1, 3), rows(1, 5)}, dense(s.data(), 1, 1, 3, 5));
      },
      "[add_scores] XlnetSegment.seg_embed: must be for 1 heads, got 2");
  expect_error<ShapeError>(
      [&] {
        add_scores(with(nowhere), {{}, {}, rows(2, 3), rows(2, 5)}, dense(s.data(), 1, 2, 3, 5));
      },
      "[add_scores] XlnetSegment.q_segments, k_segments: must have memory, got a null pointer");
  EXPECT_EQ(s, std::vector<float>(50, 7.0f));
}

}  // namespace
}  // namespace bearing
