#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/error.hpp>
#include <cerrno>

#include "support/attention.hpp"
#include "support/errors.hpp"
#include "support/rotation.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Results over slices of the keys, put together, are those over all of them.

namespace bearing {
namespace {

constexpr float nothing = -std::numeric_limits<float>::infinity();

/// The keys first … end − 1, at their positions. Sinks belong to one slice.
template <class T, class O>
test::AttentionGot<T, O> slice_of(const AttentionData<T>& data, const TermList<Compute<T>>& terms, Index first,
                                  Index end, bool with_sinks) {
  const AttentionCase& c = data.the_case();
  AttentionInputs<T> in = data.inputs();
  in.k.data += first * in.k.stride[2], in.k.shape[2] = end - first;
  in.v.data += first * in.v.stride[2], in.v.shape[2] = end - first;
  in.k_positions = Positions(c.k_first + first);
  auto options = data.options();
  if (!with_sinks) options.sinks = {};
  test::AttentionGot<T, O> got;
  got.out.resize(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.value_dim));
  got.lse.resize(static_cast<std::size_t>(c.batch * c.heads * c.q_len));
  attention(in, bhtd(got.out.data(), c.batch, c.heads, c.q_len, c.value_dim),
            dense(got.lse.data(), c.batch, c.heads, c.q_len), terms, options);
  return got;
}

template <class O>
void merge_into(const AttentionCase& c, std::vector<O>& out, std::vector<Compute<O>>& lse, const std::vector<O>& part,
                const std::vector<Compute<O>>& part_lse, const Executor& on = {}) {
  merge<O>(bhtd(part.data(), c.batch, c.heads, c.q_len, c.value_dim), dense(part_lse.data(), c.batch, c.heads, c.q_len),
           bhtd(out.data(), c.batch, c.heads, c.q_len, c.value_dim), dense(lse.data(), c.batch, c.heads, c.q_len), on);
}

/// Slices between these keys, merged in order, against the reference over all keys: an arithmetic's results throughout.
template <class T>
void expect_whole(const AttentionCase& c, const std::vector<Index>& borders) {
  using A = Compute<T>;
  const AttentionData<T> data(c);
  const AlibiBias<A> alibi(Alibi::published(c.heads));
  const AlibiBias<double> alibi_in_double(Alibi::published(c.heads));
  auto all = slice_of<T, A>(data, with(alibi), borders[0], borders[1], true);
  for (std::size_t n = 1; n + 1 < borders.size(); ++n) {
    const auto part = slice_of<T, A>(data, with(alibi), borders[n], borders[n + 1], false);
    merge_into(c, all.out, all.lse, part.out, part.lse);
  }
  const auto truth = test::attention_truth(data.problem(false), with(alibi_in_double));
  test::expect_close(all.out, truth.out, truth.score_size, c.k_len, "merged out of " + describe(c), truth.sizes.out);
  test::expect_close(all.lse, truth.lse, truth.score_size, c.k_len, "merged lse of " + describe(c), 1);
}

TEST(Merge, SlicesAreTheWhole) {
  const std::vector<double> sinks = {0.5, -3};
  for (const bool with_sinks : {false, true}) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
      for (const Index q_len : {1, 9}) {
        AttentionCase c{.batch = 2, .q_len = q_len, .k_len = 600, .options = {.mask = mask}, .q_first = 590};
        if (with_sinks) c.options.sinks = {dense(sinks.data(), 2)};
        const std::vector<std::vector<Index>> cuts = {{0, 300, 600}, {0, 1, 600}, {0, 100, 350, 600}, {0, 0, 595, 600}};
        for (const std::vector<Index>& borders : cuts) {
          expect_whole<double>(c, borders);
          expect_whole<float>(c, borders);
          expect_whole<Bfloat16>(c, borders);
          expect_whole<Float16>(c, borders);
        }
      }
    }
  }
}

