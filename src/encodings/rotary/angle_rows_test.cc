#include <bearing/encodings/angle_rows.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/angle_rows.hpp>

#include "support/errors.hpp"
#include "support/row_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::Params;
using test::RowCase;
using test::RowSpot;

struct Shared {
  GivenAngles spec;
  bool batch = false, heads = false;  ///< one set of angles for all of them
  AngleUse use = {};

  Index pairs() const { return spec.turned() / 2; }
  Params params(const RowCase& c) const {
    const bool queries = c.side == Side::query;
    return Params(Params::Shapes{{batch ? 1 : c.batch, heads ? 1 : c.heads / (queries ? use.group : 1),
                                  c.time + (queries ? *use.past : 0), pairs()}},
                  -20, 20);
  }
  auto make() const {
    return [*this]<class A>(Params& p) { return AngleRows<A>(spec, p.param<A, 4>(0), use); };
  }
  auto reference() const {
    return [*this](const Params& p, const RowSpot& s, View<const double, 1> x, View<double, 1> y) {
      const bool queries = s.side == Side::query;
      const View<const double, 4> angles = p.value<4>(0);
      const double* row =
          &angles(batch ? 0 : s.b, heads ? 0 : s.h / (queries ? use.group : 1), s.i + (queries ? *use.past : 0), 0);
      reference::angle_row(spec, {row, {pairs()}, {1}}, x, y);
    };
  }
};

/// A float gradient of an angle is two products of a pair with its gradient, each rounded some four times, added up
/// over the sequences and heads that share the angle: 2^-20 of the sum of their sizes, which are below 2.
void expect_float_gradients(const Shared& shared, const RowCase& c) {
  Params params = shared.params(c);
  const test::RowData data = test::row_data(shared.make(), params, c);
  const std::vector<double> d_x = test::backward_of<double>(shared.make(), params, c, data);
  const std::vector<double> grads = params.grads(0);
  const std::vector<float> d_x32 = test::backward_of<float>(shared.make(), params, c, data);
  for (std::size_t x = 0; x < d_x.size(); ++x) ASSERT_NEAR(static_cast<double>(d_x32[x]), d_x[x], 0x1p-21);
  for (std::size_t x = 0; x < grads.size(); ++x) {
    ASSERT_NEAR(static_cast<double>(params.float_grads(0)[x]), grads[x],
                0x1p-19 * static_cast<double>(c.batch * c.heads));
  }
}

void expect_all(const Shared& shared, Index heads) {
  for (const RowCase& c : test::row_cases(heads, shared.spec.head_dim, 1, {test::Place::shuffled})) {
    if (c.side == Side::key && c.time < *shared.use.past) continue;  // a cache is of keys that there are
    Params params = shared.params(c);
    test::expect_reference_rows(shared.make(), params, {c}, shared.reference());
    test::expect_row_gradients(shared.make(), params, {c}, shared.reference());
    test::expect_transpose(shared.make(), params, {c});
    test::expect_same_row_bits(shared.make(), params, {c});
    expect_float_gradients(shared, c);
  }
}

TEST(AngleRows, AgreesWithItsReference) {
  for (const Pairing pairing : {Pairing::interleaved, Pairing::half}) {
    expect_all({{.head_dim = 6, .pairing = pairing}}, 2);
    expect_all({{.head_dim = 2, .pairing = pairing}, true, true}, 3);
    expect_all({{.head_dim = 9, .rotary_dim = 4, .pairing = pairing}, false, true}, 2);
    expect_all({{.head_dim = 7, .rotary_dim = 4, .pairing = pairing, .part = RotaryPart::last()}, true, false}, 2);
    expect_all({{.head_dim = 7, .rotary_dim = 2, .pairing = pairing, .part = RotaryPart::window(3)}}, 1);
  }
}

TEST(AngleRows, QueriesAfterACacheAndInGroupsHaveTheAnglesOfTheirTokensAndKeyHeads) {
  const GivenAngles spec{.head_dim = 6, .pairing = Pairing::half};
  expect_all({spec, false, false, {.group = 1, .past = 5}}, 2);
  expect_all({spec, true, true, {.group = 4, .past = 1}}, 4);
  expect_all({spec, false, false, {.group = 3, .past = 2}}, 6);
}

