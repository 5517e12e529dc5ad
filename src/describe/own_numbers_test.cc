#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/properties.hpp>
#include <map>

#include "support/described.hpp"
#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

ParameterMemory array(const std::vector<double>& numbers, std::vector<Index> shape) {
  ParameterMemory memory{numbers.data(), nullptr, shape, shape};
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; step *= shape[axis]) memory.stride[axis] = step;
  return memory;
}

Numbered numbered(const char* name, OwnNumbers numbers) {
  numbers.encoding = find(name)->encoding;
  return with_numbers(*find(name), numbers);
}

std::map<std::string, Property> checked(const Numbered& one, const SpecimenOptions& size) {
  std::map<std::string, Property> all;
  for (const Property& property : check(one.description, size)) all.emplace(property.name, property);
  return all;
}

/// 0, 1, 2, …
std::vector<double> counted(std::size_t count) {
  std::vector<double> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<double>(i));
  return all;
}

TEST(OwnNumbers, ALearnedTableIsMeasuredUpToItsEndWhichIsTold) {
  std::vector<double> table = counted(10 * 4);
  const Numbered learned =
      numbered("learned", {.spec = Record::of(Learned{.length = 10, .dim = 4}), .parameters = {array(table, {10, 4})}});
  table.assign(table.size(), 0);  // the numbers were copied
  EXPECT_EQ(learned.sizes.length, 10);
  EXPECT_EQ(learned.sizes.dim, 4);
  const SpecimenOptions size{.heads = 2, .dim = 4, .length = 10, .seed = 3};
  const Specimen specimen = make(learned.description, size);
  EXPECT_TRUE(specimen.own_numbers);
  EXPECT_EQ(specimen.own_tokens, 10);
  EXPECT_EQ(specimen.inputs(specimen.tokens(10)).values, counted(40));
  const auto all = checked(learned, size);
  EXPECT_EQ(all.at("extensible").verdict, Verdict::no);
  EXPECT_NE(all.at("extensible").evidence.find("L = 10, error from L"), std::string::npos);
  EXPECT_EQ(all.at("parameters").evidence, "40 numbers of its own, as trained, none drawn: they end at 10 tokens");
  EXPECT_EQ(all.at("memory").number, 40);
  EXPECT_NE(all.at("deterministic").evidence.find("made again of its numbers: the same bits"), std::string::npos);
  const Comparison row = compare(learned.description, size);
  EXPECT_TRUE(row.own_numbers && row.learnable);
  EXPECT_EQ(row.memory, "ends at 10");
  EXPECT_EQ(row.past_length, "error");
  EXPECT_FALSE(compare(*find("learned"), size).own_numbers);
  expect_error<RangeError>([&] { make(learned.description, {.heads = 2, .dim = 4, .length = 11}); },
                           "[make] length: must be at most 10, the tokens that there are numbers for, got 11");
  const auto first = checked(learned, {.heads = 2, .dim = 4, .length = 4});  // of fewer, the first
  EXPECT_NE(first.at("extensible").evidence.find("L = 4, error from 2L"), std::string::npos)
      << first.at("extensible").evidence;
}

TEST(OwnNumbers, VerdictsOnTrainedBiasesAreYesOrNo) {
  const Index heads = 2, buckets = 8;
  const T5 spec{.buckets = buckets, .max_distance = 20, .direction = T5Direction::causal};
  std::vector<double> falling(heads * buckets), rising(heads * buckets);
  for (Index b = 0; b < buckets; ++b) {
    for (Index h = 0; h < heads; ++h) {
      const auto at = static_cast<std::size_t>(b * heads + h);
      falling[at] = static_cast<double>(-b), rising[at] = static_cast<double>(b);
    }
  }
  for (const auto& [table, wanted] : {std::pair{&falling, Verdict::yes}, {&rising, Verdict::no}}) {
    const Numbered t5 =
        numbered("t5_causal", {.spec = Record::of(spec), .parameters = {array(*table, {buckets, heads})}});
    EXPECT_EQ(t5.sizes.heads, heads);
    EXPECT_EQ(t5.sizes.length, 0);
    const auto all = checked(t5, {.heads = heads, .dim = 8, .length = 64});
    EXPECT_EQ(all.at("decay").verdict, wanted);
    EXPECT_NE(all.at("decay").evidence.find(wanted == Verdict::yes ? "2 of 2 heads, by" : "0 of 2 heads, by"),
              std::string::npos);
    EXPECT_EQ(all.at("parameters").evidence, "16 numbers of its own, as trained, none drawn: as many at any length");
    EXPECT_EQ(compare(t5.description, {.heads = heads, .dim = 8, .length = 64}).memory, "O(1)");
  }
}

TEST(OwnNumbers, NumbersOfEachTokenAreThoseOfTheTokensThatACallHas) {
  const std::vector<double> bias = counted(2 * 5 * 5);
  const Numbered dense = numbered("dense_bias", {.parameters = {array(bias, {1, 2, 5, 5})}});
  EXPECT_EQ(dense.sizes.heads, 2);
  EXPECT_EQ(dense.sizes.length, 5);
  const Specimen specimen = make(dense.description, {.heads = 2, .dim = 4, .length = 3});
  const Array x(2, 3, 4), one(2, 1, 4);
  const Array whole = specimen.scores(specimen.tokens(3), specimen.tokens(3), x, x);
  const Array last = specimen.scores(specimen.tokens(1, 2), specimen.tokens(3), one, x);
  for (Index h = 0; h < 2; ++h) {
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 3; ++j) EXPECT_EQ(whole(h, i, j), static_cast<double>(25 * h + 5 * i + j));
      EXPECT_EQ(last(h, 0, i), whole(h, 2, i));
    }
  }
  expect_error<RangeError>(
      [&] { (void)specimen.scores(specimen.tokens(1, 5), specimen.tokens(1), one, one); },
      "[DenseBias] positions: must be whole numbers from 0 to 4, as there are numbers for 5 tokens, got 5");
  expect_error<ShapeError>(
      [&] {
        numbered("dense_bias", {.parameters = {array(bias, {1, 1, 10, 5})}});
      },
      "[DenseBias] numbers: must be for as many queries as keys, got 10 and 5");
  expect_error<ShapeError>(
      [&] {
        numbered("dense_bias", {.parameters = {array(bias, {2, 1, 5, 5})}});
      },
      "[DenseBias] numbers: must be those of one sequence, got 2");
}