TEST(Merge, FollowsItsFormulaInEveryTypeAndLayout) {
  test::on_every_target([] {
    test::for_each_type([]<class O>(O) {
      using A = Compute<O>;
      for (const Layout layout : test::writable_layouts) {
        for (const Index dim : {1, 7, 33}) {
          test::Random random(3);
          test::Guarded<O> part({2, 3, 5, dim}, layout), out({2, 3, 5, dim}, layout);
          part.fill(random), out.fill(random);
          std::vector<A> lse, part_lse;
          for (int row = 0; row < 30; ++row) {
            lse.push_back(static_cast<A>(random.uniform(-9, 9)));
            part_lse.push_back(static_cast<A>(random.uniform(-9, 9)));
          }
          const std::vector<double> ours = out.doubles(), theirs = part.doubles();
          const std::vector<A> before = lse;
          merge<O>(part.read(), dense<const A>(part_lse.data(), 2, 3, 5), out.view(), dense(lse.data(), 2, 3, 5));
          const std::vector<double> merged = out.doubles();
          EXPECT_TRUE(out.guards_intact());
          for (std::size_t x = 0; x < merged.size(); ++x) {
            const std::size_t row = x / static_cast<std::size_t>(dim);
            const double a = std::exp(static_cast<double>(before[row])),
                         b = std::exp(static_cast<double>(part_lse[row]));
            const double truth = (a * ours[x] + b * theirs[x]) / (a + b);
            // Six roundings of shares and sums of numbers below 2 in A, and the result's own.
            ASSERT_NEAR(merged[x], truth, 12 * test::ulp<A>(1.0) + 0.5 * test::ulp<O>(truth)) << name(layout);
            ASSERT_NEAR(static_cast<double>(lse[row]), std::log(a + b), 4 * test::ulp<A>(9.0));
          }
        }
      }
    });
  });
}

TEST(Merge, ARowWithoutKeysLeavesTheOtherSideAsItIs) {
  const float hole = std::numeric_limits<float>::quiet_NaN();
  for (const Index step : {1, 2}) {  // features side by side, or apart
    std::vector<float> part = {1, 9, 2, 9, hole, 9, hole, 9, hole, 9, hole, 9};
    std::vector<float> out = {hole, 9, hole, 9, 3, 9, 4, 9, 0, 9, 0, 9};
    if (step == 1) part = {1, 2, hole, hole, hole, hole}, out = {hole, hole, 3, 4, 0, 0};
    std::vector<float> part_lse = {7, nothing, nothing}, lse = {nothing, 5, nothing};
    merge<float>(View<const float, 4>{part.data(), {1, 1, 3, 2}, {0, 0, 2 * step, step}},
                 dense<const float>(part_lse.data(), 1, 1, 3),
                 View<float, 4>{out.data(), {1, 1, 3, 2}, {0, 0, 2 * step, step}}, dense(lse.data(), 1, 1, 3));
    const auto at = [&](std::size_t x) { return out[x * static_cast<std::size_t>(step)]; };
    EXPECT_EQ(at(0), 1);
    EXPECT_EQ(at(1), 2);
    EXPECT_EQ(at(2), 3);
    EXPECT_EQ(at(3), 4);
    EXPECT_EQ(at(4), 0);
    EXPECT_EQ(at(5), 0);
    EXPECT_EQ(lse, (std::vector<float>{7, 5, nothing}));
  }
}

TEST(Merge, FarApartLogarithmsNeitherOverflowNorLeaveAnError) {
  for (const float far : {1e4f, 3e38f}) {
    const std::vector<float> part{1, 2}, part_lse{far};
    std::vector<float> out{3, 4}, lse{-far};
    errno = 0;
    merge<float>(bhtd(part.data(), 1, 1, 1, 2), dense(part_lse.data(), 1, 1, 1), bhtd(out.data(), 1, 1, 1, 2),
                 dense(lse.data(), 1, 1, 1));
    EXPECT_EQ(errno, 0);
    EXPECT_EQ(out, part);
    EXPECT_EQ(lse, part_lse);
  }
}

