#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/linear_attention.hpp>

#include "support/attention_encodings.hpp"
#include "support/linear_cases.hpp"
#include "support/workers.hpp"

// Keys that no query of linear attention sees, and queries that see no key, may hold anything: the same bits of every
// result and gradient, with every encoding that it takes.

namespace bearing {
namespace {

using test::LinearCase;
using test::LinearData;
using test::NamedEncoding;
using test::Params;

bool turns_only(const NamedEncoding& encoding) {
  test::AttentionCase c;
  Params params = encoding.params(c);
  const auto made = encoding.make<double>(params, c);
  return encoding.serves != test::Serves::three_axes && encoding.serves != test::Serves::grid &&
         std::all_of(made.list.begin(), made.list.end(), [](const Term<double>& term) {
           return term.turn != nullptr && term.bias == nullptr && term.add_scores == nullptr &&
                  term.add_values == nullptr;
         });
}

/// Writes a number into rows that take no part; returns how many.
template <class T>
Index poison(LinearData<T>& data, T number) {
  const LinearCase& c = data.c;
  Index rows = 0;
  const auto fill = [&](test::Guarded<T>& x, Index t) {
    for (Index n = 0; n < x.view().shape[0] * x.view().shape[1]; ++n) {
      const Index b = n / x.view().shape[1], h = n % x.view().shape[1];
      for (Index d = 0; d < x.view().shape[3]; ++d) x.view()(b, h, t, d) = number;
    }
    ++rows;
  };
  for (Index j = 0; j < c.k_len; ++j) {
    bool seen = false;
    for (Index i = 0; i < c.q_len; ++i) seen = seen || c.sees(i, j);
    if (!seen) fill(data.k, j), fill(data.v, j);
  }
  for (Index i = 0; i < c.q_len; ++i) {
    bool seeing = false;
    for (Index j = 0; j < c.k_len; ++j) seeing = seeing || c.sees(i, j);
    if (!seeing) fill(data.q, i), fill(data.d_out, i);
  }
  return rows;
}

/// out, d_q, d_k, d_v and the gradients of an encoding's parameters, as bits of double.
template <class T>
std::vector<double> results(const NamedEncoding& encoding, LinearData<T>& data) {
  test::AttentionCase c{.heads = data.c.heads, .kv_heads = data.c.kv_heads, .q_len = data.c.q_len};
  c.k_len = data.c.k_len;
  Params params = encoding.params(c);
  const auto made = encoding.template make<Compute<T>>(params, c);
  std::vector<double> all = data.forward(made.list, test::backwards(2));
  data.backward(made.list, test::backwards(2));
  for (const test::Guarded<T>* x : {&data.d_q, &data.d_k, &data.d_v}) {
    const std::vector<double> numbers = x->doubles();
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  for (std::size_t n = 0; n < params.count(); ++n) {
    const std::vector<float>& floats = params.float_grads(n);
    all.insert(all.end(), params.grads(n).begin(), params.grads(n).end());
    all.insert(all.end(), floats.begin(), floats.end());
  }
  return all;
}

template <class T>
void expect_unseen(const NamedEncoding& encoding, const LinearCase& c) {
  LinearData<T> data(c);
  const std::vector<double> clean = results(encoding, data);
  for (const double x : clean) ASSERT_TRUE(std::isfinite(x)) << encoding.name << ", " << describe(c);
  const double most = std::is_same_v<T, double> ? std::numeric_limits<double>::max() : 3e38;
  for (const double number :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), most}) {
    LinearData<T> poisoned(c);
    ASSERT_GT(poison(poisoned, test::from_double<T>(number)), 0) << describe(c);
    EXPECT_TRUE(test::same_bits(results(encoding, poisoned), clean))
        << encoding.name << ", where " << number << " lies in " << 8 * sizeof(T) << " bits; " << describe(c);
  }
}

TEST(LinearAttentionHidden, NothingThatLiesThereReachesAnyResultOfAnyEncoding) {
  const test::NamedEncodings encodings;
  const LinearCase any{.heads = test::encoding_heads, .kv_heads = test::encoding_heads, .dim = test::encoding_dim};
  std::vector<LinearCase> cases;
  for (const Mask mask : {Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    LinearCase c = any;
    c.mask = mask, c.q_len = 9, c.k_len = 23;
    if (mask == Mask::causal) c.k_first = 4, c.q_first = 2;
    if (mask == Mask::causal_bottom_right) std::swap(c.q_len, c.k_len);  // the first queries see nothing
    cases.push_back(c);
  }
  cases.push_back(cases.front());
  cases.back().q_len = 70, cases.back().k_len = 140, cases.back().k_first = 20;
  const std::size_t each = cases.size();
  for (std::size_t n = 0; n < each; ++n) {
    cases.push_back(cases[n]);
    cases.back().map = FeatureMap::identity, cases.back().normaliser = Normaliser::none;
  }
  Index count = 0;
  for (const NamedEncoding& encoding : encodings.all()) {
    if (!turns_only(encoding)) continue;
    ++count;
    for (const LinearCase& c : cases) {
      if (encoding.serves == test::Serves::tokens && c.q_len > c.k_len) continue;
      expect_unseen<double>(encoding, c);
      expect_unseen<float>(encoding, c);
      expect_unseen<Bfloat16>(encoding, c);
    }
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace bearing
