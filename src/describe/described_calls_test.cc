#include <gtest/gtest.h>

#include "support/attention_encodings.hpp"
#include "support/workers.hpp"

// Calls of every described encoding of rows, scores and values: any size, any number of threads, every instruction set,
// copies, and positions that it says to refuse. Its numbers under masks are in attention_encodings_test.cc and
// attention_gradients_test.cc.

namespace bearing {
namespace {

using test::AttentionCase;
using test::AttentionData;
using test::DescribedEncoding;
using test::Params;

AttentionCase placed(const DescribedEncoding& encoding, AttentionCase c) {
  static const test::NamedEncodings all;
  c.heads = test::described_heads;
  return all.find(encoding.name).placed(c);
}

/// Everything that attention gives, gradients of parameters too.
template <class A>
std::vector<A> everything(const Made<A>& made, Params& params, const AttentionCase& c, const Executor& on = {}) {
  params.clear_grads();
  const auto got = AttentionData<A>(c).backward(test::Made<A>{}.add(made).list, on);
  std::vector<A> all = got.out;
  for (const auto* more : {&got.lse, &got.d_q, &got.d_k, &got.d_v}) all.insert(all.end(), more->begin(), more->end());
  for (std::size_t p = 0; p < params.count(); ++p) {
    if constexpr (std::is_same_v<A, double>) all.insert(all.end(), params.grads(p).begin(), params.grads(p).end());
    if constexpr (std::is_same_v<A, float>) {
      all.insert(all.end(), params.float_grads(p).begin(), params.float_grads(p).end());
    }
  }
  return all;
}

TEST(Described, CallsOfEverySize) {
  for (const DescribedEncoding& encoding : test::described_terms()) {
    for (const auto& [q_len, k_len] :
         {std::pair<Index, Index>{0, 5}, {5, 0}, {0, 0}, {1, 1}, {3, 1}, {7, 11}, {1, 33}}) {
      if (encoding.counts_tokens() && q_len > k_len) continue;
      SCOPED_TRACE(encoding.name + ", " + std::to_string(q_len) + " x " + std::to_string(k_len));
      const AttentionCase c = placed(encoding, {.batch = 3, .q_len = q_len, .k_len = k_len});
      Params params = encoding.params(sizes_of(c)), once = encoding.params(sizes_of(c));
      const auto f64 = test::Made<double>{}.add(encoding.make<double>(params, sizes_of(c)));
      const auto f32 = test::Made<float>{}.add(encoding.make<float>(once, sizes_of(c)));
      const AttentionData<double> data(c);
      if (q_len * k_len == 0) {
        const auto got = data.backward(f64.list);
        for (const auto* numbers : {&got.out, &got.d_q, &got.d_k, &got.d_v}) {
          for (const double x : *numbers) EXPECT_EQ(x, 0);
        }
        continue;
      }
      const auto truth = test::attention_truth(data.problem(true), f64.list);
      test::expect_attention_gradients<double>(data, truth, f64.list);
      test::expect_attention_gradients<float>(AttentionData<float>(c), truth, f32.list);
      test::expect_attention<double>(data, truth, f64.list);
    }
  }
}

TEST(Described, AnyNumberOfThreadsGivesTheSameBits) {
  for (const DescribedEncoding& encoding : test::described_terms()) {
    SCOPED_TRACE(encoding.name);
    const AttentionCase c = placed(encoding, {.batch = 2, .q_len = 21, .k_len = 37});
    Params params = encoding.params(sizes_of(c));
    const Made<float> made = encoding.make<float>(params, sizes_of(c));
    const std::vector<float> alone = everything(made, params, c);
    for (const Index workers : {1, 2, 7}) {
      test::Workers threads(workers);
      EXPECT_TRUE(test::same_bits(everything(made, params, c, threads), alone)) << workers;
    }
    EXPECT_TRUE(test::same_bits(everything(made, params, c, test::backwards(3)), alone));
  }
}

TEST(Described, CopiesGiveTheSameBitsAndOutliveTheFirst) {
  for (const DescribedEncoding& encoding : test::described_terms()) {
    SCOPED_TRACE(encoding.name);
    const AttentionCase c = placed(encoding, {.batch = 2, .q_len = 5, .k_len = 9});
    Params params = encoding.params(sizes_of(c));
    std::vector<std::vector<Index>> indices;  // which an encoding may refer to, as to its parameters
    const std::vector<ParameterMemory> memory = encoding.memory<double>(params, sizes_of(c), indices);
    Made<double> made = encoding.info->make<double>()(encoding.spec, encoding.settings_for(sizes_of(c)), memory);
    const std::vector<double> wanted = everything(made, params, c);
    ASSERT_NE(made.copy, nullptr);
    const Made<double> copy = made.copy(made);
    EXPECT_NE(copy.encoding, made.encoding);
    made = {};
    EXPECT_TRUE(test::same_bits(everything(copy, params, c), wanted));
  }
}

TEST(Described, InstructionSetsAgree) {
  for (const DescribedEncoding& encoding : test::described_terms()) {
    SCOPED_TRACE(encoding.name);
    const AttentionCase c = placed(encoding, {.batch = 2, .q_len = 9, .k_len = 19});
    Params params = encoding.params(sizes_of(c));
    const auto f64 = test::Made<double>{}.add(encoding.make<double>(params, sizes_of(c)));
    const auto f32 = test::Made<float>{}.add(encoding.make<float>(params, sizes_of(c)));
    const AttentionData<double> data(c);
    const auto truth = test::attention_truth(data.problem(true), f64.list);
    test::on_every_target([&] {
      test::expect_attention_gradients<double>(data, truth, f64.list);
      test::expect_attention_gradients<float>(AttentionData<float>(c), truth, f32.list);
    });
  }
}

/// Rows as turn() gives them, or scores as add_scores() does, of an encoding that looks at positions alone.
std::vector<float> rows_or_biases(const Made<float>& made, const AttentionCase& c) {
  const AttentionData<float> data(c);
  const AttentionInputs<float> in = data.inputs();
  if (made.rows) {
    const Index dim = made.rows->out_dim == nullptr ? c.dim : made.rows->out_dim(made.rows->self, c.dim);
    std::vector<float> y(static_cast<std::size_t>(c.batch * c.heads * c.q_len * dim));
    turn<float>(*made.rows, Side::query, in.q_positions, in.q, bhtd(y.data(), c.batch, c.heads, c.q_len, dim));
    return y;
  }
  std::vector<float> s(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.k_len));
  TermList<float> terms;
  terms.terms[0] = *made.term, terms.size = 1;
  add_scores(terms, {.q_positions = in.q_positions, .k_positions = in.k_positions},
             bhtd(s.data(), c.batch, c.heads, c.q_len, c.k_len));
  return s;
}

TEST(Described, RotationsAndBiasesByDistanceHaveTheSameBitsOnEveryInstructionSet) {
  Index compared = 0;
  for (const DescribedEncoding& encoding : test::described_terms()) {
    if (!encoding.info->rows && encoding.info->form != Form::distance && encoding.info->form != Form::grid) continue;
    SCOPED_TRACE(encoding.name);
    const AttentionCase c = placed(encoding, {.batch = 2, .q_len = 9, .k_len = 19});
    std::vector<float> first;
    test::on_every_target([&] {
      Params params = encoding.params(sizes_of(c));
      const std::vector<float> got = rows_or_biases(encoding.make<float>(params, sizes_of(c)), c);
      if (first.empty()) first = got;
      EXPECT_TRUE(test::same_bits(got, first));
      ++compared;
    });
  }
  EXPECT_GT(compared, 40);
}

TEST(Described, RefuseRealPositionsWhereTheySaySo) {
  for (const DescribedEncoding& encoding : test::described_terms()) {
    if (encoding.width() > 0) continue;  // a grid's are refused by its own check
    SCOPED_TRACE(encoding.name);
    AttentionCase c = placed(encoding, {.q_len = 3, .k_len = 4});
    const std::vector<double> at = {0, 1, 2.5, 3};
    c.q_positions = Positions(dense(at.data() + 1, 3)), c.k_positions = Positions(dense(at.data(), 4));
    Params params = encoding.params(sizes_of(c));
    const auto made = test::Made<double>{}.add(encoding.make<double>(params, sizes_of(c)));
    bool refused = false;
    try {
      (void)AttentionData<double>(c).forward(made.list);
    } catch (const RangeError&) {
      refused = true;
    }
    EXPECT_EQ(refused, encoding.whole_positions());
  }
}

}  // namespace
}  // namespace bearing
