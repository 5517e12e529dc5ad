#include "attention/amx/amx_grads.hpp"

#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/t5.hpp>

#include "support/amx_cases.hpp"
#include "support/attention.hpp"
#include "support/hidden.hpp"
#include "support/targets.hpp"

// attention_backward() of bfloat16 as it is on a machine with matrix tiles; here they are plain loops.

namespace bearing {
namespace {

namespace amx = attend::amx;
using test::Forced;
using test::tiles_case;

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t x = 0; x < a.size(); ++x) most = std::max(most, std::abs(static_cast<double>(a[x]) - b[x]));
  return most;
}

/// A gradient is rounded once, by half a unit of it. Each of what it is summed of is off by a factor: 2^-8 where a
/// probability or a score's gradient is rounded for its product, 2^-8 where D = d_o·o takes an o that was rounded, and
/// exp(2^-7 · `turned_product`) and 2^-8 where turned rows are rounded. `sizes` is what the largest gradient is summed
/// of.
void expect_grads(const AttentionData<Bfloat16>& data, const test::AttentionTruth& truth,
                  const TermList<float>& terms = {}, double turned_product = 0) {
  const Forced forced(&amx::emulated);
  const auto got = data.backward(terms);
  const std::string what = test::describe(data.the_case());
  const double weight = 0x1p-7 + std::expm1(0x1p-7 * turned_product);
  const auto compare = [&](const char* name, const std::vector<Bfloat16>& numbers, const std::vector<double>& of,
                           double size) {
    ASSERT_EQ(numbers.size(), of.size());
    double squares = 0, errors = 0;
    for (std::size_t x = 0; x < of.size(); ++x) {
      const double error = test::to_double(numbers[x]) - of[x];
      squares += of[x] * of[x], errors += error * error;
      const double bound = 0.5 * test::ulp<Bfloat16>(std::abs(of[x])) + weight * size;
      ASSERT_LE(std::abs(error), bound) << name << x << " of " << what;
    }
    EXPECT_LE(errors, 0x1p-14 * squares) << name << "of " << what;
  };
  compare("d_q ", got.d_q, truth.d_q, truth.sizes.d_q);
  compare("d_k ", got.d_k, truth.d_k, truth.sizes.d_k);
  compare("d_v ", got.d_v, truth.d_v, truth.sizes.d_v);
  const Forced none(nullptr);  // the tiles did run: the float kernels are not off by as much
  EXPECT_FALSE(test::same_bits(data.backward(terms).d_v, got.d_v)) << what;
}

void expect_grads(const AttentionCase& c) {
  const AttentionData<Bfloat16> data(c);
  expect_grads(data, test::attention_truth(data.problem(true), {}));
}

TEST(AmxGrads, LengthsAroundTilesSlabsAndBlocks) {
  for (const Index k_len : {31, 33, 63, 65, 127, 129, 300}) expect_grads(tiles_case(33, k_len));
  for (const Index q_len : {32, 63, 97, 300}) expect_grads(tiles_case(q_len, 150));
  AttentionCase wide = tiles_case(40, 600);
  wide.dim = 96, wide.value_dim = 32;
  expect_grads(wide);
}

