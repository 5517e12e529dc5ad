#include <bearing/encodings/elementwise_rope.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/elementwise_rope.hpp>

#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowCase;
using test::RowSpot;

Rope rope(Index head_dim, Pairing pairing = Pairing::half) { return {.head_dim = head_dim, .pairing = pairing}; }

Rope part_of_head() {
  Rope some = rope(9, Pairing::interleaved);
  some.rotary_dim = 4, some.part = RotaryPart::window(2), some.attention_factor = 1.25;
  return some;
}

struct Case {
  ElementwiseRope spec;
  Index axes;
};
std::vector<Case> cases() {
  return {{ElementwiseRope::hunyuan(rope(8), {1, 1, 1, 1}), 4},
          {ElementwiseRope::hunyuan(rope(22), {2, 5, 4}), 3},
          {ElementwiseRope::vjepa2(20), 3},
          {ElementwiseRope::vjepa2(6), 3},
          {ElementwiseRope::vjepa2(35), 3},
          {{.rope = part_of_head(), .joined = Pairing::half}, 1},
          {{.rope = part_of_head(), .joined = Pairing::interleaved, .sections = {3, 1}}, 2},
          {{.rope = rope(6), .joined = Pairing::half}, 1}};
}

TEST(ElementwiseRope, AgreesWithItsReference) {
  for (const auto& [spec, axes] : cases()) {
    const auto make = [&spec = spec]<class A>(Params&) { return ElementwiseRows<A>(spec); };
    const RopeFrequencies rope = resolve(spec.rope);
    const auto reference = [&spec = spec, &rope](const Params&, const RowSpot& s, View<const double, 1> x,
                                                 View<double, 1> y) {
      reference::elementwise_row(spec, rope, s.p, x, y);
    };
    Params none(Params::Shapes{});
    const auto rows = test::row_cases(2, spec.rope.head_dim, axes);
    test::expect_reference_rows(make, none, rows, reference);
    test::expect_row_gradients(make, none, rows, reference);
    test::expect_float_row_gradients(make, none, rows);
    test::expect_transpose(make, none, rows);
    test::expect_same_row_bits(make, none, rows);
  }
}

/// Rows and gradients of a model's own function, in float64: frequencies are rounded to 2^-53, which positions below
/// 2^4 and numbers below 2^3 make 2^-46.
void expect_golden(const ElementwiseRope& spec, const rapidjson::Document& golden) {
  const test::GoldenTensor at = test::tensor(golden["positions"]), x = test::tensor(golden["x"]),
                           y = test::tensor(golden["y"]), d_y = test::tensor(golden["d_y"]),
                           d_x = test::tensor(golden["d_x"]);
  const auto rows = [&](auto& numbers) { return bhtd(numbers.data(), x.shape[0], x.shape[1], x.shape[2], x.shape[3]); };
  const Positions positions(dense<const double>(at.data.data(), at.shape[0], at.shape[1], at.shape[2]));
  const ElementwiseRows<double> encoding(spec);
  std::vector<double> own(y.data.size()), own_d(y.data.size());
  turn<double>(encoding, Side::query, positions, rows(x.data), rows(own));
  turn_backward<double>(encoding, Side::query, positions, rows(x.data), rows(d_y.data), rows(own_d));
  for (std::size_t i = 0; i < own.size(); ++i) {
    ASSERT_NEAR(own[i], y.data[i], 0x1p-46) << i;
    ASSERT_NEAR(own_d[i], d_x.data[i], 0x1p-46) << i;
  }
}

TEST(ElementwiseRope, RowsAndGradientsAreThoseOfTheModelsCode) {
  expect_golden(ElementwiseRope::vjepa2(20), test::golden("two_angles/vjepa2.json"));
  const rapidjson::Document hunyuan = test::golden("two_angles/hunyuan_vl.json");
  expect_golden(ElementwiseRope::hunyuan(rope(16), test::integers(hunyuan["sections"])), hunyuan);
}

std::vector<double> turned(const ElementwiseRope& spec, const std::vector<double>& x, std::vector<double> position) {
  std::vector<double> y(x.size());
  const auto dim = static_cast<Index>(x.size());
  turn<double>(ElementwiseRows<double>(spec), Side::query,
               Positions(dense<const double>(position.data(), std::ssize(position), 1, 1)),
               bhtd<const double>(x.data(), 1, 1, 1, dim), bhtd(y.data(), 1, 1, 1, dim));
  return y;
}

TEST(ElementwiseRope, EachMemberTurnsByItsOwnAxis) {
  // Two axes with two elements each: u of both pairs turns by the first, v by the second. At (1, 0) v stays as it is.
  const std::vector<double> y = turned(ElementwiseRope::hunyuan(rope(4), {1, 1}), {1, 2, 3, 4}, {1, 0});
  EXPECT_NEAR(y[0], std::cos(1.0) - 3 * std::sin(1.0), 0x1p-50);
  EXPECT_NEAR(y[1], 2 * std::cos(0.01) - 4 * std::sin(0.01), 0x1p-50);
  EXPECT_EQ(y[2], 3);
  EXPECT_EQ(y[3], 4);
}

