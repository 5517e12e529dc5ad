#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/targets.hpp"

// Tokens that turn together within the caches: those of a sequence, or one of each sequence.

namespace bearing {
namespace {

constexpr Index dim = 128;

template <class T>
std::vector<T> numbers(Index count) {
  std::vector<T> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(static_cast<float>(i % 1021) / 512 - 1);
  x[5] = x[70] = T(0.0f);  // in bfloat16 zeros and subnormal numbers are turned again
  x[400] = T(1e-39f), x[464] = T(-1e-39f);
  return x;
}

/// All tokens of x at once beside each token alone, whose head is a call's whole tensor.
template <class T>
void expect_bits_of_single_heads(const RopeTable<Compute<T>>& table, std::vector<T> memory,
                                 const std::vector<std::int64_t>& at, Index batch, Index time, Index heads,
                                 const std::array<Index, 4>& stride) {
  const std::vector<T> before = memory;
  const auto view = [&](std::vector<T>& from) { return View<T, 4>{from.data(), {batch, heads, time, dim}, stride}; };
  rotate(table, view(memory), Positions(View<const std::int64_t, 2>{at.data(), {batch, time}, {time, 1}}));
  std::vector<T> expected = before;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      for (Index h = 0; h < heads; ++h) {
        rotate(table, bhtd(&view(expected)(b, h, t, 0), 1, 1, 1, dim),
               Positions(at[static_cast<std::size_t>(b * time + t)]));
      }
    }
  }
  EXPECT_EQ(std::memcmp(memory.data(), expected.data(), memory.size() * sizeof(T)), 0)
      << batch << " sequences, " << time << " tokens, " << heads << " heads";
}

template <class T>
void expect_right_together(Pairing pairing) {
  const RopeTable<Compute<T>> table(Rope{.head_dim = dim, .pairing = pairing}, 100);
  constexpr Index heads = 3, line = heads * dim, tokens = 21;  // two blocks of eight and a rest
  std::vector<std::int64_t> at(tokens);
  for (Index i = 0; i < tokens; ++i) at[static_cast<std::size_t>(i)] = i * 37 % 130;  // some past the table's end
  test::on_every_target([&] {
    const auto x = numbers<T>(tokens * (line + dim));
    expect_bits_of_single_heads<T>(table, x, at, 1, tokens, heads, {tokens * line, dim, line, 1});
    expect_bits_of_single_heads<T>(table, x, at, 3, 7, heads, {7 * (line + dim), dim, line + dim, 1});
    expect_bits_of_single_heads<T>(table, x, at, tokens, 1, heads,
                                   {line + dim, dim, 7, 1});  // the one token's stride is none
    expect_bits_of_single_heads<T>(table, x, at, 3, 7, heads, {7 * line, 7 * dim, dim, 1});
  });
}

TEST(RotateTokens, ThatTurnTogetherHaveTheBitsOfOneAtATime) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    expect_right_together<float>(pairing);
    expect_right_together<double>(pairing);
    expect_right_together<Float16>(pairing);
    expect_right_together<Bfloat16>(pairing);
  }
}

}  // namespace
}  // namespace bearing
