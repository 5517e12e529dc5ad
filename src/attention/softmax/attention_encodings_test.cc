#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <cstdint>

#include "support/attention_encodings.hpp"
#include "support/own_terms.hpp"
#include "support/targets.hpp"

// Every encoding in attention: the numbers of reference::attention() over what the encoding gives by itself.

namespace bearing {
namespace {

using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;
using test::Serves;

const NamedEncodings& encodings() {
  static const NamedEncodings all;
  return all;
}

TEST(AttentionEncodings, EveryOneGivesItsScoresAndValues) {
  for (const NamedEncoding& encoding : encodings().all()) {
    SCOPED_TRACE(encoding.name);
    for (const AttentionCase& c : test::encoding_cases(encoding)) {
      Params params = encoding.params(c);
      const auto f64 = encoding.make<double>(params, c);
      const auto f32 = encoding.make<float>(params, c);
      const AttentionData<double> in_double(c);
      const auto truth = test::attention_truth(in_double.problem(false), f64.list);
      test::expect_attention<double>(in_double, truth, f64.list);
      test::expect_attention<float>(AttentionData<float>(c), truth, f32.list);
      if (c.q_len > 30) continue;
      const AttentionData<Bfloat16> in_bf16(c);
      test::expect_attention<Bfloat16>(in_bf16, test::attention_truth(in_bf16.problem(false), f64.list), f32.list);
    }
  }
}

TEST(AttentionEncodings, OneOfEachKindOnEveryTarget) {
  for (const char* name : {"alibi", "shaw", "rope", "fire", "cope", "pope", "rotation, bias and values"}) {
    SCOPED_TRACE(name);
    const NamedEncoding& encoding = encodings().find(name);
    const AttentionCase c = test::encoding_cases(encoding)[1];
    Params params = encoding.params(c);
    const auto f64 = encoding.make<double>(params, c);
    const auto f32 = encoding.make<float>(params, c);
    const AttentionData<double> in_double(c);
    const AttentionData<float> in_float(c);
    const auto truth = test::attention_truth(in_double.problem(false), f64.list);
    test::on_every_target([&] {
      test::expect_attention<double>(in_double, truth, f64.list);
      test::expect_attention<float>(in_float, truth, f32.list);
    });
  }
}

TEST(AttentionEncodings, GoWithCapsSinksPackingAndMasks) {
  const std::vector<double> sinks = {0.5, -1, 2, 0};
  const std::vector<Index> q_starts = {0, 4, 9}, k_starts = {0, 10, 23};
  const auto visible = std::make_unique<bool[]>(2 * 23);
  for (std::size_t j = 0; j < 46; ++j) visible[j] = j % 5 != 2;
  for (const char* name :
       {"nothing", "t5", "alibi", "shaw", "rope", "dense_bias", "cope", "rotation, bias and values"}) {
    SCOPED_TRACE(name);
    const NamedEncoding& encoding = encodings().find(name);
    for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
      AttentionCase c = test::encoding_cases(encoding)[0];
      c.options = {.mask = mask, .scale = 0.7, .soft_cap = 1.5};
      c.options.sinks = {dense(sinks.data(), 4)};
      for (int others = 0; others < 3; ++others) {
        if (others == 1) c.options.key_mask = dense<const bool>(visible.get(), 2, 23);
        if (others == 2) c.options.q_starts = dense(q_starts.data(), 3), c.options.k_starts = dense(k_starts.data(), 3);
        Params params = encoding.params(c);
        const auto made = encoding.make<double>(params, c);
        const AttentionData<double> data(c);
        test::expect_attention<double>(data, test::attention_truth(data.problem(false), made.list), made.list);
      }
    }
  }
}

/// A case whose tokens stand on two axes, for own encodings.
AttentionCase own_case(Index q_len, Index k_len, Mask mask) {
  AttentionCase c{.batch = 2, .q_len = q_len, .k_len = k_len, .options = {.mask = mask}, .place = test::Place::real};
  c.axes = 2;
  return c;
}

TEST(AttentionEncodings, OnesOfAUsersOwn) {
  const test::Near near{test::Strengths(2)};
  const test::Content content{test::Strengths(2)};
  const test::Suffix suffix;
  const test::Carried carried{test::Strengths(2)};
  const test::Twice wide{test::Strengths(2)}, narrow{test::Strengths(2), false};
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const auto& [q_len, k_len] : {std::pair<Index, Index>{1, 1}, {7, 20}, {70, 150}}) {
      const AttentionData<double> data(own_case(q_len, k_len, mask));
      const auto expect = [&](const char* name, const TermList<double>& terms) {
        SCOPED_TRACE(name);
        test::expect_attention<double>(data, test::attention_truth(data.problem(false), terms), terms);
      };
      expect("near", with(near));
      expect("content", with(content));
      expect("suffix", with(suffix));
      expect("carried", with(carried));
      expect("wide", with(wide));
      expect("narrow", with(narrow));
      expect("near, content and carried", with(near, content, carried));
      expect("wide and content", with(wide, content));
      expect("content, suffix and narrow", with(content, suffix, narrow));
    }
  }
}