TEST(Merge, EqualPartsShareEqually) {
  const std::vector<Bfloat16> part{Bfloat16(1.0f), Bfloat16(2.0f)};
  const std::vector<float> part_lse{1};
  std::vector<Bfloat16> out{Bfloat16(3.0f), Bfloat16(-2.0f)};
  std::vector<float> lse{1};
  merge<Bfloat16>(bhtd(part.data(), 1, 1, 1, 2), dense(part_lse.data(), 1, 1, 1), bhtd(out.data(), 1, 1, 1, 2),
                  dense(lse.data(), 1, 1, 1));
  EXPECT_EQ(static_cast<float>(out[0]), 2);
  EXPECT_EQ(static_cast<float>(out[1]), 0);
  EXPECT_FLOAT_EQ(lse[0], 1 + std::log(2.0f));
}

TEST(Merge, OrderMattersByRoundingsOnly) {
  const AttentionCase c{.batch = 2, .q_len = 3, .k_len = 90};
  const AttentionData<float> data(c);
  const auto a = slice_of<float, float>(data, {}, 0, 30, true), b = slice_of<float, float>(data, {}, 30, 60, true),
             d = slice_of<float, float>(data, {}, 60, 90, true);
  auto there = slice_of<float, float>(data, {}, 0, 30, true), back = slice_of<float, float>(data, {}, 60, 90, true);
  merge_into(c, there.out, there.lse, b.out, b.lse);
  merge_into(c, there.out, there.lse, d.out, d.lse);
  merge_into(c, back.out, back.lse, b.out, b.lse);
  merge_into(c, back.out, back.lse, a.out, a.lse);
  for (std::size_t x = 0; x < there.out.size(); ++x) EXPECT_NEAR(there.out[x], back.out[x], 24 * 0x1p-24);
  for (std::size_t x = 0; x < there.lse.size(); ++x) EXPECT_NEAR(there.lse[x], back.lse[x], 8 * test::ulp<float>(8.0));
}

TEST(Merge, SameBitsForAnyExecutor) {
  const AttentionCase c{.batch = 3, .q_len = 5, .k_len = 64};
  const AttentionData<float> data(c);
  const auto part = slice_of<float, float>(data, {}, 32, 64, true);
  auto serial = slice_of<float, float>(data, {}, 0, 32, true);
  const auto before = serial;
  merge_into(c, serial.out, serial.lse, part.out, part.lse);
  for (const Index threads : {1, 2, 3, 7, 16}) {
    auto other = before;
    merge_into(c, other.out, other.lse, part.out, part.lse, test::Workers(threads));
    EXPECT_TRUE(other.same_bits_as(serial)) << threads;
  }
}

TEST(Merge, RefusesWhatDoesNotFit) {
  std::vector<float> numbers(400), lse(40);
  const View<const float, 4> part = bhtd<const float>(numbers.data(), 1, 2, 3, 4);
  const View<float, 4> out = bhtd(numbers.data() + 100, 1, 2, 3, 4);
  const auto part_lse = dense<const float>(lse.data(), 1, 2, 3);
  const auto our_lse = dense(lse.data() + 20, 1, 2, 3);
  const auto before = numbers;
  test::expect_error<ShapeError>(
      [&] { merge<float>(bhtd<const float>(numbers.data(), 1, 2, 3, 5), part_lse, out, our_lse); },
      "[merge] part: must be of the shape of out = [1, 2, 3, 4], got [1, 2, 3, 5]");
  EXPECT_THROW(merge<float>(part, dense<const float>(lse.data(), 1, 2, 4), out, our_lse), ShapeError);
  EXPECT_THROW(merge<float>(part, part_lse, out, dense(lse.data() + 20, 1, 3, 3)), ShapeError);
  EXPECT_THROW(merge<float>(out, part_lse, out, our_lse), ShapeError);
  EXPECT_THROW(merge<float>(part, our_lse, out, our_lse), ShapeError);
  EXPECT_THROW(merge<float>(part, part_lse, View<float, 4>{nullptr, {1, 2, 3, 4}, {24, 12, 4, 1}}, our_lse),
               ShapeError);
  EXPECT_EQ(numbers, before);
}

}  // namespace
}  // namespace bearing
