#include <gtest/gtest.h>
#include <bearing/encodings/cape.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <utility>

#include "support/attention_encodings.hpp"
#include "support/errors.hpp"

// What was moved from is refused, or serves as before; it never reads memory that is not there.

namespace bearing {
namespace {

using test::AttentionCase;

/// What a call of attention gives with one encoding; empty where it is refused.
template <class A>
std::vector<A> out_of(const Term<A>& term, const AttentionCase& c, bool& refused) {
  test::Random random(c.seed);
  std::vector<A> q(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.dim));
  std::vector<A> k(static_cast<std::size_t>(c.batch * c.kv_heads * c.k_len * c.dim)), out(q.size());
  for (std::vector<A>* numbers : {&q, &k}) {
    for (A& x : *numbers) x = static_cast<A>(random.uniform(-1, 1));
  }
  std::vector<Index> q_at, k_at;
  for (Index t = 0; t < c.q_len; ++t)
    q_at.push_back(c.height > 0 ? t % std::min(c.height, c.width) : t + c.k_len - c.q_len);
  for (Index t = 0; t < c.k_len; ++t) k_at.push_back(c.height > 0 ? t % std::min(c.height, c.width) : t);
  const auto all = [&](const std::vector<Index>& at) {
    return View<const Index, 3>{at.data(), {c.axes, c.batch, static_cast<Index>(at.size())}, {0, 0, 1}};
  };
  const AttentionInputs<A> in{bhtd<const A>(q.data(), c.batch, c.heads, c.q_len, c.dim),
                              bhtd<const A>(k.data(), c.batch, c.kv_heads, c.k_len, c.dim),
                              bhtd<const A>(k.data(), c.batch, c.kv_heads, c.k_len, c.dim),
                              c.axes > 1 ? Positions(all(q_at)) : Positions(dense<const Index>(q_at.data(), c.q_len)),
                              c.axes > 1 ? Positions(all(k_at)) : Positions(dense<const Index>(k_at.data(), c.k_len))};
  TermList<A> terms;
  terms.terms[0] = term;
  terms.size = 1;
  refused = false;
  try {
    attention<A>(in, bhtd(out.data(), c.batch, c.heads, c.q_len, c.dim), {}, terms, {.mask = Mask::none});
  } catch (const ShapeError& error) {
    refused = true;
    EXPECT_NE(std::string(error.what()).find("[attention] "), std::string::npos) << error.what();
  }
  return out;
}

/// `moved`: the term that was moved from, `here`: the one it was moved to.
template <class A>
void expect_refused_or_right(const Term<A>& moved, const Term<A>& here, const AttentionCase& c,
                             const std::vector<A>& before) {
  bool refused = false;
  const std::vector<A> gone = out_of(moved, c, refused);
  if (!refused) {
    EXPECT_EQ(gone, before);
  }
  EXPECT_EQ(out_of(here, c, refused), before);
  EXPECT_FALSE(refused);
}

template <class A>
void expect_described() {
  const test::NamedEncodings encodings;
  for (const test::DescribedEncoding& encoding : test::described_terms()) {
    SCOPED_TRACE(encoding.name);
    const AttentionCase c = test::encoding_cases(encodings.find(encoding.name)).front();
    test::Params params = encoding.params(test::sizes_of(c));
    const Made<A> made = encoding.make<A>(params, test::sizes_of(c));
    bool refused = false;
    const std::vector<A> before = out_of(*made.term, c, refused);
    EXPECT_FALSE(refused);
    const Made<A> moved = made.move(made);
    expect_refused_or_right(*made.term, *moved.term, c, before);
  }
}

TEST(MovedFrom, EncodingsOfAttentionAreRefusedOrRight) {
  expect_described<float>();
  expect_described<double>();
}

/// Rows that refer to a table of the caller's.
template <class A, class Rows>
void expect_rows(Rows rows) {
  const AttentionCase c = test::encoding_cases(test::NamedEncodings().find("rope")).front();
  bool refused = false;
  const std::vector<A> before = out_of(erase<A>(rows), c, refused);
  const Rows here = std::move(rows);
  expect_refused_or_right(erase<A>(rows), erase<A>(here), c, before);
}

TEST(MovedFrom, RotationsByTablesAreRefusedOrRight) {
  const Rope rope{.head_dim = 8, .pairing = Pairing::half};
  const RopeTable<float> floats(rope, 64);
  const RopeTable<double> doubles(rope, 64);
  const XposTable<float> xpos_floats({.rope = rope}, 64);
  const XposTable<double> xpos_doubles({.rope = rope}, 64);
  expect_rows<float>(RotaryRows<float>(floats));
  expect_rows<double>(RotaryRows<double>(doubles));
  expect_rows<float>(XposRows<float>(xpos_floats));
  expect_rows<double>(XposRows<double>(xpos_doubles));
}

TEST(MovedFrom, EncodingsOfTheInputAreRefusedOrRight) {
  std::vector<double> table(6 * 8, 0.5);
  const auto expect = [&](auto encoding, Index axes) {
    std::vector<double> moved(2 * 3 * 8), here(moved.size());
    const std::vector<double> at(static_cast<std::size_t>(axes * 2 * 3), 1);
    const Positions positions = dense(at.data(), axes, 2, 3);
    const auto kept = std::move(encoding);
    fill(kept, positions, dense(here.data(), 2, 3, 8));
    try {
      fill(encoding, positions, dense(moved.data(), 2, 3, 8));
      EXPECT_EQ(moved, here);
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find("[fill] "), std::string::npos) << error.what();
    }
  };
  expect(LearnedInputs<double>({.length = 6, .dim = 8}, {dense<const double>(table.data(), 6, 8)}), 1);
  expect(SinusoidalInputs<double>({.dim = 8, .layout = SinusoidalLayout::interleaved}), 1);
  expect(Sinusoidal2dInputs<double>(Sinusoidal2d::mae(8)), 2);
  expect(CapeInputs<double>({.dim = 8}), 1);
  expect(Cape2dInputs<double>({.dim = 8}), 2);
}