TEST(AmxGrads, ManyKeysAndWideHeads) {
  AttentionCase c = tiles_case(33, 2'750);  // more than a worker keeps packed
  c.heads = c.kv_heads = 1, c.dim = c.value_dim = 256;
  expect_grads(c);
  c = tiles_case(100, 130);
  c.batch = 2, c.heads = 6, c.kv_heads = 2, c.dim = c.value_dim = 128;
  expect_grads(c);
}

/// Their numbers are in panels between the tiles, whose width is the target's.
TEST(AmxGrads, MasksWindowsAndPadding) {
  test::on_every_target([] { test::each_tiles_mask(110, [](const AttentionCase& c) { expect_grads(c); }); });
}

TEST(AmxGrads, SharedHeadsLayoutsScaleAndSinks) {
  test::each_tiles_layout([](const AttentionCase& c) { expect_grads(c); });
}

TEST(AmxGrads, BiasesByDistanceAndWhatTheyLearn) {
  const T5 t5{.direction = T5Direction::bidirectional};
  for (const Mask mask : {Mask::none, Mask::causal}) {
    AttentionCase c = tiles_case(110, 150);
    c.options.mask = mask, c.q_first = 40;
    const AttentionData<Bfloat16> data(c);
    test::Params exact(test::Params::Shapes{{32, 2}}), table(test::Params::Shapes{{32, 2}});
    const T5Bias<double> t5_64(t5, exact.param<double, 2>(0));
    const T5Bias<float> t5_32(t5, table.param<float, 2>(0));
    expect_grads(data, test::attention_truth(data.problem(true), with(t5_64)), with(t5_32));
    // The table's gradient is a sum of gradients of scores in float, none of which is rounded: what o and lse cost
    // alone.
    test::Params again(test::Params::Shapes{{32, 2}});
    const T5Bias<float> bias(t5, again.param<float, 2>(0));
    const Forced forced(&amx::emulated);
    data.backward(with(bias));
    test::Params other(test::Params::Shapes{{32, 2}});
    const T5Bias<float> on_floats(t5, other.param<float, 2>(0));
    const Forced none(nullptr);
    data.backward(with(on_floats));
    EXPECT_LT(largest_difference(again.float_grads(0), other.float_grads(0)), 0x1p-6);
  }
}

TEST(AmxGrads, TurnedRowsGoBackThroughTheirRotation) {
  AttentionCase c = tiles_case(40, 150);
  c.options.mask = Mask::causal, c.q_first = 110;
  const test::TilesRope rope;
  const AttentionData<Bfloat16> data(c);
  expect_grads(data, test::attention_truth(data.problem(true), with(rope.exact())), with(rope.rows()), std::sqrt(32.0));
}

TEST(AmxGrads, NorWhatLiesWhereNobodyLooks) {
  const test::Hiding hiding(1, 2, 70, 150);
  const Forced forced(&amx::emulated);
  const test::TilesRope rope;
  for (const TermList<float>& terms : {TermList<float>{}, with(rope.rows())}) {
    hiding.each(tiles_case(70, 150), test::Serves::any, [&](const char* way, const AttentionCase& c) {
      const auto clean = AttentionData<Bfloat16>(c).backward(terms);
      for (const Bfloat16 number : test::garbage<Bfloat16>()) {
        AttentionData<Bfloat16> data(c);
        ASSERT_GT(test::poison(data, number), 0);
        const auto got = data.backward(terms);
        EXPECT_TRUE(test::same_bits(got.d_q, clean.d_q) && test::same_bits(got.d_k, clean.d_k) &&
                    test::same_bits(got.d_v, clean.d_v))
            << "hidden by " << way << ", where " << test::to_double(number) << " lies";
      }
    });
  }
}

TEST(AmxGrads, KeysThatDoNotExistHaveNoGradient) {
  // Whatever those that exist have: here a query is no number, and so are the gradients of all that it sees.
  AttentionCase c = tiles_case(40, 150);
  const Index length = 130;
  c.options.k_lengths = dense(&length, 1);
  AttentionData<Bfloat16> data(c);
  const Forced forced(&amx::emulated);
  auto results = data.backward({});
  std::vector<Bfloat16> d_out(results.out.size(), Bfloat16(std::numeric_limits<float>::quiet_NaN()));
  std::vector<Bfloat16> d_q(results.d_q.size()), d_k(results.d_k.size()), d_v(results.d_v.size());
  attention_backward<Bfloat16>(
      data.inputs(),
      {bhtd<const Bfloat16>(results.out.data(), 1, 2, 40, 64), dense<const float>(results.lse.data(), 1, 2, 40),
       bhtd<const Bfloat16>(d_out.data(), 1, 2, 40, 64)},
      {bhtd(d_q.data(), 1, 2, 40, 32), bhtd(d_k.data(), 1, 2, 150, 32), bhtd(d_v.data(), 1, 2, 150, 64)}, {},
      data.options());
  for (std::size_t x = 0; x < d_v.size(); ++x) {
    const bool exists = x / 64 % 150 < 130;
    ASSERT_EQ(std::isnan(static_cast<float>(d_v[x])), exists) << x;
    if (!exists) {
      ASSERT_EQ(static_cast<float>(d_v[x]), 0) << x;
    }
  }
}

TEST(AmxGrads, AnyExecutorGivesTheSameBits) {
  // Few workers take a head's gradients together, many take those of queries and of keys apart.
  AttentionCase c = tiles_case(310, 310);
  c.batch = 2, c.heads = 2, c.kv_heads = 1;
  c.options.mask = Mask::causal;
  const Alibi alibi{{0.25, 0.5}};
  const AlibiBias<float> bias(alibi);
  const AttentionData<Bfloat16> data(c);
  const Forced forced(&amx::emulated);
  const auto alone = data.backward(with(bias));
  for (const Index workers : {2, 3, 7}) {
    test::Workers threads(workers);
    EXPECT_TRUE(data.backward(with(bias), threads).same_bits_as(alone)) << workers;
    EXPECT_TRUE(data.backward(with(bias), test::backwards(workers)).same_bits_as(alone)) << workers;
  }
}

TEST(AmxGrads, GradientsThatNobodyWantsChangeNoOther) {
  const AttentionCase c = tiles_case(70, 150);
  const AttentionData<Bfloat16> data(c);
  const Forced forced(&amx::emulated);
  const auto all = data.backward({});
  const std::vector<Bfloat16> d_out(all.out.rbegin(), all.out.rend());
  const auto run = [&](int wanted) {
    std::array<std::vector<Bfloat16>, 3> to = {std::vector<Bfloat16>(all.d_q.size()),
                                               std::vector<Bfloat16>(all.d_k.size()),
                                               std::vector<Bfloat16>(all.d_v.size())};
    AttentionGrads<Bfloat16> grads;
    if (wanted & 1) grads.d_q = bhtd(to[0].data(), 1, 2, 70, 32);
    if (wanted & 2) grads.d_k = bhtd(to[1].data(), 1, 2, 150, 32);
    if (wanted & 4) grads.d_v = bhtd(to[2].data(), 1, 2, 150, 64);
    attention_backward<Bfloat16>(
        data.inputs(),
        {bhtd<const Bfloat16>(all.out.data(), 1, 2, 70, 64), dense<const float>(all.lse.data(), 1, 2, 70),
         bhtd<const Bfloat16>(d_out.data(), 1, 2, 70, 64)},
        grads, {}, data.options());
    return to;
  };
  const auto together = run(7), nothing = run(0);
  for (int wanted = 1; wanted < 7; ++wanted) {
    const auto got = run(wanted);
    for (std::size_t x = 0; x < 3; ++x) {
      EXPECT_TRUE(test::same_bits(got[x], wanted >> x & 1 ? together[x] : nothing[x])) << wanted << " " << x;
    }
  }
}

TEST(AmxGrads, GradientsOfFloatAreNotRounded) {
  const AttentionData<Bfloat16> data(tiles_case(40, 70));
  const auto grads = [&](const amx::Kernels* kernels) {  // the forward's results are the same, in float
    const Forced forced(kernels);
    return data.backward<float>({}).d_v;
  };
  const auto forward = [&](const amx::Kernels* kernels) {
    const Forced forced(kernels);
    return data.forward<float>({}).lse;
  };
  ASSERT_FALSE(test::same_bits(forward(&amx::emulated), forward(nullptr)));
  const auto got = grads(&amx::emulated), on_floats = grads(nullptr);
  // d_v is Σ p d_o, which a rounded p would move by 2^-8.
  EXPECT_LT(largest_difference(got, on_floats), 2e-4) << "d_o of float is in pieces";
}

}  // namespace
}  // namespace bearing
