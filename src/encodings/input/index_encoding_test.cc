#include <gtest/gtest.h>
#include <bearing/encodings/index_encoding.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/index_encoding.hpp>

#include "support/errors.hpp"
#include "support/input_terms.hpp"

namespace bearing {
namespace {

using test::expect_error;
using test::InputPoint;
using test::Params;
using test::Place;

template <class T>
std::vector<T> rows_at(const IndexEncoding& spec, const Positions& at, Index time) {
  std::vector<T> rows(static_cast<std::size_t>(time * spec.dim));
  fill<T>(IndexInputs<Compute<T>>(spec), at, dense(rows.data(), time, spec.dim));
  return rows;
}

TEST(IndexEncoding, AgreesWithItsReference) {
  Params none(Params::Shapes{});
  for (const IndexEncoding& spec : {IndexEncoding{.dim = 3, .form = IndexForm::index},
                                    {.dim = 5, .form = IndexForm::normalised, .length = 101},
                                    {.dim = 12, .form = IndexForm::binary},
                                    {.dim = 70, .form = IndexForm::binary}}) {
    const auto make = [&]<class A>(Params&) { return IndexInputs<A>(spec); };
    const auto reference = [&](const Params&, const InputPoint& x) {
      return reference::index_encoding(spec, x.d, x.at[0]);
    };
    std::vector<Place> places{Place::offsets, Place::shuffled};
    if (spec.form != IndexForm::binary) places.push_back(Place::real);
    test::expect_reference_rows(make, none, test::input_cases(places), reference, 0);
    test::expect_every_type(make, none, test::input_cases(places));
    test::expect_same_input_bits_for_any_executor(make, none, test::input_cases(places));
  }
}

TEST(IndexEncoding, IndicesGrowWithoutBoundAndRunIntoEachOtherInShortTypes) {
  const IndexEncoding spec{.dim = 1, .form = IndexForm::index};
  EXPECT_EQ(rows_at<float>(spec, Positions(4096), 1)[0], 4096.0f);
  const std::vector<Bfloat16> rows = rows_at<Bfloat16>(spec, {}, 4097);
  Index exact = 0;
  for (Index p = 0; p <= 4096; ++p) exact += float(rows[static_cast<std::size_t>(p)]) == float(p) ? 1 : 0;
  EXPECT_EQ(exact, 769);  // all to 256, then every second, fourth, …
  EXPECT_EQ(rows[256], rows[257]);
}

TEST(IndexEncoding, NormalisedNumbersMeanAnotherPlaceAtAnotherLength) {
  // The founding document's example: 0.4 lies 1.2 steps into 4 tokens and 31.6 steps into 80.
  const std::vector<double> four = rows_at<double>({.dim = 1, .form = IndexForm::normalised, .length = 4}, {}, 4);
  const std::vector<double> eighty = rows_at<double>({.dim = 1, .form = IndexForm::normalised, .length = 80}, {}, 80);
  EXPECT_EQ(four, (std::vector<double>{0, 1.0 / 3, 2.0 / 3, 1}));
  EXPECT_EQ(four[1] - four[0], 1.0 / 3);
  EXPECT_EQ(eighty[1] - eighty[0], 1.0 / 79);
  EXPECT_LT(eighty[31], 0.4);
  EXPECT_GT(eighty[32], 0.4);
}

TEST(IndexEncoding, NeighboursInBinaryMayDifferInEveryBit) {
  const std::vector<float> rows = rows_at<float>({.dim = 8, .form = IndexForm::binary}, {}, 256);
  const auto changed = [&](std::size_t a, std::size_t b) {
    Index bits = 0;
    for (std::size_t d = 0; d < 8; ++d) bits += rows[a * 8 + d] != rows[b * 8 + d] ? 1 : 0;
    return bits;
  };
  EXPECT_EQ(changed(126, 127), 1);
  EXPECT_EQ(changed(127, 128), 8);  // one step
  EXPECT_EQ(changed(0, 128), 1);    // 128 steps
}

TEST(IndexEncoding, WrongCallsSayWhatMustHold) {
  const auto make = [](const IndexEncoding& spec) { IndexInputs<float> encoding(spec); };
  expect_error<ShapeError>([&] { make({.form = IndexForm::index}); }, "[IndexEncoding] dim: must be at least 1, got 0");
  expect_error<ShapeError>([&] { make({.dim = 1, .form = static_cast<IndexForm>(4)}); },
                           "[IndexEncoding] form: must be index, normalised or binary, got 4");
  expect_error<RangeError>([&] { make({.dim = 1, .form = IndexForm::normalised, .length = 1}); },
                           "[IndexEncoding] length: must be at least 2 for normalised, got 1");
  expect_error<RangeError>([&] { make({.dim = 1, .form = IndexForm::index, .length = 9}); },
                           "[IndexEncoding] length: must be 0 unless normalised, got 9");
  const IndexInputs<float> bits({.dim = 3, .form = IndexForm::binary});
  std::vector<float> x(9, 7.0f);
  expect_error<RangeError>(
      [&] { fill<float>(bits, Positions(6), dense(x.data(), 3, 3)); },
      "[fill] positions: must be whole and in [0, 2^3) for binary with as many columns, got 8 at [batch 0, time 2]");
  const std::vector<double> real{0, 0.5, 1}, axes(6);
  expect_error<RangeError>(
      [&] { fill<float>(bits, dense(real.data(), 3), dense(x.data(), 3, 3)); },
      "[fill] positions: must be whole and in [0, 2^3) for binary with as many columns, got 0.5 at [batch 0, time 1]");
  expect_error<ShapeError>([&] { fill<float>(bits, dense(axes.data(), 2, 1, 3), dense(x.data(), 3, 3)); },
                           "[fill] positions: must have one axis for IndexEncoding, got 2");
  EXPECT_EQ(x, std::vector<float>(9, 7.0f));
}

}  // namespace
}  // namespace bearing
