#include "figures/pairs.hpp"

#include <gtest/gtest.h>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/error.hpp>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

Shown shown(const Subject& subject, SpecimenOptions size = {.heads = 1, .dim = 16, .length = 64}) {
  return {&subject, make(subject.description, size)};
}

TEST(Pairs, OfARotationAreThoseThatTheSpecSays) {
  const Subject rope{"rope", *find("rope")};
  const Rope spec = *rope.description.spec({.heads = 1, .dim = 16, .length = 64}).as<Rope>();
  std::vector<Pair> wanted;
  for (Index i = 0; i < 8; ++i) {
    wanted.push_back(spec.pairing == Pairing::half ? Pair{i, i + 8} : Pair{2 * i, 2 * i + 1});
  }
  EXPECT_EQ(pairs_of(shown(rope), {}), wanted);
}

TEST(Pairs, OfSinusoidsAreThoseOfTheLayout) {
  for (const char* name : {"sinusoidal", "sinusoidal_tensor2tensor"}) {
    const Subject subject{name, *find(name)};
    const Shown one = shown(subject);
    const auto columns = sinusoidal_columns(*subject.description.spec(one.specimen.options).as<Sinusoidal>());
    const std::vector<Pair> pairs = pairs_of(one, {});
    ASSERT_EQ(pairs.size(), 8u) << name;
    for (const Pair pair : pairs) {  // the cosine is 1 at position 0
      EXPECT_EQ(columns[static_cast<std::size_t>(pair.x)].part, SinusoidPart::cosine) << name;
      EXPECT_EQ(columns[static_cast<std::size_t>(pair.y)].part, SinusoidPart::sine) << name;
      EXPECT_EQ(columns[static_cast<std::size_t>(pair.x)].pair, columns[static_cast<std::size_t>(pair.y)].pair) << name;
    }
  }
}

TEST(Pairs, AreNeighboursWhereNothingTurns) {
  const Subject learned{"learned", *find("learned")};
  EXPECT_EQ(pairs_of(shown(learned, {.heads = 1, .dim = 4, .length = 64}), {}), (std::vector<Pair>{{0, 1}, {2, 3}}));
}

TEST(Pairs, OfEveryEncodingWithRowsAreApart) {
  for (const Description& description : catalog()) {
    const Subject subject{description.name, description};
    const Shown one = shown(subject);
    if (!one.specimen.input_rows && !one.specimen.turn_rows) continue;
    std::vector<Index> columns;
    for (const Pair pair : pairs_of(one, {})) columns.push_back(pair.x), columns.push_back(pair.y);
    std::sort(columns.begin(), columns.end());
    EXPECT_EQ(std::adjacent_find(columns.begin(), columns.end()), columns.end()) << description.name;
    EXPECT_FALSE(columns.empty()) << description.name;
  }
}

TEST(Pairs, NeedRows) {
  const Subject alibi{"alibi", *find("alibi")};
  expect_error<RangeError>([&] { (void)pairs_of(shown(alibi), {}); },
                           "[figure] alibi: must have rows: an encoding of the input or of query and key, got one that "
                           "acts on score");
  expect_error<RangeError>([] { (void)pair_of({{0, 1}}, 1); }, "[figure] dims: must be pairs from 0 to 0, got 1");
}

TEST(Pairs, APathIsWhatTheEncodingMakesOfTheVector) {
  const Subject rope{"rope", *find("rope")};
  const Shown one = shown(rope);
  const Pair pair = pairs_of(one, {})[1];
  const Path path = path_of(one, pair, 1, 1, {0, 3}, {});
  Array x(1, 1, 16);
  x(0, 0, pair.x) = x(0, 0, pair.y) = 1;
  const Array there = one.specimen.turn(Side::key, Tokens(1, 3), x);
  EXPECT_EQ(path.x, (std::vector<double>{1, there(0, 0, pair.x)}));
  EXPECT_EQ(path.y, (std::vector<double>{1, there(0, 0, pair.y)}));
}

}  // namespace
}  // namespace bearing::inspect
