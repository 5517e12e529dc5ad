#include <gtest/gtest.h>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/cope.hpp>
#include <bearing/encodings/gated_t5.hpp>
#include <bearing/encodings/relative_logits.hpp>
#include <bearing/encodings/swin.hpp>
#include <bearing/error.hpp>
#include <bearing/properties.hpp>
#include <cmath>
#include <map>

#include "inspect/probes.hpp"
#include "inspect/trained.hpp"
#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

constexpr SpecimenOptions small = {.heads = 4, .dim = 16, .length = 64, .seed = 1};

std::map<std::string, Property> checked(const Description& entry, const SpecimenOptions& options = small) {
  std::map<std::string, Property> all;
  for (const Property& property : check(entry, options)) all.emplace(property.name, property);
  return all;
}
std::map<std::string, Property> checked(const char* stem, const SpecimenOptions& options = small) {
  return checked(*find(stem), options);
}

TEST(Properties, AWindowThatIsNoSquareIsMeasured) {
  for (const auto& [height, width] : {std::pair<Index, Index>{3, 4}, {8, 4}, {1, 12}}) {
    Description window = *find("swin");
    window.spec = [height = height, width = width](const SpecimenOptions&) {
      return Record::of(Swin{.height = height, .width = width});
    };
    const auto all = checked(window);
    EXPECT_EQ(all.at("relative").verdict, height == 1 ? Verdict::not_applicable : Verdict::yes) << height;
    EXPECT_EQ(all.at("extensible").verdict, Verdict::no) << height;
  }
}

TEST(Properties, ASpecOfLargeTablesIsRefusedByItsCount) {
  const auto refused = [](const char* name, const Record& spec, const char* got) {
    Description large = *find(name);
    large.spec = [spec](const SpecimenOptions&) { return spec; };
    const std::string text = std::string(name) + ": its tables must be of at most 2^24 numbers, got " + got;
    expect_error<RangeError>([&] { (void)check(large, small); }, "[check] " + text);
    expect_error<RangeError>([&] { (void)compare(large, small); }, "[compare] " + text);
  };
  refused("relative_logits", Record::of(RelativeLogits{.extent = Index{1} << 31}), "34359738384");
  refused("gated_t5", Record::of(GatedT5{.buckets = (Index{1} << 31) - 1, .direction = T5Direction::causal}),
          "2147483648");
  refused("cope", Record::of(Cope{.max_pos = Index{1} << 21}), "33554432");
  refused("wav2vec2_bert", Record::of(Wav2Vec2BertRelative{.right = Index{1} << 21}), "33555472");
}

TEST(Properties, ResultsOfEveryEncodingAreDeterministic) {
  for (const Description& entry : catalog()) {
    const Property p = checked(entry, {.heads = 2, .dim = 8, .length = 100}).at("deterministic");
    EXPECT_EQ(p.verdict, Verdict::yes) << entry.name << ": " << p.evidence;
  }
}

TEST(Properties, OfRope) {
  auto p = checked("rope", {.heads = 2, .dim = 64, .length = 64});
  EXPECT_EQ(p.at("unique").verdict, Verdict::yes);
  EXPECT_EQ(p.at("relative").verdict, Verdict::yes);
  EXPECT_EQ(p.at("extensible").verdict, Verdict::partly);
  EXPECT_EQ(p.at("norm").verdict, Verdict::yes);
  EXPECT_EQ(p.at("symmetric").verdict, Verdict::yes);
  EXPECT_EQ(p.at("parameters").number, 0);
  EXPECT_EQ(p.at("memory").number, 64 * 64);  // cos and sin of 32 pairs at 64 positions
  EXPECT_NE(p.at("memory").evidence.find("O(L)"), std::string::npos);
}

TEST(Properties, TwoAnglesForAPairAreNoRotation) {
  for (const char* name : {"elementwise_rope", "hunyuan_vl", "vjepa2"}) {
    const auto p = checked(name);
    EXPECT_EQ(p.at("relative").verdict, Verdict::no) << name;
    EXPECT_EQ(p.at("norm").verdict, Verdict::no) << name;
  }
}

TEST(Properties, AttentionFactorOfYarnMultipliesEveryNorm) {
  const Property norm = checked("rope_yarn").at("norm");
  EXPECT_EQ(norm.verdict, Verdict::no);
  EXPECT_NEAR(norm.number, 0.1 * std::log(4), 1e-12);  // stretched fourfold
}

