#include <gtest/gtest.h>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>
#include <cmath>
#include <vector>

namespace bearing::inspect {
namespace {

Figure buckets_of(Subject subject, const FigureOptions& options = {}) {
  return figure("buckets", std::vector<Subject>{std::move(subject)}, options);
}
Figure buckets_of(const char* name, const FigureOptions& options = {}) {
  return buckets_of(Subject{name, *find(name)}, options);
}

void expect_t5(const Panel& panel, const T5& t5, Index first, Index last) {
  ASSERT_EQ(panel.series.size(), 1u);
  const Series& steps = panel.series[0];
  ASSERT_EQ(std::ssize(steps.x), last - first + 1);
  for (Index d = first; d <= last; ++d) {
    const auto at = static_cast<std::size_t>(d - first);
    EXPECT_EQ(steps.x[at], static_cast<double>(d));
    EXPECT_EQ(steps.y[at], static_cast<double>(t5_bucket(t5, d))) << d;
  }
}

TEST(BucketsFigure, AreT5s) {
  const Figure both = buckets_of("t5"), causal = buckets_of("t5_causal");
  expect_t5(both.panels.at(0), {.direction = T5Direction::bidirectional}, -159, 159);
  expect_t5(causal.panels.at(0), {.direction = T5Direction::causal}, -159, 0);
  expect_t5(buckets_of("t5_causal", {.length = 20, .causal = false}).panels.at(0), {.direction = T5Direction::causal},
            -19, 19);
  EXPECT_EQ(both.text,
            "t5: 31 of 32 rows of table serve distances -159 to 159; before the query each has its own as far as -7; "
            "after it as far as 7; the farthest before the query begins at -91.");
  const T5Buckets buckets({.direction = T5Direction::bidirectional});
  EXPECT_EQ(buckets.interval(-91).bucket, buckets.interval(-1000).bucket);
  EXPECT_EQ(buckets.interval(-1000).last, -91);
  EXPECT_EQ(both.panels[0].guides.size(), 3u);
  EXPECT_EQ(both.panels[0].guides[1].text, "exact: -7 to 7");
}

TEST(BucketsFigure, AreThoseOfTheSpecThatWasSaid) {
  const T5 said{.buckets = 8, .max_distance = 20, .direction = T5Direction::bidirectional};
  Subject subject{"t5:buckets=8", *find("t5")};
  subject.description.spec = [said](const SpecimenOptions&) { return Record::of(said); };
  expect_t5(buckets_of(subject, {.length = 40}).panels.at(0), said, -39, 39);
}

TEST(BucketsFigure, AreThereWhereAScoreIsMoreThanATablesNumber) {
  const T5 as_t5{.direction = T5Direction::bidirectional};
  // TUPE-R adds products of positions, and gives [CLS] at 0 a row: the farthest distances are those of [CLS] alone.
  const Figure tupe = buckets_of("tupe_r", {.length = 40});
  ASSERT_EQ(tupe.panels.size(), 1u);
  EXPECT_EQ(tupe.panels[0].y.title, "row of bias");
  for (Index d = -38; d <= 38; ++d) {
    EXPECT_EQ(tupe.panels[0].series[0].y[static_cast<std::size_t>(d + 39)], static_cast<double>(t5_bucket(as_t5, d)));
  }
  const Figure gated = buckets_of("gated_t5", {.length = 40});
  EXPECT_EQ(gated.panels.at(0).y.title, "row of table");
  const Figure shaw = buckets_of("shaw", {.length = 40});
  ASSERT_EQ(shaw.panels.size(), 1u);
  const Record spec = find("shaw")->spec({.heads = 1, .dim = 8, .length = 40});
  for (Index d = -39; d <= 39; ++d) {
    EXPECT_EQ(shaw.panels[0].series[0].y[static_cast<std::size_t>(d + 39)],
              static_cast<double>(spec.as<Shaw>()->row(d)));
  }
  EXPECT_EQ(buckets_of("deberta_v2").panels.size(), 2u);  // of keys and of queries
}

TEST(BucketsFigure, OfAGridAreCells) {
  const Figure drawn = buckets_of("swin", {.length = 25});
  ASSERT_TRUE(drawn.panels.at(0).cells);
  const Cells& cells = *drawn.panels[0].cells;
  ASSERT_EQ(cells.rows, 9);
  const Swin swin{.height = 5, .width = 5};
  for (Index y = -4; y <= 4; ++y) {
    for (Index x = -4; x <= 4; ++x) {
      const double query[2] = {static_cast<double>(std::max<Index>(0, -y)),
                               static_cast<double>(std::max<Index>(0, -x))};
      const double key[2] = {query[0] + static_cast<double>(y), query[1] + static_cast<double>(x)};
      EXPECT_EQ(cells(y + 4, x + 4), static_cast<double>(swin.row(query, key))) << y << " " << x;
    }
  }
}

TEST(BucketsFigure, OfAWindowThatIsNoSquareReachItsSides) {
  const Swin swin{.height = 3, .width = 4};
  Subject subject{"window", *find("swin")};
  subject.description.spec = [swin](const SpecimenOptions&) { return Record::of(swin); };
  const Figure drawn = buckets_of(subject);
  const Cells& cells = *drawn.panels.at(0).cells;
  ASSERT_EQ(cells.rows, 5);
  ASSERT_EQ(cells.cols, 7);
  EXPECT_EQ(cells.x_first, -3);
  EXPECT_EQ(cells.y_first, -2);
  const double origin[2] = {0, 0}, corner[2] = {2, 3};
  EXPECT_EQ(cells(4, 6), static_cast<double>(swin.row(origin, corner)));
  EXPECT_EQ(cells(0, 0), static_cast<double>(swin.row(corner, origin)));
  EXPECT_NE(drawn.text.find("up to 2 rows and 3 columns away"), std::string::npos) << drawn.text;
}

TEST(BucketsFigure, NameWhatHasNone) {
  EXPECT_THROW((void)buckets_of("t5", {.length = 1}), RangeError);
  for (const char* name : {"alibi", "rope", "nope", "sinusoidal", "kerple_log", "fire", "dense_bias", "bucket_bias"}) {
    try {
      (void)buckets_of(name);
      ADD_FAILURE() << name;
    } catch (const RangeError& error) {
      EXPECT_EQ(std::string(error.what())
                    .find("[figure] " + std::string(name) + ": must have a table whose rows are picked by distance"),
                0u)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace bearing::inspect