/// Attention over tokens in another order: rows of what `at` says.
std::vector<double> permuted(const AttentionData<double>& data, const TermList<double>& terms,
                             const std::vector<Index>& order, bool move_positions) {
  const AttentionCase& c = data.the_case();
  const AttentionInputs<double> in = data.inputs();
  const auto gather = [&](View<const double, 4> x) {
    std::vector<double> rows;
    for (Index h = 0; h < c.heads; ++h) {
      for (const Index t : order) rows.insert(rows.end(), &x(0, h, t, 0), &x(0, h, t, 0) + c.dim);
    }
    return rows;
  };
  const std::vector<double> q = gather(in.q), k = gather(in.k), v = gather(in.v);
  const auto rows = [&](const std::vector<double>& x) { return bhtd(x.data(), 1, c.heads, c.k_len, c.dim); };
  const Positions at = move_positions ? Positions(dense(order.data(), c.k_len)) : Positions{};
  std::vector<double> out(q.size());
  attention<double>({rows(q), rows(k), rows(v), at, at}, bhtd(out.data(), 1, c.heads, c.k_len, c.dim), {}, terms,
                    {.mask = Mask::none});
  std::vector<double> back(out.size());
  for (Index h = 0; h < c.heads; ++h) {
    for (Index t = 0; t < c.k_len; ++t) {
      for (Index d = 0; d < c.dim; ++d) {
        back[static_cast<std::size_t>((h * c.k_len + order[static_cast<std::size_t>(t)]) * c.dim + d)] =
            out[static_cast<std::size_t>((h * c.k_len + t) * c.dim + d)];
      }
    }
  }
  return back;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t x = 0; x < a.size(); ++x) most = std::max(most, std::abs(a[x] - b[x]));
  return most;
}

// Whole numbers of 64 and of 32 bits, and those of one sequence for all.
TEST(AttentionEncodings, PositionsMayBeStatedInManyWays) {
  const AttentionCase c{.batch = 2, .q_len = 40, .k_len = 40};
  const AttentionData<double> data(c);
  std::vector<Index> wide(80);
  for (Index t = 0; t < 80; ++t) wide[static_cast<std::size_t>(t)] = (t % 40 * 27 + 5) % 40;
  const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
  const Alibi alibi{{0.5, 0.25}};
  const AlibiBias<double> bias(alibi);
  const RopeTable<double> table(Rope{.head_dim = 8, .pairing = Pairing::half}, 40);
  const RotaryRows<double> rope(table);
  const auto attended = [&](const Positions& at) {
    AttentionInputs<double> in = data.inputs();
    in.q_positions = in.k_positions = at;
    std::vector<double> out(static_cast<std::size_t>(in.q.size()));
    attention<double>(in, bhtd(out.data(), c.batch, c.heads, c.q_len, c.dim), {}, with(rope, bias),
                      {.mask = Mask::causal, .window = {.before = 9}});
    return out;
  };
  const std::vector<double> wanted = attended(dense(wide.data(), 2, 40));
  EXPECT_EQ(attended(dense(wide.data(), 1, 1, 40)), wanted);
  EXPECT_EQ(attended(dense(narrow.data(), 2, 40)), wanted);
  EXPECT_EQ(attended(dense(narrow.data(), 1, 40)), wanted);
  EXPECT_EQ(attended(dense(narrow.data(), 40)), wanted);
}

TEST(AttentionEncodings, WithoutOneTokensMayBeShuffledAndWithOneNot) {
  const AttentionCase c{.q_len = 40, .k_len = 40};
  const AttentionData<double> data(c);
  std::vector<Index> order(40);
  for (Index t = 0; t < 40; ++t) order[static_cast<std::size_t>(t)] = (t * 27 + 5) % 40;
  const Alibi alibi{{0.5, 0.25}};
  const AlibiBias<double> bias(alibi);
  const RopeTable<double> table(Rope{.head_dim = 8, .pairing = Pairing::half}, 40);
  const RotaryRows<double> rope(table);
  // Another order of summing 40 products of at most 1: 40 roundings of 2^-53.
  const double tolerance = 40 * 0x1p-52;
  const std::vector<double> in_order = data.forward({}).out;
  EXPECT_LE(difference(permuted(data, {}, order, false), in_order), tolerance);
  for (const auto& [name, terms] :
       {std::pair<const char*, TermList<double>>{"alibi", with(bias)}, {"rope", with(rope)}}) {
    SCOPED_TRACE(name);
    const std::vector<double> with_order = data.forward(terms).out;
    EXPECT_GT(difference(permuted(data, terms, order, false), with_order), 0.01);
    // Positions make the order, not the place in memory.
    EXPECT_LE(difference(permuted(data, terms, order, true), with_order), tolerance);
  }
}

}  // namespace
}  // namespace bearing