TEST(Properties, AlibiInBfloat16Has769ValuesFor4096Distances) {
  const Property unique = checked("alibi", {.heads = 1, .dim = 8, .length = 4096}).at("unique");
  EXPECT_EQ(unique.verdict, Verdict::yes);
  EXPECT_NE(unique.evidence.find("4096 in float32, 769 in bfloat16; 256 and 257"), std::string::npos)
      << unique.evidence;
}

TEST(Properties, LearnedPositionsEndWithTheirTable) {
  auto p = checked("learned");
  EXPECT_EQ(p.at("extensible").verdict, Verdict::no);
  EXPECT_EQ(p.at("extensible").evidence.find("error: L = 64, error from L: "), 0u);
  EXPECT_EQ(p.at("parameters").number, 64 * 16);
  EXPECT_EQ(p.at("shift map").verdict, Verdict::not_applicable);  // 64 rows are too few to tell
  EXPECT_EQ(checked("learned", {.heads = 1, .dim = 8, .length = 128}).at("shift map").verdict, Verdict::no);
}

TEST(Properties, SinusoidsHaveAShiftMapAndAreNotRelativeWithContent) {
  auto p = checked("sinusoidal", {.heads = 1, .dim = 8, .length = 128});
  EXPECT_EQ(p.at("shift map").verdict, Verdict::yes);
  EXPECT_EQ(p.at("relative").verdict, Verdict::no);
  EXPECT_EQ(p.at("bounded").verdict, Verdict::yes);
  EXPECT_EQ(p.at("norm").verdict, Verdict::no);
}

TEST(Properties, T5BucketsAreSharedAndClamped) {
  auto p = checked("t5", {.heads = 2, .dim = 8, .length = 128});
  EXPECT_EQ(p.at("unique").number, 16);
  EXPECT_EQ(p.at("unique").verdict, Verdict::no);
  EXPECT_EQ(p.at("extensible").evidence.find("clamped"), 0u);
  EXPECT_EQ(p.at("parameters").number, 64);
  EXPECT_NE(p.at("parameters").evidence.find("the length does not matter"), std::string::npos);
}

TEST(Properties, AnIndexDoesNotFallWithDistanceAhead) {
  // p(m)·p(n) is larger the later n: keys before the query fall with distance, keys after it do not.
  for (const char* stem : {"index", "index_normalised"}) {
    const Property decay = checked(stem).at("decay");
    EXPECT_EQ(decay.verdict, Verdict::partly) << stem;
    EXPECT_EQ(decay.evidence.find("octave maxima fall in 4 of 4 heads before the query, 0 of 4 after it, by "), 0u)
        << decay.evidence;
  }
  EXPECT_EQ(checked("alibi").at("decay").verdict, Verdict::yes);
}

TEST(Properties, AlibiInItsCausalFormHasNoCurveAfterTheQuery) {
  Description causal = *find("alibi");
  causal.spec = [](const SpecimenOptions& size) {
    Alibi alibi = Alibi::published(size.heads);
    alibi.form = AlibiForm::causal;
    return Record::of(alibi);
  };
  const std::map<std::string, Property> measured = checked(causal);
  EXPECT_EQ(measured.at("decay").verdict, Verdict::yes);
  EXPECT_EQ(measured.at("decay").evidence.find("octave maxima fall in 4 of 4 heads, by "), 0u);
  EXPECT_EQ(measured.at("symmetric").verdict, Verdict::not_applicable);
}

TEST(Properties, AlibiShiftedByRowGrowsWithTheKeysPlace) {
  // The largest slope is 1/4: 63/4 at the last key within the length, 1087/4 at key 16 · 64 + 63.
  const std::map<std::string, Property> measured = checked("alibi_shifted");
  EXPECT_EQ(measured.at("extensible").evidence.find("unseen values: "), 0u) << measured.at("extensible").evidence;
  EXPECT_EQ(measured.at("bounded").verdict, Verdict::no);
  EXPECT_EQ(measured.at("bounded").evidence, "largest score 15.8 within L = 64, 272 at 16L");
}

