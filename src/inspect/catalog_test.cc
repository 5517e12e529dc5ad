#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/catalog.hpp>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/elementwise_rope.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/sam.hpp>
#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/error.hpp>
#include <bearing/reference/elementwise_rope.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

constexpr SpecimenOptions small = {.heads = 3, .dim = 8, .length = 16, .seed = 5};

TEST(Catalog, EveryHeaderOfAnEncodingHasAnEntry) {
  // Headers that are no encoding, or whose entries have names of their own.
  const std::map<std::string, std::string> known = {{"rope_axes", "rope_axial"},
                                                    {"rope_scaling", "rope_linear"},
                                                    {"rope_variants", "rope_high_frequency"},
                                                    {"rope_gradients", "rope"},
                                                    {"rope_rebase", "rope"},
                                                    {"rotary_rows", "rope"},
                                                    {"index_encoding", "index"},
                                                    {"kerple", "kerple_log"},
                                                    {"string_rope", "cayley_string"},
                                                    {"bert_relative", "bert_relative_key"}};
  const std::filesystem::path folder = std::filesystem::path(BEARING_SOURCE_DIR) / "include/bearing/encodings";
  Index headers = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string stem = file.path().stem().string();
    const auto other = known.find(stem);
    EXPECT_NE(find(other == known.end() ? stem : other->second), nullptr) << stem;
    ++headers;
  }
  EXPECT_GT(headers, 20);
}

TEST(Catalog, RopeOnTwoAxesHasTheBaseOfItsAuthorsImages) {
  EXPECT_EQ(find("rope_axial")->spec(small).as<Rope>()->base, 100);
}

TEST(Catalog, EveryNameHasASpecOfASmallHead) {
  for (const Index dim : {2, 4}) {
    for (const char* name : {"elementwise_rope", "vjepa2"}) {
      const Specimen specimen = make(*find(name), {.heads = 1, .dim = dim, .length = 4});
      const Array x = Normal(1).array(1, 4, dim);
      EXPECT_NE(specimen.turn(Side::key, specimen.tokens(4), x).values, x.values) << name << ", " << dim;
    }
  }
}

TEST(Catalog, PatchesOfHunyuanAreTurnedByPlaceColumnRowAndImage) {
  // 16 patches are 4 by 4, so that token 6 stands in row 1 and column 2. Pairs are halves: of 4 pairs each member has
  // an axis of its own.
  const ElementwiseRope spec = ElementwiseRope::hunyuan({.head_dim = 8, .pairing = Pairing::half}, {1, 1, 1, 1});
  const Specimen specimen = make(*find("elementwise_rope"), small);
  ASSERT_EQ(specimen.grid, (GridSize{4, 4}));
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8};
  Array rows(3, 1, 8);
  for (Index h = 0; h < 3; ++h) std::copy(x.begin(), x.end(), rows.values.begin() + h * 8);
  const Array turned = specimen.turn(Side::key, specimen.tokens(1, 6), rows);
  std::vector<double> expected(8);
  const double place[] = {6, 2, 1, 0};
  reference::elementwise_row(spec, resolve(spec.rope), place, dense<const double>(x.data(), 8),
                             dense(expected.data(), 8));
  for (Index d = 0; d < 8; ++d) EXPECT_NEAR(turned(0, 0, d), expected[static_cast<std::size_t>(d)], 1e-13) << d;
}

TEST(Catalog, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const Description& entry : catalog()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(find(entry.name), &entry);
  }
  EXPECT_EQ(find("nothing"), nullptr);
}

TEST(Catalog, EveryExampleRunsAtItsSites) {
  for (const Description& entry : catalog()) {
    SCOPED_TRACE(entry.name);
    const Specimen specimen = make(entry, small);
    const Tokens at = specimen.tokens(small.length);
    Normal normal(1);
    const Array q = normal.array(3, 16, 8), k = normal.array(3, 16, 8);
    const Array logits = specimen.logits(at, at, q, k);
    EXPECT_EQ(logits.shape, (std::array<Index, 3>{3, 16, 16}));
    EXPECT_TRUE(std::all_of(logits.values.begin(), logits.values.end(), [](double x) { return std::isfinite(x); }));
    if (specimen.value_terms) {
      const Array p(3, 16, 16);
      const Array none = specimen.values(at, at, p);
      EXPECT_EQ(*std::max_element(none.values.begin(), none.values.end()), 0);
    }
    EXPECT_GE(specimen.held, specimen.parameters);
  }
}

