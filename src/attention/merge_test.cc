#include <gtest/gtest.h>

#include "support/attention.hpp"
#include "support/rotation.hpp"
#include "support/workers.hpp"

// Partial results over slices of the keys, and caches in blocks: however keys are cut, the whole comes out.

namespace bearing {
namespace {

using test::AttentionCase;
using test::AttentionData;

constexpr Index batch = 2, heads = 4, kv_heads = 2, q_len = 9, k_len = 70, value_dim = 6;

AttentionCase the_case() {
  AttentionCase c{.batch = batch, .heads = heads, .kv_heads = kv_heads, .q_len = q_len, .k_len = k_len};
  c.value_dim = value_dim, c.options.mask = Mask::causal, c.q_first = k_len - q_len - 5;
  return c;
}

/// out and lse of attention over keys first … end − 1.
template <class A>
struct Part {
  std::vector<A> out = std::vector<A>(batch * heads * q_len * value_dim), lse = std::vector<A>(batch * heads * q_len);

  View<A, 4> out_view() { return bhtd(out.data(), batch, heads, q_len, value_dim); }
  View<A, 3> lse_view() { return dense(lse.data(), batch, heads, q_len); }
};

template <class T>
Part<Compute<T>> over_keys(const AttentionData<T>& data, Index first, Index end,
                           const AttentionOptions<Compute<T>>& options) {
  AttentionInputs<T> in = data.inputs();
  for (View<const T, 4>* x : {&in.k, &in.v}) x->data += first * x->stride[2], x->shape[2] = end - first;
  in.k_at = Positions(first);
  Part<Compute<T>> part;
  attention(in, part.out_view(), part.lse_view(), {}, options);
  return part;
}

template <class A>
void merge_into(Part<A>& whole, Part<A> part, const Executor& on = {}) {
  merge<A>(part.out_view(), part.lse_view(), whole.out_view(), whole.lse_view(), on);
}

TEST(Merge, SlicesOfKeysGiveTheWhole) {
  const std::vector<double> sinks = {0.5, -1, 2, 0};
  AttentionCase c = the_case();
  c.options.sinks = {dense(sinks.data(), heads)};
  test::for_each_type([&]<class T>(T) {
    const AttentionData<T> data(c);
    const auto truth = test::attention_truth(data.problem(false), {});
    auto without = data.options();
    without.sinks = {};
    for (const std::vector<Index>& cuts :
         {std::vector<Index>{0, 35, 70}, {0, 1, 2, 69, 70}, {0, 7, 7, 20, 60, 66, 68, 70}}) {
      auto whole = over_keys(data, cuts[0], cuts[1], data.options());  // sinks belong to one of the parts
      for (std::size_t n = 2; n < cuts.size(); ++n) merge_into(whole, over_keys(data, cuts[n - 1], cuts[n], without));
      test::expect_close(whole.out, truth.out, truth.score_size, k_len, "out");
      test::expect_close(whole.lse, truth.lse, truth.score_size, k_len, "lse", 1);
    }
  });
}

TEST(Merge, OrderMattersToRoundingAlone) {
  const AttentionData<double> data(the_case());
  std::vector<Part<double>> parts;
  for (Index n = 0; n < 7; ++n) parts.push_back(over_keys(data, 10 * n, 10 * n + 10, data.options()));
  Part<double> forward = parts[0], backward = parts[6], again = parts[0];
  for (std::size_t n = 1; n < 7; ++n) {
    merge_into(forward, parts[n]);
    merge_into(backward, parts[6 - n]);
    test::Workers threads(3);
    merge_into(again, parts[n], threads);
  }
  EXPECT_TRUE(test::same_bits(again.out, forward.out) && test::same_bits(again.lse, forward.lse));
  for (std::size_t x = 0; x < forward.out.size(); ++x) EXPECT_NEAR(forward.out[x], backward.out[x], 1e-15);
}

TEST(Merge, RowsWithoutKeysLeaveTheOtherSideAsItIs) {
  const float nothing = -std::numeric_limits<float>::infinity();
  const std::vector<float> part{9, 9, 1, 2, 9, 9}, part_lse{nothing, 0.5f, nothing};
  std::vector<float> out{3, 4, 0, 0, 0, 0}, lse{0.25f, nothing, nothing};
  merge<float>(bhtd(part.data(), 1, 1, 3, 2), dense(part_lse.data(), 1, 1, 3), bhtd(out.data(), 1, 1, 3, 2),
               dense(lse.data(), 1, 1, 3));
  EXPECT_EQ(out, (std::vector<float>{3, 4, 1, 2, 0, 0}));
  EXPECT_EQ(lse, (std::vector<float>{0.25f, 0.5f, nothing}));
}

TEST(Merge, FarApartLogarithmsDoNotOverflow) {
  for (const float far : {1e4f, 3e38f}) {
    const std::vector<float> part{1, 2}, part_lse{far};
    std::vector<float> out{3, 4}, lse{-far};
    merge<float>(bhtd(part.data(), 1, 1, 1, 2), dense(part_lse.data(), 1, 1, 1), bhtd(out.data(), 1, 1, 1, 2),
                 dense(lse.data(), 1, 1, 1));
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

TEST(PagedCache, IsTheCacheItStandsFor) {
  // Blocks of `size` keys in any order, those of two sequences among each other; rows past a sequence's end are
  // anything.
  test::for_each_type([&]<class T>(T) {
    for (const Index queries : {1, 3, 40}) {
      for (const Index size : {1, 16, 24}) {
        AttentionCase c = the_case();
        c.q_len = queries, c.q_first = 60;
        const std::vector<Index> lengths = {70, 33};
        c.options.k_lengths = dense(lengths.data(), batch);
        const AttentionData<T> data(c);
        const auto truth = test::attention_truth(data.problem(false), {});
        const Index blocks = (k_len + size - 1) / size;
        std::vector<Index> table;
        std::vector<T> k(static_cast<std::size_t>(batch * blocks * kv_heads * size * 8), T(std::nanf(""))), v(k);
        const auto rows = [&](std::vector<T>& x, Index features) {
          return bhtd(x.data(), batch * blocks, kv_heads, size, features);
        };
        AttentionInputs<T> in = data.inputs();
        for (Index n = 0; n < batch * blocks; ++n) table.push_back(n);
        test::Random random(19);
        for (std::size_t n = table.size() - 1; n > 0; --n) {
          std::swap(table[n], table[static_cast<std::size_t>(random.integer(0, static_cast<Index>(n)))]);
        }
        for (Index b = 0; b < batch; ++b) {
          for (Index j = 0; j < lengths[static_cast<std::size_t>(b)]; ++j) {
            const Index block = table[static_cast<std::size_t>(b * blocks + j / size)];
            for (Index h = 0; h < kv_heads; ++h) {
              for (Index d = 0; d < 8; ++d) rows(k, 8)(block, h, j % size, d) = in.k(b, h, j, d);
              for (Index d = 0; d < value_dim; ++d) rows(v, value_dim)(block, h, j % size, d) = in.v(b, h, j, d);
            }
          }
        }
        in.k = rows(k, 8), in.v = rows(v, value_dim);
        in.block_table = dense<const Index>(table.data(), batch, blocks);
        std::vector<T> out(truth.out.size());
        std::vector<Compute<T>> lse(truth.lse.size());
        attention(in, bhtd(out.data(), batch, heads, queries, value_dim), dense(lse.data(), batch, heads, queries), {},
                  data.options());
        test::expect_close(out, truth.out, truth.score_size, k_len, "out");
        test::expect_close(lse, truth.lse, truth.score_size, k_len, "lse", 1);
      }
    }
  });
}

}  // namespace
}  // namespace bearing