TEST(Properties, WhatWouldNotFitIsRefused) {
  const SpecimenOptions large{.heads = 1024, .dim = 4096, .length = 65'536};
  const char* text = "heads, dim, length: their product must be at most 2^24, got 1024, 4096, 65536";
  expect_error<RangeError>([&] { check(*find("rope"), large); }, std::string("[check] ") + text);
  expect_error<RangeError>([&] { compare(*find("rope"), large); }, std::string("[compare] ") + text);
}

TEST(Properties, OnlyCommutingGeneratorsAreRelative) {
  EXPECT_EQ(checked("lie_rope").at("relative").verdict, Verdict::no);
  for (const char* stem : {"rope_mixed", "cayley_string", "circulant_string"}) {
    EXPECT_EQ(checked(stem).at("relative").verdict, Verdict::yes) << stem;
  }
}

TEST(Properties, FireDependsOnTheQuerysPositionPastItsThreshold) {
  EXPECT_EQ(checked("fire", {.heads = 2, .dim = 8, .length = 512}).at("relative").verdict, Verdict::no);
}

TEST(Properties, XposIsRelativeAndGrows) {
  auto p = checked("xpos");
  EXPECT_EQ(p.at("relative").verdict, Verdict::yes);
  EXPECT_EQ(p.at("bounded").verdict, Verdict::no);
}

TEST(Properties, NopeHasNothingToMeasure) {
  auto p = checked("nope");
  EXPECT_EQ(p.at("unique").verdict, Verdict::no);
  for (const char* name : {"relative", "bounded", "norm", "symmetric", "shift map"}) {
    EXPECT_EQ(p.at(name).verdict, Verdict::not_applicable) << name;
  }
}

/// ALiBi with something wrong in it.
template <class Spoil>
Description spoiled(Spoil) {
  Description made{"spoiled", {}, "spoiled", "-", {"-", 0, "-"}, "-"};
  made.specimen = [](const SpecimenOptions& options, const Record&) {
    Specimen specimen{.options = options};
    specimen.score_terms = [](const Positions& q_positions, const Positions& k_positions, View<const double, 4>,
                              View<const double, 4>, View<double, 4> scores, const Executor& on) {
      for (Index h = 0; h < scores.shape[1]; ++h) {
        for (Index i = 0; i < scores.shape[2]; ++i) {
          for (Index j = 0; j < scores.shape[3]; ++j) {
            const double m = q_positions.real(0, 0, i), n = k_positions.real(0, 0, j);
            scores(0, h, i, j) += -std::abs(m - n) + Spoil{}(m, n, on);
          }
        }
      }
    };
    return specimen;
  };
  return made;
}

TEST(Properties, ChecksSeeWhatIsWrong) {
  const auto right = [](double, double, const Executor&) { return 0.0; };
  auto p = checked(spoiled(right));
  for (const char* name : {"unique", "relative", "decay", "symmetric", "deterministic"}) {
    EXPECT_EQ(p.at(name).verdict, Verdict::yes) << name << ": " << p.at(name).evidence;
  }
  const auto absolute = [](double m, double, const Executor&) { return 1e-9 * m; };
  EXPECT_EQ(checked(spoiled(absolute)).at("relative").verdict, Verdict::no);
  const auto lopsided = [](double m, double n, const Executor&) { return n > m ? 1e-9 : 0.0; };
  EXPECT_EQ(checked(spoiled(lopsided)).at("symmetric").verdict, Verdict::no);
  const auto bump = [](double m, double n, const Executor&) { return m - n == 40 ? 30.0 : 0.0; };
  EXPECT_EQ(checked(spoiled(bump)).at("decay").verdict, Verdict::partly);  // before the query alone
  const auto bumps = [](double m, double n, const Executor&) { return std::abs(m - n) == 40 ? 30.0 : 0.0; };
  EXPECT_EQ(checked(spoiled(bumps)).at("decay").verdict, Verdict::no);
  EXPECT_EQ(checked(spoiled(bump)).at("unique").verdict, Verdict::no);  // distance 40 looks like distance 10
  const auto by_workers = [](double, double, const Executor& on) { return on.workers == 3 ? 1e-12 : 0.0; };
  EXPECT_EQ(checked(spoiled(by_workers)).at("deterministic").verdict, Verdict::no);
}

TEST(Properties, EveryBlockOfPositionsIsLookedAt) {
  // A length of several blocks; something is wrong with the last distances alone.
  const SpecimenOptions several{.heads = 2, .dim = 8, .length = 400};
  const auto right = [](double, double, const Executor&) { return 0.0; };
  auto p = checked(spoiled(right), several);
  EXPECT_EQ(p.at("unique").number, 400);
  EXPECT_EQ(p.at("bounded").evidence.find("largest score 399 within"), 0u) << p.at("bounded").evidence;
  EXPECT_EQ(p.at("decay").verdict, Verdict::yes);
  const auto repeats = [](double m, double n, const Executor&) { return std::abs(m - n) == 399 ? 398.0 : 0.0; };
  p = checked(spoiled(repeats), several);
  EXPECT_EQ(p.at("unique").number, 399);
  EXPECT_NE(p.at("unique").evidence.find("; 1 and 399 are the same"), std::string::npos) << p.at("unique").evidence;
  EXPECT_EQ(p.at("decay").verdict, Verdict::no);
  const auto large = [](double m, double n, const Executor&) { return m - n == 399 ? -1e6 : 0.0; };
  EXPECT_EQ(checked(spoiled(large), several).at("bounded").number, 1000399);
}

TEST(Properties, ABlockIsAPartOfItsWalk) {
  const SpecimenOptions odd{.heads = 2, .dim = 6, .length = 36, .seed = 2};
  for (const char* stem : {"rope", "pope", "learned", "fire", "swin", "xlnet", "cope", "dense_bias"}) {
    SCOPED_TRACE(stem);
    const Probe probe(*find(stem), odd);
    const Walk walk{5, 20};
    const Array all = values_at(probe, walk.first, walk.count), part = values_at(probe, walk, 13, 4);
    ASSERT_EQ(part.shape, (std::array<Index, 3>{1, 4, all.shape[2]}));
    for (Index r = 0; r < 4; ++r) {
      for (Index c = 0; c < all.shape[2]; ++c) EXPECT_NEAR(part(0, r, c), all(0, 13 + r, c), 1e-13);
    }
    const Array contents = probe.various(walk.count), some = probe.various(walk.count, 13, 4);
    for (Index h = 0; h < 2; ++h) {
      for (Index e = 0; e < 4 * 6; ++e) EXPECT_EQ(some(h, e / 6, e % 6), contents(h, 13 + e / 6, e % 6));
    }
  }
}

TEST(Properties, AnyExecutorGivesTheSameReport) {
  const Executor backwards{3, [](void*, Index tasks, void (*task)(void*, Index), void* data) {
                             for (Index i = tasks; i-- > 0;) task(data, i);
                           }};
  const SpecimenOptions several{.heads = 2, .dim = 16, .length = 300};
  for (const Description& entry : catalog()) {
    SCOPED_TRACE(entry.name);
    std::vector<std::string> steps;
    const std::vector<Property> one = check(entry, several);
    const std::vector<Property> other =
        check(entry, several, backwards, [&](const char* step) { steps.emplace_back(step); });
    ASSERT_EQ(one.size(), other.size());
    ASSERT_EQ(steps.size(), one.size() + 1);
    EXPECT_EQ(steps[0], "examples");
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].name, other[i].name);
      EXPECT_EQ(one[i].name, steps[i + 1]);
      EXPECT_EQ(one[i].evidence, other[i].evidence);
      EXPECT_TRUE(one[i].number == other[i].number || std::isnan(one[i].number));
    }
    const Comparison row = compare(entry, several, backwards);
    EXPECT_EQ(row.decay, one[2].verdict);
    EXPECT_EQ(row.extensible, one[3].verdict);
  }
}

