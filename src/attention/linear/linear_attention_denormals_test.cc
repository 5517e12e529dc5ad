#include <gtest/gtest.h>
#include <bearing/encodings/xpos.hpp>

#include "support/environment.hpp"
#include "support/linear_cases.hpp"
#include "support/targets.hpp"

// No denormal number comes up where inputs are of ordinary size, however long the sequence: such an operation costs 150
// cycles on some machines, and features and decays take every size.

namespace bearing {
namespace {

using test::LinearCase;
using test::LinearData;

LinearCase long_case(Mask mask, FeatureMap map, Normaliser normaliser) {
  return {.heads = 4,
          .kv_heads = 2,
          .q_len = 4096,
          .k_len = 4096,
          .dim = 32,
          .value_dim = 24,
          .mask = mask,
          .map = map,
          .normaliser = normaliser};
}

/// Queries and keys `times` as large.
template <class A>
LinearData<A> wide(const LinearCase& c, A times) {
  LinearData<A> data(c);
  for (test::Guarded<A>* x : {&data.q, &data.k}) {
    x->for_each([&](Index b, Index h, Index t, Index d) { x->view()(b, h, t, d) *= times; });
  }
  return data;
}

template <class A>
void expect_none(const LinearCase& c, A times, const TermList<A>& terms) {
  SCOPED_TRACE(test::describe(c));
  LinearData<A> data = wide<A>(c, times);
  EXPECT_FALSE(test::meets_denormals([&] { (void)data.forward(terms); }));
  EXPECT_FALSE(test::meets_denormals([&] { data.backward(terms); }));
}

TEST(LinearAttentionDenormals, AreSeenByTheTest) {
  const LinearCase c = long_case(Mask::causal, FeatureMap::elu_plus_one, Normaliser::sum);
  LinearData<float> data = wide<float>(c, 80);
  EXPECT_TRUE(test::meets_denormals([&] { (void)data.forward({}); }));
}

TEST(LinearAttentionDenormals, NeverComeUpWithAnyFeatureMap) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    for (const Normaliser normaliser : {Normaliser::sum, Normaliser::none}) {
      for (const FeatureMap map : {FeatureMap::elu_plus_one, FeatureMap::relu, FeatureMap::identity}) {
        if (map == FeatureMap::identity && normaliser == Normaliser::sum) continue;  // sums that cancel
        expect_none<float>(long_case(mask, map, normaliser), 1, {});
      }
    }
  }
}

TEST(LinearAttentionDenormals, NeverComeUpWithFeaturesOfEverySize) {
  // e^x from e^-15 on: a gradient has the features of a query and of a key and a slope, e^-45, times what rounding
  // leaves of differences, e^-17, far above 2^-126 = e^-87 whatever the order of sums; doubles of e^-160 likewise.
  for (const Mask mask : {Mask::none, Mask::causal}) {
    test::on_every_target([mask] {
      expect_none<float>(long_case(mask, FeatureMap::elu_plus_one, Normaliser::sum), 15, {});
      expect_none<double>(long_case(mask, FeatureMap::elu_plus_one, Normaliser::sum), 160, {});
    });
  }
}

/// RetNet: xPos's decay, with the middle of the sequence as its centre, as far as float's factors reach.
TEST(LinearAttentionDenormals, NeverComeUpWithDecays) {
  test::on_every_target([] {
    const LinearCase c = long_case(Mask::causal, FeatureMap::identity, Normaliser::none);
    const Xpos xpos{.rope = {.head_dim = c.dim, .pairing = Pairing::interleaved}, .scale_base = 40, .centre = 2048};
    const XposTable<float> table(xpos, c.k_len);
    const XposRows<float> rows(table);
    expect_none<float>(c, 1, with(rows));
  });
}

/// In pieces, whose state is what all keys so far have left.
TEST(LinearAttentionDenormals, NeverComeUpInStates) {
  const LinearCase c = long_case(Mask::causal, FeatureMap::elu_plus_one, Normaliser::sum);
  LinearData<float> data(c);
  LinearData<float>::State state(c, 0);
  EXPECT_FALSE(test::meets_denormals([&] {
    for (Index first = 0; first < c.q_len; first += 1) {
      linear_attention<float>(data.inputs(first, first + 1), data.piece(data.out.view(), first, first + 1),
                              state.view(), {}, c.options());
    }
  }));
}

}  // namespace
}  // namespace bearing
