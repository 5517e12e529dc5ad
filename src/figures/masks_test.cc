#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>

#include "support/errors.hpp"

namespace bearing::inspect {
namespace {

using test::expect_error;

/// What a cell is called; "" where it is blank.
std::string called(const Figure& drawn, Index i, Index j) {
  const Cells& cells = *drawn.panels[0].cells;
  const double value = cells(i, j);
  return std::isnan(value) ? "" : cells.categories[static_cast<std::size_t>(value)];
}

TEST(Masks, AreCausalUnlessToldOtherwise) {
  const Figure drawn = figure("masks", {});
  ASSERT_EQ(drawn.panels[0].cells->rows, 32);
  for (Index i = 0; i < 32; ++i) {
    for (Index j = 0; j < 32; ++j) EXPECT_EQ(called(drawn, i, j), j <= i ? "seen" : "");
  }
  EXPECT_EQ(drawn.text, "Cells of 32 queries by 32 keys. seen: 528; after the query: 496.");
  const Figure open = figure("masks", {}, {.length = 4, .causal = false});
  EXPECT_EQ(called(open, 0, 3), "seen");
}

TEST(Masks, SayWhyAKeyIsHidden) {
  const Figure drawn = figure("masks", {}, {.length = 12, .window = 3, .sinks = 1, .packed = {6, 4}});
  for (Index i = 0; i < 12; ++i) {
    for (Index j = 0; j < 12; ++j) {
      const bool same = (i < 6) == (j < 6);
      const std::string wanted = i >= 10 || j >= 10 ? "padding"
                                 : !same            ? "other sequence"
                                 : j > i            ? ""
                                 : i - j < 3        ? "seen"
                                 : j == 0 || j == 6 ? "seen, a sink"
                                                    : "out of the window";
      EXPECT_EQ(called(drawn, i, j), wanted) << i << ", " << j;
    }
  }
  EXPECT_EQ(drawn.panels[0].x.ticks[1].text, "3");  // the middle of the first sequence
}

TEST(Masks, HaveTheWindowOfAModelUnlessOneIsAskedFor) {
  std::vector<Subject> model{{"model", *find("rope"), {.longest = 4096, .window = 8}}};
  const Figure drawn = figure("masks", model, {.length = 32});
  EXPECT_EQ(drawn.title, "What a query sees: causal, window 8");
  EXPECT_NE(drawn.text.find("seen: 228;"), std::string::npos) << drawn.text;
  EXPECT_EQ(figure("masks", model, {.length = 32, .window = 4}).title, "What a query sees: causal, window 4");
  model[0].lengths.after = 7;
  EXPECT_EQ(figure("masks", model, {.length = 32}).title, "What a query sees: both directions, window 8");
  EXPECT_EQ(figure("masks", model, {.length = 32, .causal = true}).title, "What a query sees: causal, window 8");
  model[0].lengths.after = 9;
  const Figure uneven = figure("masks", model, {.length = 32});
  EXPECT_EQ(uneven.title, "What a query sees: both directions, window of 7 before and 9 after");
  // 32 times 1 + 7 + 9, less what lies outside: 0 + 1 + … + 7 of the first rows, 0 + 1 + … + 9 of the last.
  EXPECT_NE(uneven.text.find("seen: 471;"), std::string::npos) << uneven.text;
}

// Llama 4: a token sees those before it in its own chunk.
TEST(Masks, HaveTheChunksOfAModel) {
  std::vector<Subject> model{{"model", *find("rope"), {.longest = 4096, .window = 4, .chunked = true}}};
  const Figure causal = figure("masks", model, {.length = 10});
  EXPECT_EQ(causal.title, "What a query sees: causal, chunks of 4");
  for (Index i = 0; i < 10; ++i) {
    for (Index j = 0; j < 10; ++j) {
      EXPECT_EQ(called(causal, i, j), j > i ? "" : i / 4 == j / 4 ? "seen" : "other chunk") << i << ", " << j;
    }
  }
  EXPECT_EQ(causal.text.substr(0, causal.text.find(" model")),
            "Cells of 10 queries by 10 keys. seen: 23; after the query: 45; other chunk: 32.");
  EXPECT_EQ(figure("masks", model, {.length = 10, .window = 3}).title, "What a query sees: causal, window 3")
      << "one that is asked for";
  // Chunks are counted anew in each packed sequence, as positions are.
  const Figure packed = figure("masks", model, {.length = 10, .packed = {6, 4}});
  EXPECT_EQ(called(packed, 9, 6), "seen");
  EXPECT_EQ(called(packed, 5, 3), "other chunk");
  EXPECT_EQ(called(packed, 9, 5), "other sequence");
  // Encoders of speech see all of their chunk; SeamlessM4T 2 some before it, too.
  model[0].lengths.after = 3;
  const Figure both = figure("masks", model, {.length = 10});
  EXPECT_EQ(both.title, "What a query sees: both directions, chunks of 4");
  model[0].lengths.chunks_before = 1;
  const Figure before = figure("masks", model, {.length = 10});
  EXPECT_EQ(before.title, "What a query sees: both directions, chunks of 4 and 1 before");
  model[0].lengths.chunks_before = -1;
  const Figure all = figure("masks", model, {.length = 10});
  EXPECT_EQ(all.title, "What a query sees: both directions, chunks of 4 and all before");
  for (Index i = 0; i < 10; ++i) {
    for (Index j = 0; j < 10; ++j) {
      const Index later = i / 4 - j / 4;
      EXPECT_EQ(called(both, i, j), later == 0 ? "seen" : "other chunk") << i << ", " << j;
      EXPECT_EQ(called(before, i, j), later == 0 || later == 1 ? "seen" : "other chunk") << i << ", " << j;
      EXPECT_EQ(called(all, i, j), later >= 0 ? "seen" : "other chunk") << i << ", " << j;
    }
  }
}

TEST(Masks, LookBothWaysWhereTheModelDoes) {
  const auto title = [](const Subject& subject, std::optional<bool> causal = {}) {
    return figure("masks", std::vector<Subject>{subject}, {.length = 8, .causal = causal}).title;
  };
  const std::string causal = "What a query sees: causal", both = "What a query sees: both directions";
  EXPECT_EQ(title({"t5", *find("t5")}), both);
  EXPECT_EQ(title({"t5_causal", *find("t5_causal")}), causal);
  EXPECT_EQ(title({"xlnet", *find("xlnet")}), both);
  EXPECT_EQ(title({"rope", *find("rope")}), causal);
  EXPECT_EQ(title({.name = "@esm.json", .description = *find("rope"), .task = "understand"}), both);
  EXPECT_EQ(title({.name = "@llama.json", .description = *find("rope"), .task = "generate"}), causal);
  EXPECT_EQ(title({.name = "@esm.json", .description = *find("rope")}), causal + " (assumed)");
  EXPECT_EQ(title({.name = "@bloom.json", .description = *find("t5_causal")}), causal) << "the spec says it";
  EXPECT_EQ(title({.name = "@mistral.json", .description = *find("rope"), .lengths = {.window = 4}}),
            causal + ", window 4");
  EXPECT_EQ(title({.name = "@esm.json", .description = *find("rope")}, true), causal);
  EXPECT_EQ(title({.name = "@esm.json", .description = *find("rope")}, false), both);
}

TEST(Masks, ReachBothWaysWithoutCausality) {
  const Figure drawn = figure("masks", {}, {.length = 8, .causal = false, .window = 2});
  EXPECT_EQ(called(drawn, 4, 5), "seen");
  EXPECT_EQ(called(drawn, 4, 6), "out of the window");
}

TEST(Masks, ShowABiasWhereKeysAreSeen) {
  const std::vector<Subject> alibi{{"alibi", *find("alibi")}};
  const Figure drawn = figure("masks", alibi, {.length = 10, .head = 2, .packed = {6, 4}});
  ASSERT_EQ(drawn.panels.size(), 2u);
  const Specimen specimen = make(*find("alibi"), {.heads = 8, .dim = 64, .length = 10});
  const Array content(8, 10, 64);
  const Array bias = specimen.scores(specimen.tokens(10), specimen.tokens(10), content, content);
  const Cells& cells = *drawn.panels[1].cells;
  for (Index i = 0; i < 10; ++i) {
    for (Index j = 0; j < 10; ++j) {
      if ((i < 6) == (j < 6) && j <= i) {
        EXPECT_EQ(cells(i, j), bias(2, i, j));  // by the distance, which packing keeps
      } else {
        EXPECT_TRUE(std::isnan(cells(i, j)));
      }
    }
  }
}

TEST(Masks, RefuseWhatCannotBe) {
  expect_error<RangeError>(
      [] {
        (void)figure("masks", {}, {.length = 8, .packed = {6, 4}});
      },
      "[figure] packed: must be lengths of 1 or more whose sum is at most 8, got 4");
  EXPECT_THROW((void)figure("masks", {}, {.sinks = 2}), RangeError);
  EXPECT_THROW((void)figure("masks", {}, {.window = -1}), RangeError);
  EXPECT_THROW((void)figure("masks", {}, {.length = 2000}), RangeError);
  const std::vector<Subject> one{{"alibi", *find("alibi")}};
  EXPECT_THROW((void)figure("masks", one, {.head = 8}), RangeError);
  const std::vector<Subject> none{{"nope", *find("nope")}};
  EXPECT_THROW((void)figure("masks", none), RangeError);
}

TEST(Masks, TellALengthThatIsNoGrid) {
  const std::vector<Subject> window{{"swin", *find("swin")}};
  EXPECT_NE(figure("masks", window, {.length = 30}).text.find("swin: 25 tokens are taken, not 30: "),
            std::string::npos);
  EXPECT_EQ(figure("masks", window, {.length = 25}).text.find("are taken"), std::string::npos);
}

}  // namespace
}  // namespace bearing::inspect