TEST(Catalog, SeedsDrawWhatIsLearnedAndNothingElse) {
  for (const Description& entry : catalog()) {
    SCOPED_TRACE(entry.name);
    SpecimenOptions other = small;
    other.seed = 6;
    const Specimen one = make(entry, small), two = make(entry, other);
    EXPECT_EQ(one.parameters, two.parameters);
    const Tokens at = one.tokens(small.length);
    Normal normal(1);
    const Array q = normal.array(3, 16, 8), k = normal.array(3, 16, 8);
    const bool same = one.logits(at, at, q, k).values == two.logits(at, at, q, k).values;
    const std::string name = entry.name;
    if (name == "forgetting" || name == "gated_decay") continue;  // gates are data
    EXPECT_EQ(same, one.parameters == 0);
  }
}

TEST(Catalog, LogitsAreTheDefinition) {
  const Specimen specimen = make(*find("alibi"), small);
  Normal normal(2);
  const Array q = normal.array(3, 1, 8), k = normal.array(3, 4, 8);
  const Array logits = specimen.logits(specimen.tokens(1, 9), specimen.tokens(4, 5), q, k);
  const std::vector<double> slopes = Alibi::published(3).slopes;
  for (Index h = 0; h < 3; ++h) {
    for (Index j = 0; j < 4; ++j) {
      double wanted = -slopes[static_cast<std::size_t>(h)] * static_cast<double>(4 - j);
      for (Index d = 0; d < 8; ++d) wanted += q(h, 0, d) * k(h, j, d) / std::sqrt(8.0);
      EXPECT_NEAR(logits(h, 0, j), wanted, 1e-14);  // ten sums of numbers below 6
    }
  }
}

TEST(Catalog, AnExampleWithTheCallersNumbersIsThatEncoding) {
  const EncodingInfo& info = *registry().encoding("LearnedInputs");
  const Record spec = Record::of(Learned{.length = 3, .dim = 2});
  const std::vector<double> numbers{1, 2, 3, 4, 5, 6};
  const std::vector<ParameterMemory> parameters{{numbers.data(), nullptr, {3, 2}, {2, 1}}};
  const Made<double> made = info.make<double>()(spec, {}, parameters);
  const Specimen specimen = make_with(info, spec, made, {.heads = 1, .dim = 2, .length = 3});
  EXPECT_EQ(specimen.inputs(specimen.tokens(3)).values, numbers);
}

TEST(Catalog, MeanScoreOfARotationIsItsSumOfCosines) {
  const Array means = mean_scores(make(*find("rope"), small), 3);
  const std::vector<double> curve = rotation_similarity(resolve({.head_dim = 8, .pairing = Pairing::half}), 16);
  for (Index h = 0; h < 3; ++h) {
    for (Index k = 0; k < 16; ++k) {  // pairs of signs have norm² 2; the softmax scale is 1/√8
      EXPECT_NEAR(means(0, h, k), 2 * curve[static_cast<std::size_t>(k)] / std::sqrt(8.0), 1e-13);
    }
  }
  // Independent contents have nothing in common, so the mean of 400 draws is small: standard error 1/20.
  for (double mean : mean_scores(make(*find("rope"), small), 400, Contents::independent).values) {
    EXPECT_LT(std::abs(mean), 0.25);
  }
  EXPECT_EQ(mean_scores(make(*find("alibi"), small), 1)(0, 0, 15), -15 * Alibi::published(3).slopes[0]);
  expect_error<RangeError>([] { mean_scores(make(*find("rope"), small), 0); },
                           "[mean_scores] draws: must be at least 1, got 0");
}