TEST(Properties, ErrorsComeThroughAnExecutor) {
  Description refuses{"refuses", {}, "refuses", "-", {"-", 0, "-"}, "-"};
  refuses.specimen = [](const SpecimenOptions& options, const Record&) {
    if (options.length == 256) throw ShapeError("[refuses] length: must not be 256");
    return Specimen{.options = options};
  };
  const Executor eager{2, [](void*, Index tasks, void (*task)(void*, Index), void* data) {
                         for (Index i = 0; i < tasks; ++i) task(data, i);
                       }};
  expect_error<ShapeError>([&] { check(refuses, small, eager); }, "[refuses] length: must not be 256");
}

TEST(Properties, GrowthIsReadFromIncrements) {
  EXPECT_EQ(growth(7, 7, 7), "O(1)");
  EXPECT_EQ(growth(64 + 3, 256 + 3, 1024 + 3), "O(L)");
  EXPECT_EQ(growth(64 * 64, 256 * 256, 1024 * 1024), "O(L^2)");
  EXPECT_EQ(growth(8, 16, 32), "O(sqrt L)");
  EXPECT_EQ(growth(6, 8, 10), "O(log L)");
  EXPECT_EQ(growth(1, 2, 1000), "grows");
  EXPECT_EQ(growth(36 * 36, 52 * 52, 72 * 72), "grows");  // the square of a logarithm
}

TEST(Properties, AComparisonTellsHowManyPatchesWereMeasured) {
  EXPECT_EQ(compare(*find("swin"), {.heads = 2, .dim = 8, .length = 30}).length, 25);
  EXPECT_EQ(compare(*find("t5"), {.heads = 2, .dim = 8, .length = 30}).length, 30);
  EXPECT_EQ(length_note(30, 30), "");
  EXPECT_EQ(length_note(0, 25), "");
  EXPECT_EQ(length_note(30, 25).find("25 tokens are taken, not 30"), 0u);
}