TEST(AngleRows, InACacheThatIsNotFullRowsTurnByTheAnglesOfTheTokensAtTheirPositions) {
  const Index room = 12, heads = 4, dim = 4, time = 3;
  const GivenAngles spec{.head_dim = dim, .pairing = Pairing::half};
  const std::vector<Index> positions{7, 2, 7, 0, 11, 4};  // in any order, of two sequences
  Params params(Params::Shapes{{2, 2, room, 2}}, -20, 20);
  const View<const double, 4> angles = params.value<4>(0);
  for (const Side side : {Side::query, Side::key}) {
    const Index group = side == Side::query ? 2 : 1, rows_heads = side == Side::query ? heads : 2;
    const AngleRows<double> all(spec, params.param<double, 4>(0), {.group = 2, .past = std::nullopt});
    Params picked(Params::Shapes{{2, rows_heads, time, 2}}, -20, 20);
    for (Index b = 0; b < 2; ++b) {
      for (Index h = 0; h < rows_heads; ++h) {
        for (Index t = 0; t < time; ++t) {
          for (Index i = 0; i < 2; ++i) {
            picked.values(0)[static_cast<std::size_t>(((b * rows_heads + h) * time + t) * 2 + i)] =
                angles(b, h / group, positions[static_cast<std::size_t>(b * time + t)], i);
          }
        }
      }
    }
    const AngleRows<double> some(spec, picked.param<double, 4>(0));
    test::Random random(7);
    std::vector<double> x(static_cast<std::size_t>(2 * rows_heads * time * dim)), d_y = x, y = x, wanted = x, d_x = x,
                                                                                  d_wanted = x;
    for (double& one : x) one = random.uniform(-1, 1);
    for (double& one : d_y) one = random.uniform(-1, 1);
    const auto view = [&](auto& of) { return bhtd(of.data(), 2, rows_heads, time, dim); };
    const Positions at(dense(positions.data(), 2, time));
    turn<double>(all, side, at, view(std::as_const(x)), view(y));
    turn<double>(some, side, {}, view(std::as_const(x)), view(wanted));
    EXPECT_EQ(y, wanted);
    turn_backward<double>(all, side, at, view(std::as_const(x)), view(std::as_const(d_y)), view(d_x));
    turn_backward<double>(some, side, {}, view(std::as_const(x)), view(std::as_const(d_y)), view(d_wanted));
    EXPECT_EQ(d_x, d_wanted);
    std::vector<double> sums(params.grads(0).size());
    for (std::size_t n = 0; n < picked.grads(0).size(); ++n) {
      const auto i = static_cast<Index>(n);
      const Index b = i / 2 / time / rows_heads, h = i / 2 / time % rows_heads / group;
      const Index t = positions[static_cast<std::size_t>(b * time + i / 2 % time)];
      sums[static_cast<std::size_t>(((b * 2 + h) * room + t) * 2 + i % 2)] += picked.grads(0)[n];
    }
    for (std::size_t n = 0; n < sums.size(); ++n) ASSERT_NEAR(params.grads(0)[n], sums[n], 0x1p-48) << n;
    params.clear_grads();
  }
}

TEST(AngleRows, PositionsThatNameNoTokenAreRefused) {
  std::vector<double> a(5 * 2), x(2 * 4, 7.0);
  const AngleRows<double> rows({.head_dim = 4, .pairing = Pairing::half}, {dense(a.data(), 1, 1, 5, 2)},
                               {.past = std::nullopt});
  const auto call = [&](const Positions& at) {
    return [&rows, &x, at] {
      turn<double>(rows, Side::query, at, bhtd<const double>(x.data(), 1, 1, 2, 4), bhtd(x.data(), 1, 1, 2, 4));
    };
  };
  const std::string must =
      "[turn] positions: must be from 0 to 4, tokens that there are angles of, where past is None, got ";
  expect_error<RangeError>(call(4), must + "5 for token 1 of sequence 0");
  expect_error<RangeError>(call(-1), must + "-1 for token 0 of sequence 0");
  const std::vector<double> real{2, 3.5};
  expect_error<RangeError>(call(dense(real.data(), 2)), must + "3.5 for token 1 of sequence 0");
  EXPECT_EQ(x, std::vector<double>(x.size(), 7.0));
}

TEST(AngleRows, WithPositionsTimesFrequenciesIsRope) {
  const Rope rope{.head_dim = 12, .rotary_dim = 8, .pairing = Pairing::half, .part = RotaryPart::last()};
  const std::vector<double> theta = resolve(rope).inv_freq;
  std::vector<double> angles;
  for (Index p = 40; p < 49; ++p) {
    for (const double f : theta) angles.push_back(static_cast<double>(p) * f);
  }
  const AngleRows<double> rows({.head_dim = 12, .rotary_dim = 8, .pairing = Pairing::half, .part = RotaryPart::last()},
                               {dense(angles.data(), 1, 1, 9, 4)});
  const RopeTable<double> table(rope, 0);
  const test::RowData data({.batch = 2, .heads = 3, .time = 9, .dim = 12, .first = 40}, 12);
  std::vector<double> given, rotated;
  turn<double>(rows, Side::query, data.at(), data.x<double>(), data.like_x(given));
  rotate_to<double>(table, data.x<double>(), data.like_x(rotated), data.at());
  // p·θ as a double is off by half an ulp of 48: 2^-48.
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(given[i], rotated[i], 0x1p-47);
}

