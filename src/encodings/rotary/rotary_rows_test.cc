#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>
#include <bearing/reference.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowCase;
using test::RowSpot;

std::vector<Rope> ropes() {
  return {{.head_dim = 8, .pairing = Pairing::half},
          {.head_dim = 6, .pairing = Pairing::interleaved},
          {.head_dim = 10, .rotary_dim = 4, .pairing = Pairing::half, .part = RotaryPart::last()},
          {.head_dim = 64, .pairing = Pairing::half, .scaling = YarnScaling{.factor = 4, .trained_length = 128}},
          {.head_dim = 16, .pairing = Pairing::half, .axes = RopeAxes::sections({2, 3, 3})},
          {.head_dim = 16, .pairing = Pairing::half, .axes = RopeAxes::blocks({3, 5})}};
}

TEST(RotaryRows, AgreeWithTheReferenceOfRope) {
  for (const Rope& rope : ropes()) {
    const RopeFrequencies frequencies = resolve(rope);
    const RopeTable<double> f64(frequencies, 50);
    const RopeTable<float> f32(frequencies, 50, TableMemory::compact);
    Params params(Params::Shapes{});
    const auto make = [&]<class A>(Params&) {
      if constexpr (std::is_same_v<A, double>) return RotaryRows<A>(f64);
      if constexpr (std::is_same_v<A, float>) return RotaryRows<A>(f32);
    };
    const auto reference = [&](const Params&, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      reference::rotate_elementwise(frequencies, {s.p, {frequencies.axes}, {1}}, x, y);
    };
    test::expect_row_encoding(make, params, test::row_cases(2, rope.head_dim, frequencies.axes), reference);
  }
}

// The contract is only another door: turn() and rotate() give the same bits, forward and backward, on every target.
template <class T>
void expect_bits_of_rotate(const Rope& rope, const RowCase& c, TableMemory memory) {
  const RopeTable<Compute<T>> table(rope, 40, {.memory = memory});
  const RotaryRows<Compute<T>> rows(table);
  const test::RowData data(c, c.dim);
  std::vector<T> x, by_turn, by_rotate;
  const View<const T, 4> in = data.like_x(x);  // const: two views to write would be q and k
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(static_cast<float>(data.weight_values()[i]));
  test::on_every_target([&] {
    turn<T>(rows, c.side, data.at(), in, data.like_x(by_turn));
    rotate_to<T>(table, in, data.like_x(by_rotate), data.at());
    ASSERT_EQ(std::memcmp(by_turn.data(), by_rotate.data(), x.size() * sizeof(T)), 0);
    if constexpr (std::is_same_v<T, Compute<T>>) {
      turn_backward<T>(rows, c.side, data.at(), in, in, data.like_x(by_turn));
      rotate_backward_to<T>(table, in, data.like_x(by_rotate), data.at());
      ASSERT_EQ(std::memcmp(by_turn.data(), by_rotate.data(), x.size() * sizeof(T)), 0);
    }
  });
}

TEST(RotaryRows, HaveTheBitsOfRotate) {
  std::vector<Rope> all = ropes();
  all.push_back({.head_dim = 86, .pairing = Pairing::interleaved});  // 43 pairs: vectors of every width
  for (const Rope& rope : all) {
    for (const RowCase& c : test::row_cases(2, rope.head_dim, resolve(rope).axes)) {
      if (c.time == 0) continue;
      for (const TableMemory memory : {TableMemory::full, TableMemory::compact}) {
        expect_bits_of_rotate<double>(rope, c, memory);
        expect_bits_of_rotate<float>(rope, c, memory);
        expect_bits_of_rotate<Bfloat16>(rope, c, memory);
      }
    }
  }
}

TEST(RotaryRows, XposTurnsQueriesAndKeysByTheirOwnTables) {
  const Xpos xpos{.rope = {.head_dim = 8, .pairing = Pairing::interleaved}, .centre = 20};
  const XposTable<double> f64(xpos, 50);
  const XposTable<float> f32(xpos, 50);
  Params params(Params::Shapes{});
  const auto make = [&]<class A>(Params&) {
    if constexpr (std::is_same_v<A, double>) return XposRows<A>(f64);
    if constexpr (std::is_same_v<A, float>) return XposRows<A>(f32);
  };
  const auto reference = [&](const Params&, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
    reference::rotate_xpos(xpos, s.side == Side::query ? 1 : -1, {s.p, {1}, {1}}, x, y);
  };
  test::expect_row_encoding(make, params, test::row_cases(1, 8, 1, {test::Place::shuffled}), reference);
  // Factors stay below 3.5^(50/512) = 1.13, for eight products of numbers below 1.
  EXPECT_LT(test::shift_dependence(XposRows<double>(f64), 8, 1), 0x1p-46);
}

TEST(RotaryRows, RopeKeepsNormsAndDependsOnDistanceAlone) {
  const RopeTable<double> table(Rope{.head_dim = 16, .pairing = Pairing::half}, 64);
  const RotaryRows<double> rows(table);
  // Sixteen products of numbers below 1, cos and sin good to 2 ulp.
  EXPECT_LT(test::norm_change(rows, 16, 1), 0x1p-48);
  EXPECT_LT(test::shift_dependence(rows, 16, 1), 0x1p-46);
}

TEST(RotaryRows, WrongCallsSayWhatMustHold) {
  const RopeTable<float> table(Rope{.head_dim = 4, .pairing = Pairing::half}, 8);
  const RotaryRows<float> rows(table);
  std::vector<float> x(6, 7.0f);
  const auto call = [&](const RotaryRows<float>& encoding, Index dim, const Positions& at) {
    turn<float>(encoding, Side::key, at, bhtd<const float>(x.data(), 1, 1, 1, dim), bhtd(x.data(), 1, 1, 1, dim));
  };
  expect_error<ShapeError>([&] { call(rows, 6, {}); },
                           "[turn] RotaryRows.head_dim: must be the last extent of the rows, 6, got 4");
  const std::vector<float> cos{1, 1}, sin{0, 0};
  const auto given = RopeTable<float>::from_cos_sin({.head_dim = 4, .pairing = Pairing::half}, dense(cos.data(), 1, 2),
                                                    dense(sin.data(), 1, 2));
  EXPECT_THROW(call(RotaryRows<float>(given), 4, Positions(1)), RangeError);
  const std::vector<double> two{1, 2};
  EXPECT_THROW(call(rows, 4, Positions(dense(two.data(), 2, 1, 1))), ShapeError);
  EXPECT_EQ(x, std::vector<float>(6, 7.0f));
}

}  // namespace
}  // namespace bearing