TEST(ElementwiseRope, VJepasNeighboursHaveTwoFrequencies) {
  // Blocks of 4: θ is 1, 0.01, 1, 0.01 there, and pairs are (0, 1) and (2, 3).
  const std::vector<double> y =
      turned(ElementwiseRope::vjepa2(14), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, {0, 2, 0});
  for (const std::size_t still : {0u, 1u, 2u, 3u, 8u, 9u, 10u, 11u, 12u, 13u}) {
    EXPECT_EQ(y[still], static_cast<double>(still + 1));
  }
  EXPECT_NEAR(y[4], 5 * std::cos(2.0) - 6 * std::sin(2.0), 0x1p-48);
  EXPECT_NEAR(y[5], 6 * std::cos(0.02) + 5 * std::sin(0.02), 0x1p-48);
  EXPECT_NEAR(y[6], 7 * std::cos(2.0) - 8 * std::sin(2.0), 0x1p-48);
  EXPECT_NEAR(y[7], 8 * std::cos(0.02) + 7 * std::sin(0.02), 0x1p-48);
}

TEST(ElementwiseRope, WithOneAngleForAPairItIsRope) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const ElementwiseRope spec{.rope = rope(10, pairing), .joined = pairing};
    const MemberFrequencies members = member_frequencies(spec);
    EXPECT_EQ(members.first.quarter_turns, members.second.quarter_turns);
    const RopeTable<double> table(spec.rope, 64);
    const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    std::vector<double> by_rope(10);
    turn<double>(RotaryRows<double>(table), Side::query, Positions(50), bhtd<const double>(x.data(), 1, 1, 1, 10),
                 bhtd(by_rope.data(), 1, 1, 1, 10));
    const std::vector<double> y = turned(spec, x, {50});
    for (std::size_t d = 0; d < 10; ++d) EXPECT_NEAR(y[d], by_rope[d], 0x1p-48);
  }
}

TEST(ElementwiseRope, LengthsChange) {
  const std::vector<double> y = turned(ElementwiseRope::hunyuan(rope(4), {1, 1}), {1, 0, 1, 0}, {1, 0});
  EXPECT_LT(y[0] * y[0] + y[2] * y[2], 1.5);
}

TEST(ElementwiseRope, WrongCallsSayWhatMustHold) {
  const auto with_sections = [](std::vector<Index> sections) {
    return ElementwiseRope{.rope = rope(8), .joined = Pairing::half, .sections = std::move(sections)};
  };
  for (const std::vector<Index>& sections : {std::vector<Index>{4, 2}, {4, 5}, {9, -1}, {0, 8}, {8, 8}, {8, 1}}) {
    EXPECT_THROW(member_frequencies(with_sections(sections)), ShapeError);
  }
  expect_error<ShapeError>(
      [&] {
        member_frequencies(with_sections({4, 2}));
      },
      "[ElementwiseRope] sections: must be above 0 and add up to 8, got [4, 2]");
  expect_error<ShapeError>(
      [&] {
        member_frequencies(with_sections({1, 1, 2, 2, 2}));
      },
      "[ElementwiseRope] sections: must be of at most four axes, got [1, 1, 2, 2, 2]");
  ElementwiseRope both = with_sections({4, 4});
  both.rope.axes = RopeAxes::sections({2, 2});
  expect_error<ShapeError>([&] { member_frequencies(both); },
                           "[ElementwiseRope] sections: must be left out beside rope.axes, got [4, 4]");
  expect_error<ShapeError>([] { ElementwiseRope::vjepa2(5); },
                           "[ElementwiseRope] head_dim: must be from 6 to 65536, got 5");
  std::vector<double> x(2 * 6, 7.0);
  const ElementwiseRows<double> rows(with_sections({4, 4}));
  expect_error<ShapeError>(
      [&] {
        turn<double>(rows, Side::query, {}, bhtd<const double>(x.data(), 1, 1, 2, 6), bhtd(x.data(), 1, 1, 2, 6));
      },
      "[turn] ElementwiseRope.head_dim: must be the last extent of the rows, 6, got 8");
  EXPECT_EQ(x, std::vector<double>(12, 7.0));
}

// Text stands at one position on all axes where frequencies run on over the head; patches of V-JEPA 2 do not.
TEST(ElementwiseRope, OnlyTextHasOnePositionForAllAxes) {
  std::vector<double> x(2 * 8, 1.0), y(2 * 8, 7.0);
  const auto turned = [&](const ElementwiseRope& spec, const Positions& at) {
    turn<double>(ElementwiseRows<double>(spec), Side::query, at, bhtd<const double>(x.data(), 1, 1, 2, 8),
                 bhtd(y.data(), 1, 1, 2, 8));
  };
  expect_error<ShapeError>([&] { turned(ElementwiseRope::vjepa2(8), {}); },
                           "[turn] positions: must have 3 axes, as ElementwiseRope has, got 1");
  EXPECT_EQ(y, std::vector<double>(16, 7.0));
  ElementwiseRope text{
      .rope = {.head_dim = 8, .base = 100, .pairing = Pairing::half}, .joined = Pairing::half, .sections = {4, 4}};
  EXPECT_NO_THROW(turned(text, {}));
  const std::vector<double> patches(6, 1.0);
  EXPECT_NO_THROW(turned(ElementwiseRope::vjepa2(8), Positions(dense(patches.data(), 3, 1, 2))));
}

}  // namespace
}  // namespace bearing