TEST(Properties, ComparisonIsTheChecksInShort) {
  const Comparison row = compare(*find("t5"), small);
  EXPECT_EQ(row.sites, "score");
  EXPECT_TRUE(row.learnable);
  EXPECT_EQ(row.parameters, 32 * 4);
  EXPECT_EQ(row.relative, Verdict::yes);
  EXPECT_EQ(row.memory, "O(1)");
  EXPECT_EQ(compare(*find("nope"), small).memory, "none");
}

TEST(Properties, ClaimsAboutOneEncodingAreThoseOfAll) {
  std::map<std::string, std::vector<std::string>> by_stem;
  for (const Claim& claim : claims()) by_stem[claim.encoding].push_back(claim.says + claim.measured);
  for (const Description& entry : catalog()) {
    std::vector<std::string> its;
    for (const Claim& claim : claims(entry.name)) its.push_back(claim.says + claim.measured);
    EXPECT_EQ(its, by_stem[entry.name]) << entry.name;
  }
}

TEST(Properties, WhatTrainedModelsDidBelongsToAClaimThatNothingElseDecides) {
  std::size_t found = 0;
  for (const Claim& claim : claims()) {
    if (claim.trained.empty()) continue;
    ++found;
    EXPECT_EQ(claim.holds, Verdict::not_applicable) << claim.says;
    EXPECT_TRUE(claim.trained.ends_with(".md")) << claim.trained;
  }
  EXPECT_EQ(found, trained.size());
}

TEST(Properties, ClaimsAreMeasured) {
  std::map<std::string, Claim> by_text;
  for (const Claim& claim : claims()) by_text.emplace(claim.encoding + ": " + claim.says, claim);
  const auto expect = [&](const char* text, Verdict holds, double number) {
    ASSERT_EQ(by_text.count(text), 1u) << text;
    EXPECT_EQ(by_text.at(text).holds, holds) << text;
    EXPECT_NEAR(by_text.at(text).number, number, 1e-6 * std::abs(number)) << text;
  };
  using enum Verdict;
  expect("sinusoidal: the similarity of two positions decreases smoothly with their distance", no, 1992);
  expect("sinusoidal: code: angle = position * (i*pi / 10000^(2i/d))", no, 135);
  expect("t5: distances up to 8 have buckets of their own", no, 7);
  expect("t5: memory O(L^2)", no, 256);
  expect("rope: with base 500000 the slowest pair turns by 1/500000", no, 1 / 407309.0);
  expect("rope: memory O(L*d)", yes, 512 * 64);
  expect("sinusoidal: memory O(L*d)", not_applicable, 0);  // nothing is kept, unless a program keeps a table
  expect("alibi: relative", yes, 0);
  EXPECT_EQ(by_text.at("learned: extrapolation poor").holds, yes);
  EXPECT_EQ(by_text.at("alibi: extrapolation excellent").holds, not_applicable);
  expect("sinusoidal: the difference of two positions reflects their distance", no, 1992);  // |x−y|² = d − 2 x·y
  expect("sinusoidal: fast pairs average out of the similarity, and slow ones are left", no, 0.70704976);
  expect("sinusoidal: positions 2 and 3 are as far apart in a sequence of any length", yes, 1);
  expect("index_normalised: positions 2 and 3 are as far apart in a sequence of any length", no, 63.0 / 255);
  expect("sinusoidal: added to the input, it lets related tokens score high at any distance", yes, 0.62310975);
  expect("rope: a vector is turned by m*theta, where m is the distance of query and key", no, 7);
  expect("shaw: T tokens need T x 2 x (T - 1) vectors, one for each pair and direction", no, 127);
  EXPECT_EQ(by_text.at("rope: neighbours get the same score in a sequence of any length").holds, yes);
  EXPECT_EQ(by_text.at("rope_dynamic_ntk: neighbours get the same score in a sequence of any length").holds, no);
  // R(2) on the gradient instead of its transpose: the worked example's numbers.
  const Claim& transpose = by_text.at("rope: the rotation is its own transpose, so gradients turn by R(i) too");
  EXPECT_EQ(transpose.holds, no);
  EXPECT_NEAR(transpose.number, 4 * std::sin(2.0), 1e-12);  // (1, 2) turned by 2 and by -2: 2·2·sin 2 apart
}

}  // namespace
}  // namespace bearing::inspect