TEST(Catalog, MeanScoresAreTheMeanOfLogits) {
  // 40 draws are more than stand side by side, 70 tokens more than a block of keys.
  const SpecimenOptions odd{.heads = 2, .dim = 6, .length = 70, .seed = 3};
  for (const char* stem :
       {"rope", "pope", "lie_rope", "circulant_string", "xlnet", "swin", "dense_bias", "cope", "nope"}) {
    SCOPED_TRACE(stem);
    const Specimen specimen = make(*find(stem), odd);
    const Index n = specimen.line();
    const Tokens keys_at = specimen.tokens(n);
    const bool bare = specimen.score_terms && !specimen.turn_rows;
    for (const Keys towards : {Keys::before, Keys::after}) {
      const Array means = mean_scores(specimen, 40, Contents::independent, towards);
      const bool before = towards == Keys::before;
      Normal normal(odd.seed);
      Array wanted(1, 2, n);
      for (Index draw = 0; draw < 40; ++draw) {
        const Array q = normal.array(2, 1, 6), k = normal.array(2, 1, 6);
        Array keys(2, n, 6);
        for (Index h = 0; h < 2; ++h) {
          for (Index e = 0; e < n * 6; ++e) keys(h, e / 6, e % 6) = k(h, 0, e % 6);
        }
        const Tokens at = specimen.tokens(1, before ? n - 1 : 0);
        const Array s = bare ? specimen.scores(at, keys_at, q, keys) : specimen.logits(at, keys_at, q, keys);
        for (Index h = 0; h < 2; ++h) {
          for (Index j = 0; j < n; ++j) wanted(0, h, before ? n - 1 - j : j) += s(h, 0, j) / 40;
        }
      }
      // Sums of 40 numbers far below 100.
      for (std::size_t e = 0; e < wanted.values.size(); ++e) EXPECT_NEAR(means.values[e], wanted.values[e], 1e-12);
    }
  }
}

TEST(Catalog, TokensAreRepeatedWhereTheyStand) {
  const Tokens line = Tokens(2, 5).repeated(3), grid = Tokens(3, 3, 1, 4).repeated(2);
  ASSERT_EQ(line.count(), 6);
  for (Index t = 0; t < 6; ++t) EXPECT_EQ(line.at().integer(0, 0, t), 5 + t / 3);
  ASSERT_EQ(grid.count(), 6);
  for (Index t = 0; t < 6; ++t) {
    EXPECT_EQ(grid.at().integer(0, 0, t), (3 + t / 2) / 4 + 1);
    EXPECT_EQ(grid.at().integer(1, 0, t), (3 + t / 2) % 4 + 1);
  }
}

TEST(Catalog, SitesAreNamed) {
  const auto sites_of = [](const char* stem) { return sites(make(*find(stem), small)); };
  EXPECT_EQ(sites_of("sinusoidal"), "input");
  EXPECT_EQ(sites_of("rope"), "query/key");
  EXPECT_EQ(sites_of("alibi"), "score");
  EXPECT_EQ(sites_of("shaw"), "score, value");
  EXPECT_EQ(sites_of("nope"), "none");
}

TEST(Catalog, AGridThatASpecStatesIsTheExamples) {
  const Swin window{.height = 3, .width = 4};
  for (const auto& [name, spec] : {std::pair{"swin", Record::of(window)},
                                   {"beit", Record::of(Swin{3, 4, Swin::ClassToken::three_rows})},
                                   {"sam", Record::of(Sam{.height = 3, .width = 4})},
                                   {"swin_v2", Record::of(SwinV2{.window = window})}}) {
    const Specimen specimen = make(*find(name), {.heads = 2, .dim = 8, .length = 100}, spec);
    EXPECT_EQ(specimen.grid, (GridSize{3, 4})) << name;
    EXPECT_EQ(specimen.options.length, 12) << name;
    const Array q(2, 12, 8);
    EXPECT_NO_THROW((void)specimen.scores(specimen.tokens(12), specimen.tokens(12), q, q)) << name;
  }
}

TEST(Catalog, ImagesWalkTheirGridRowByRow) {
  const Specimen specimen = make(*find("swin"), {.heads = 1, .dim = 8, .length = 20});
  EXPECT_EQ(specimen.grid, (GridSize{4, 4}));
  EXPECT_EQ(specimen.options.length, 16);
  const Tokens tokens = specimen.tokens(6, 0, 10);
  const Positions at = tokens.at();
  ASSERT_EQ(at.axes(), 2);
  EXPECT_EQ(at.integer(0, 0, 5), 11);
  EXPECT_EQ(at.integer(1, 0, 5), 11);
  EXPECT_EQ(at.integer(0, 0, 3), 10);
  EXPECT_EQ(at.integer(1, 0, 3), 13);
}

TEST(Catalog, WrongSizesAreRefused) {
  expect_error<RangeError>([] { make(*find("rope"), {.heads = 0}); }, "[make] heads: must be from 1 to 1048576, got 0");
  EXPECT_THROW(make(*find("rope"), {.dim = 7}), ShapeError);
  expect_error<RangeError>(
      [] { make(*find("dense_bias"), {.length = 65'536}); },
      "[make] heads, dim, length: must make tables of at most 2^27 numbers, got [1, 8, 65536, 65536]");
  EXPECT_THROW(make(*find("sinusoidal_2d"), {.dim = 6}), ShapeError);
}

}  // namespace
}  // namespace bearing::inspect