TEST(AngleRows, LargeAnglesAreTakenAsTheyAreGiven) {
  // cos and sin as 300 bits give them.
  const std::vector<float> angles{0x1p100F, -3e7F};
  const std::vector<float> x{1, 0, 1, 0};
  std::vector<float> y(4);
  const AngleRows<float> rows({.head_dim = 4, .pairing = Pairing::interleaved}, {dense(angles.data(), 1, 1, 1, 2)});
  turn<float>(rows, Side::query, {}, bhtd(x.data(), 1, 1, 1, 4), bhtd(y.data(), 1, 1, 1, 4));
  const std::vector<float> truth{0.48917865697472144991F, -0.87218360541826730978F, -0.26542940431306635944F,
                                 -0.9641302978985831817F};
  EXPECT_EQ(y, truth);
}

TEST(AngleRows, WrongCallsSayWhatMustHold) {
  std::vector<double> a(2 * 3 * 5 * 2), x(5 * 6 * 4 * 2, 7.0);
  const GivenAngles spec{.head_dim = 4, .pairing = Pairing::half};
  const auto angles = dense(a.data(), 2, 3, 5, 2);
  expect_error<ShapeError>([&] { AngleRows<double>({.head_dim = 1, .pairing = Pairing::half}, {angles}); },
                           "[AngleRows] head_dim: must be from 2 to 65536, got 1");
  expect_error<ShapeError>(
      [&] { AngleRows<double>({.head_dim = 4, .rotary_dim = 3, .pairing = Pairing::half}, {angles}); },
      "[AngleRows] rotary_dim: must be even and from 2 to head_dim = 4, got 3");
  expect_error<ShapeError>([&] { AngleRows<double>(spec, {dense(a.data(), 2, 3, 4, 3)}); },
                           "[AngleRows] angles: must be [batch or 1, heads or 1, time, rotary_dim/2] = [2, 3, 4, 2], "
                           "got shape [2, 3, 4, 3]");
  expect_error<ShapeError>(
      [&] {
        AngleRows<double>(spec, {angles, dense(a.data(), 2, 3, 4, 2)});
      },
      "[AngleRows] angles.grad: must have the shape of its parameter, [2, 3, 5, 2], got "
      "[2, 3, 4, 2]");
  expect_error<ShapeError>([&] { AngleRows<double>(spec, {angles}, {.group = 0}); },
                           "[AngleRows] group: must be at least 1, got 0");
  expect_error<ShapeError>([&] { AngleRows<double>(spec, {angles}, {.past = 6}); },
                           "[AngleRows] past: must be from 0 to the angles' time of 5, got 6");
  const AngleRows<double> rows(spec, {angles}, {.group = 2, .past = 1});
  const auto call = [&](Side side, Index batch, Index heads, Index time, Index dim = 4) {
    turn<double>(rows, side, {}, bhtd<const double>(x.data(), batch, heads, time, dim),
                 bhtd(x.data(), batch, heads, time, dim));
  };
  const std::string must = "[turn] GivenAngles.angles: must be [batch or 1, heads or 1, time, pairs] for ";
  expect_error<ShapeError>([&] { call(Side::query, 1, 6, 4); },
                           must + "1 sequences, 6 heads in groups of 2 and 1 + 4 tokens, got shape [2, 3, 5, 2]");
  expect_error<ShapeError>([&] { call(Side::query, 2, 3, 4); },
                           must + "2 sequences, 3 heads in groups of 2 and 1 + 4 tokens, got shape [2, 3, 5, 2]");
  expect_error<ShapeError>([&] { call(Side::query, 2, 6, 5); },
                           must + "2 sequences, 6 heads in groups of 2 and 1 + 5 tokens, got shape [2, 3, 5, 2]");
  expect_error<ShapeError>([&] { call(Side::key, 2, 6, 5); },
                           must + "2 sequences, 6 heads in groups of 1 and 0 + 5 tokens, got shape [2, 3, 5, 2]");
  expect_error<ShapeError>(
      [&] { call(Side::key, 2, 3, 4); },
      must +
          "2 sequences, 3 heads in groups of 1 and 0 + 4 tokens, got shape [2, 3, 5, 2]; for a cache that "
          "is longer than what is filled, past None takes tokens by their positions");
  expect_error<ShapeError>([&] { call(Side::key, 2, 3, 5, 2); },
                           "[turn] GivenAngles.head_dim: must be the last extent of the rows, 2, got 4");
  EXPECT_EQ(x, std::vector<double>(x.size(), 7.0));
}

}  // namespace
}  // namespace bearing
