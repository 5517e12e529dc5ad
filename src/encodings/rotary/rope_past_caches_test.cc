#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/targets.hpp"

// Results so large that they go past the caches, in another order and by other stores: rotations, and tables.

namespace bearing {
namespace {

/// A tensor on a cache line's border, and its rotation; of more than 32 MiB it goes past the caches.
template <class T>
class Large {
 public:
  Large(Index heads, bool heads_inside, Index bytes)
      : heads_(heads), heads_inside_(heads_inside), bytes_(bytes), in_(numbers()), out_(numbers()) {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = T(static_cast<float>(i % 1021) / 512 - 1);
  }
  void rotate_past_the_caches(const RopeTable<Compute<T>>& table) { rotate_to(table, read(), view(out_), {}); }
  void rotate_in_place(const RopeTable<Compute<T>>& table) {
    std::copy(aligned(in_), aligned(in_) + heads_ * time() * dim, aligned(out_));
    rotate(table, view(out_), {});
  }
  /// Whether out is what every token alone gives.
  bool is_right(const RopeTable<Compute<T>>& table) {
    const View<const T, 4> in = read(), out = view(out_);
    std::vector<T> one(static_cast<std::size_t>(heads_ * dim));
    for (Index t = 0; t < time(); ++t) {
      for (Index h = 0; h < heads_; ++h) {
        std::memcpy(one.data() + h * dim, &in(0, h, t, 0), dim * sizeof(T));
      }
      rotate(table, bhtd(one.data(), 1, heads_, 1, dim), Positions(t));
      for (Index h = 0; h < heads_; ++h) {
        if (std::memcmp(&out(0, h, t, 0), one.data() + h * dim, dim * sizeof(T)) != 0) return false;
      }
    }
    return true;
  }
  Index time() const { return bytes_ / (heads_ * dim * static_cast<Index>(sizeof(T))); }
  static constexpr Index dim = 128;

 private:
  std::size_t numbers() const { return static_cast<std::size_t>(heads_ * time() * dim) + 64 / sizeof(T); }
  T* aligned(std::vector<T>& from) const {
    const auto address = reinterpret_cast<std::uintptr_t>(from.data());
    return from.data() + (64 - address % 64) % 64 / sizeof(T);
  }
  View<T, 4> view(std::vector<T>& from) const {
    return heads_inside_ ? bthd(aligned(from), 1, time(), heads_, dim) : bhtd(aligned(from), 1, heads_, time(), dim);
  }
  View<const T, 4> read() { return view(in_); }

  Index heads_;
  bool heads_inside_;
  Index bytes_;
  std::vector<T> in_, out_;
};

template <class T>
void expect_right_past_the_caches(Index heads, bool heads_inside, Pairing pairing, Index rotary_dim = Large<T>::dim) {
  Large<T> large(heads, heads_inside, Index{33} << 20);
  const RopeTable<Compute<T>> table(Rope{.head_dim = Large<T>::dim, .rotary_dim = rotary_dim, .pairing = pairing},
                                    large.time());
  test::on_every_target([&] {
    large.rotate_past_the_caches(table);
    EXPECT_TRUE(large.is_right(table)) << heads << " heads, " << (heads_inside ? "inside" : "outside");
  });
}

// Quarters of 32 heads take turns; 42, 30 and 70 heads have none.
TEST(RotatePastTheCaches, TheBitsAreThoseOfSingleTokensOnEveryTarget) {
  expect_right_past_the_caches<float>(32, true, Pairing::half);
  expect_right_past_the_caches<float>(42, true, Pairing::interleaved);
  expect_right_past_the_caches<float>(30, false, Pairing::half);
  expect_right_past_the_caches<double>(32, true, Pairing::half);  // lines whose phases take all registers
  expect_right_past_the_caches<Bfloat16>(70, true, Pairing::half);
  expect_right_past_the_caches<Bfloat16>(32, true, Pairing::interleaved);
  expect_right_past_the_caches<Bfloat16>(30, false, Pairing::half);
  expect_right_past_the_caches<Float16>(5, true, Pairing::interleaved);  // several tokens in a block
  expect_right_past_the_caches<Float16>(40, true, Pairing::half);
  expect_right_past_the_caches<Float16>(30, false, Pairing::interleaved);
  expect_right_past_the_caches<Bfloat16>(8, true, Pairing::half, 64);  // lines that do not touch
}

template <class T>
void expect_right_in_place(Index bytes, Pairing pairing) {
  Large<T> large(32, true, bytes);
  const RopeTable<Compute<T>> table(Rope{.head_dim = Large<T>::dim, .pairing = pairing}, large.time());
  large.rotate_in_place(table);
  EXPECT_TRUE(large.is_right(table));
}

TEST(RotatePastTheCaches, QuartersTakeTurnsInPlaceToo) {
  expect_right_in_place<float>(Index{17} << 20, Pairing::half);
  expect_right_in_place<Float16>(Index{17} << 20, Pairing::interleaved);
  expect_right_in_place<double>(Index{17} << 20, Pairing::half);
  expect_right_in_place<double>(Index{17} << 20, Pairing::interleaved);
  expect_right_in_place<Bfloat16>(Index{97} << 20, Pairing::half);
}

/// cos and sin of 48 pairs in two arrays, whose rows have room for `stride`.
struct TwoArrays {
  static constexpr Index rows = 43'701, pairs = 48;
  Index stride;
  std::vector<float> memory = std::vector<float>(static_cast<std::size_t>(2 * rows * stride) + 32, -77);
  /// On a cache line's border, and some numbers behind the memory's start.
  float* first() {
    return memory.data() + (128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) / sizeof(float);
  }
  View<float, 2> cos() { return {first(), {rows, pairs}, {stride, 1}}; }
  View<float, 2> sin() { return {first() + rows * stride, {rows, pairs}, {stride, 1}}; }
};

// Rows of 64 begin on lines, those of 65 do not and go into the caches.
TEST(TablesPastTheCaches, TheBitsAreThoseOfTablesInThemAndNothingBesideIsWritten) {
  const RopeFrequencies frequencies = resolve(Rope{.head_dim = 2 * TwoArrays::pairs, .pairing = Pairing::half});
  test::on_every_target([&] {
    TwoArrays past{64}, into{65};
    fill(frequencies, Positions(5), past.cos(), past.sin());
    fill(frequencies, Positions(5), into.cos(), into.sin());
    const auto same = [](const View<float, 2>& a, const View<float, 2>& b) {
      for (Index row = 0; row < TwoArrays::rows; ++row) {
        if (std::memcmp(&a(row, 0), &b(row, 0), TwoArrays::pairs * sizeof(float)) != 0) return false;
      }
      return true;
    };
    EXPECT_TRUE(same(past.cos(), into.cos()));
    EXPECT_TRUE(same(past.sin(), into.sin()));
    for (const TwoArrays* one : {&past, &into}) {
      const auto untouched = std::count(one->memory.begin(), one->memory.end(), -77.0f);
      EXPECT_EQ(untouched, static_cast<Index>(one->memory.size()) - 2 * TwoArrays::rows * TwoArrays::pairs);
    }
  });
}

}  // namespace
}  // namespace bearing