TEST(OwnNumbers, GatesThatAddUpServeQueriesThatAreTheLastOfTheKeys) {
  const std::vector<double> gates = {-1, -2, -4, -8};
  const Numbered fox = numbered("fox", {.parameters = {array(gates, {1, 1, 4})}});
  const Specimen specimen = make(fox.description, {.heads = 1, .dim = 2, .length = 4});
  const Array two(1, 2, 2), three(1, 3, 2);
  const Array scores = specimen.scores(specimen.tokens(2, 1), specimen.tokens(3), two, three);
  EXPECT_EQ(scores(0, 1, 0), -6);
  EXPECT_EQ(scores(0, 0, 0), -2);
  expect_error<RangeError>([&] { (void)specimen.scores(specimen.tokens(2), specimen.tokens(3), two, three); },
                           "[ForgettingBias] positions: queries must be the last of the keys, and keys must follow "
                           "each other, got 2 from 0 to 1 "
                           "and 3 from 0 to 2");
  expect_error<RangeError>(
      [&] { (void)specimen.scores(specimen.tokens(3, 1), specimen.tokens(2), three, two); },
      "[ForgettingBias] positions: queries must be the last of the keys, and keys must follow each "
      "other, got 3 from 1 to 3 and 2 from 0 to 1");
}

/// All properties of an encoding with numbers of its own, those of a small model.
void measure(const test::DescribedEncoding& one, const Description& entry) {
  const Index tokens = 24, heads = test::described_heads, dim = test::described_dim;
  const Sizes sizes{.batch = 1,
                    .heads = heads,
                    .kv_heads = heads,
                    .q_len = tokens,
                    .k_len = tokens,
                    .dim = dim,
                    .value_dim = dim,
                    .length = one.length()};
  test::Params params = one.params(sizes);
  std::vector<std::vector<Index>> indices;
  const Numbered own = with_numbers(entry, {.encoding = one.info,
                                            .spec = one.spec,
                                            .settings = one.settings_for(sizes),
                                            .parameters = one.memory<double>(params, sizes, indices)});
  EXPECT_TRUE(own.sizes.heads == 0 || own.sizes.heads == heads) << own.sizes.heads;
  EXPECT_TRUE(own.sizes.dim == 0 || own.sizes.dim == dim) << own.sizes.dim;
  EXPECT_TRUE(own.sizes.length == 0 || own.sizes.length >= tokens) << own.sizes.length;
  const SpecimenOptions size{.heads = heads, .dim = dim, .length = tokens};
  EXPECT_TRUE(make(own.description, size).own_numbers);
  for (const Property& property : check(own.description, size)) {
    EXPECT_NE(property.verdict, Verdict::learned) << property.name << ": " << property.evidence;
    if (property.name == "deterministic") {
      EXPECT_EQ(property.verdict, Verdict::yes) << property.evidence;
    }
  }
}

// LeRoPE states its factors, which are learned, in its spec: they are as many at any length, and the table grows.
TEST(OwnNumbers, LearnedFactorsOfFrequenciesAreThoseOfTheSpec) {
  Description rope = *find("rope");
  rope.specimen = [](const SpecimenOptions& size, const Record&) {
    const Rope of{.head_dim = size.dim, .pairing = Pairing::half, .log_factors = {0.5, -1, 0, 2}};
    return make(*find("rope"), size, Record::of(of));
  };
  const SpecimenOptions size{.heads = 2, .dim = 8, .length = 64};
  const Comparison row = compare(rope, size);
  EXPECT_TRUE(row.own_numbers && row.learnable);
  EXPECT_EQ(row.parameters, 4);
  EXPECT_EQ(row.memory, "O(L)");
  EXPECT_EQ(row.relative, Verdict::yes);
  for (const Property& property : check(rope, size)) {
    EXPECT_NE(property.verdict, Verdict::learned) << property.name;
    if (property.name != "parameters") continue;
    EXPECT_EQ(property.evidence, "4 numbers of its own, as trained, none drawn: as many at any length");
  }
}

TEST(OwnNumbers, OfEveryEncodingAreMeasuredAndNoVerdictIsLearned) {
  Index measured = 0;
  for (const auto* all : {&test::described_terms(), &test::described_inputs()}) {
    for (const test::DescribedEncoding& one : *all) {
      const auto entry = std::find_if(catalog().begin(), catalog().end(),
                                      [&](const Description& name) { return name.encoding == one.info; });
      const bool has_numbers = std::find(one.given.begin(), one.given.end(), true) != one.given.end();
      if (one.variant || one.info->by_hand || entry == catalog().end() || !has_numbers) continue;
      SCOPED_TRACE(one.name);
      EXPECT_NO_THROW(measure(one, *entry));
      ++measured;
    }
  }
  EXPECT_GT(measured, 30);
}

}  // namespace
}  // namespace bearing::inspect