TEST(MovedFrom, TablesAreRefusedByName) {
  const Rope rope{.head_dim = 8, .pairing = Pairing::half};
  RopeTable<float> table(rope, 4);
  const RopeTable<float> kept = std::move(table);
  std::vector<float> x(8, 1), y(8, 2);
  const auto one = [](std::vector<float>& of) { return bhtd(of.data(), 1, 1, 1, 8); };
  const auto refused = [](const char* function) {
    return "[" + std::string(function) + "] table: must have its numbers, got an object that was moved from";
  };
  using test::expect_error;
  expect_error<ShapeError>([&] { rotate(table, one(x), {}); }, refused("rotate"));
  expect_error<ShapeError>([&] { rotate(table, one(x), one(y), {}); }, refused("rotate"));
  expect_error<ShapeError>([&] { rotate_to<float>(table, one(x), one(y), {}); }, refused("rotate_to"));
  expect_error<ShapeError>([&] { rotate_backward(table, one(x), {}); }, refused("rotate_backward"));
  expect_error<ShapeError>([&] { rotate_backward_to<float>(table, one(x), one(y), {}); },
                           refused("rotate_backward_to"));
  expect_error<ShapeError>([&] { table.bytes(); }, refused("RopeTable"));
  expect_error<ShapeError>([&] { table.cos(); }, refused("RopeTable"));
  expect_error<ShapeError>([&] { RopeTable<float> copy(table); }, refused("RopeTable"));
  const RotaryRows<float> rows(table);
  expect_error<ShapeError>([&] { turn<float>(rows, Side::key, {}, one(x), one(y)); }, refused("turn"));
  const View<const float, 4> q = one(x);
  expect_error<ShapeError>(
      [&] {
        attention<float>({q, q, q}, one(y), {}, with(rows), {.mask = Mask::none});
      },
      refused("attention"));
  EXPECT_EQ(x, std::vector<float>(8, 1));
  EXPECT_EQ(y, std::vector<float>(8, 2));
  rotate(kept, one(x), {});  // the numbers are there
  table = kept;
  rotate(table, one(x), {});

  XposTable<double> xpos(Xpos{.rope = rope}, 4);
  const XposTable<double> kept_xpos = std::move(xpos);
  std::vector<double> z(8, 1);
  expect_error<ShapeError>([&] { rotate(xpos.k, bhtd(z.data(), 1, 1, 1, 8), {}); }, refused("rotate"));

  RopeFrequencies frequencies = resolve(rope);
  const RopeFrequencies kept_frequencies = std::move(frequencies);
  EXPECT_THROW(RopeTable<float>(frequencies, 4), ShapeError);
  EXPECT_THROW(shift(frequencies, 1, one(x)), ShapeError);
}

}  // namespace
}  // namespace bearing
