#include <algorithm>
#include <bearing/error.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "figures/kinds.hpp"
#include "figures/matrices.hpp"

// Which row of a learned table belongs to each distance. No encoding is asked for its rule: scores are linear in a
// table, so that one whose rows hold their own numbers, against one of ones and one of zeros, tells the row of every
// pair.

namespace bearing::inspect {
namespace {

/// An encoding's score where one of its parameters holds a number for each row, for some queries and all keys.
class Probed {
 public:
  Probed(const Subject& subject, const SpecimenOptions& size, std::size_t parameter)
      : description_(subject.description), info_(*description_.encoding), size_(size) {
    if (description_.spec) spec_ = description_.spec(size);
    drawn_ = &info_.parameters[parameter].drawn;
    row_axis_ = info_.parameters[parameter].extents.size() - 2;
    for (ParameterInfo& one : info_.parameters) {
      for (Extent& extent : one.extents) {  // which only a call tells: it has one query
        if (extent.name == "q_len") extent.size = [](const Record&, const Sizes&) { return Index{1}; };
      }
    }
    description_.encoding = &info_;
    description_.specimen = nullptr;  // the example that draws what the description says, here with other numbers
  }
  Probed(const Probed&) = delete;

  /// Whether the description tells all extents: only a call tells some.
  bool tells_extents() const {
    const Sizes sizes{.batch = 1,
                      .heads = size_.heads,
                      .kv_heads = size_.heads,
                      .dim = size_.dim,
                      .value_dim = size_.dim,
                      .length = size_.length};
    for (const ParameterInfo& one : info_.parameters) {
      if (!one.drawn.fill || (one.wanted && !one.wanted(spec_))) continue;
      for (const Extent& extent : one.extents) {
        const bool open = !extent.or_one && !extent.usual && extent.name != "sets";
        if (open && extent.size(spec_, sizes) == Extent::any) return false;
      }
    }
    return true;
  }

  /// [heads, queries, keys] with `of(row)` in every row; `rows` is how many there are.
  template <class Number>
  Array scores(const Tokens& queries, const Tokens& keys, Number of) {
    drawn_->fill = [this, of](const Filling& to) {
      Index after = 1;
      for (std::size_t axis = row_axis_ + 1; axis < to.extents.size(); ++axis) after *= to.extents[axis];
      rows = to.extents[row_axis_];
      for (std::size_t n = 0; n < to.numbers.size(); ++n) {
        to.numbers[n] = of(static_cast<Index>(n) / std::max<Index>(after, 1) % rows);
      }
    };
    const Specimen made = make(description_, size_, spec_);
    Array q(size_.heads, queries.count(), size_.dim), k(size_.heads, keys.count(), size_.dim);
    std::fill(q.values.begin(), q.values.end(), 1.0);
    std::fill(k.values.begin(), k.values.end(), 1.0);
    return made.scores(queries, keys, q, k);
  }

  Index rows = 0;

 private:
  Description description_;
  EncodingInfo info_;
  SpecimenOptions size_;
  Record spec_;
  Rule* drawn_ = nullptr;
  std::size_t row_axis_ = 0;
};

/// The row that a parameter has for each offset, key minus query: [1, 1, 2n − 1] of a sequence,
/// [1, 2 height − 1, 2 width − 1] of an image. NaN: none.
struct Picked {
  std::string table;
  Array row;
  Index rows = 0;
};

constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// Queries whose offsets to keys first … n − 1 are all offsets, some of them twice.
std::vector<Index> probing_queries(const Specimen& specimen, Index first) {
  const Index n = specimen.options.length, w = specimen.grid.width;
  if (w == 0) return {first, (first + n) / 2, n - 1};
  return {0, w - 1, n / 2, n - w, n - 1};
}

/// Puts the rows of one query's keys where their offsets are; false where an offset has another row already.
bool put(const std::vector<double>& row, Index query, Index first, Index width, Array& to) {
  const Index middle = to.shape[1] / 2, centre = to.shape[2] / 2;
  for (Index key = first; key < first + std::ssize(row); ++key) {
    const Index down = width > 0 ? key / width - query / width + middle : 0;
    const Index right = (width > 0 ? key % width - query % width : key - query) + centre;
    double& there = to(0, down, right);
    const double here = row[static_cast<std::size_t>(key - first)];
    if (!std::isnan(there) && !std::isnan(here) && there != here) return false;
    if (std::isnan(there)) there = here;
  }
  return true;
}

/// The row of each key for one query; empty: its number is no row.
std::vector<double> rows_for(Probed& probed, const Tokens& query, const Tokens& keys) {
  const Array zero = probed.scores(query, keys, [](Index) { return 0.0; });
  const Array one = probed.scores(query, keys, [](Index) { return 1.0; });
  const Array own = probed.scores(query, keys, [](Index row) { return static_cast<double>(row); });
  std::vector<double> rows;
  for (Index j = 0; j < keys.count(); ++j) {
    const double unit = one(0, 0, j) - zero(0, 0, j), number = (own(0, 0, j) - zero(0, 0, j)) / unit;
    const double whole = std::round(number);
    rows.push_back(unit == 0 ? none : whole);
    const bool is_row = std::abs(number - whole) < 1e-6 && whole >= 0 && whole < static_cast<double>(probed.rows);
    if (unit != 0 && !is_row) return {};
  }
  return rows;
}

/// Among tokens first, first + 1, …. Empty: its rows are not picked by distance.
std::optional<Picked> picked_from(const Shown& shown, std::size_t parameter, Index first) {
  const Specimen& s = shown.specimen;
  Probed probed(*shown.subject, s.options, parameter);
  if (!probed.tells_extents()) return {};
  const Index n = s.options.length, w = s.grid.width;
  Picked picked{shown.subject->description.encoding->parameters[parameter].name,
                w > 0 ? Array(1, 2 * s.grid.height - 1, 2 * w - 1) : Array(1, 1, 2 * n - 1)};
  std::fill(picked.row.values.begin(), picked.row.values.end(), none);
  for (const Index query : probing_queries(s, first)) {
    const std::vector<double> rows = rows_for(probed, s.tokens(1, query), s.tokens(n - first, first));
    if (rows.empty() || !put(rows, query, first, w, picked.row)) return {};
  }
  picked.rows = probed.rows;
  return picked;
}

/// The same, also where the first token is a special one: [CLS].
std::optional<Picked> picked_by_most(const Shown& shown, std::size_t parameter) {
  const Specimen& s = shown.specimen;
  std::optional<Picked> picked = picked_from(shown, parameter, 0);
  if (picked || s.is_image() || s.options.length < 3) return picked;
  return picked_from(shown, parameter, 1);
}

/// Rows of a table: numbers that no call computes, by row before the last axis.
bool may_be_a_table(const ParameterInfo& parameter) {
  return parameter.extents.size() >= 2 && parameter.drawn.fill && !parameter.indices;
}

std::vector<Picked> tables_of(const Shown& shown) {
  const Specimen& s = shown.specimen;
  const EncodingInfo* info = shown.subject->description.encoding;
  std::vector<Picked> all;
  if (info == nullptr || !s.score_terms || s.by_index) return all;
  for (std::size_t p = 0; p < info->parameters.size(); ++p) {
    if (!may_be_a_table(info->parameters[p])) continue;
    std::optional<Picked> picked = picked_by_most(shown, p);
    if (!picked) continue;
    std::set<double> rows;
    for (const double row : picked->row.values) {
      if (!std::isnan(row)) rows.insert(row);
    }
    if (rows.size() > 1) all.push_back(std::move(*picked));
  }
  return all;
}

/// The first bucket of several distances on each side of the query, and the last one: where they begin.
struct Ends {
  std::optional<Run> before = {}, after = {};  ///< nearest the query
  Run last = {};                               ///< the farthest before the query, else after it
};
Ends ends_of(const std::vector<Run>& steps) {
  Ends ends{.last = steps.front()};
  for (const Run& run : steps) {
    if (run.first == run.last || (run.first <= 0 && run.last >= 0)) continue;
    if (run.last < 0) ends.before = run;
    if (run.first > 0 && !ends.after) ends.after = run;
  }
  if (steps.front().first == 0) ends.last = steps.back();
  return ends;
}

std::string said(const Shown& shown, const Picked& picked, const std::vector<Run>& steps) {
  const Ends ends = ends_of(steps);
  std::set<double> rows;
  for (const Run& run : steps) rows.insert(run.value);
  std::string text = text::concat(shown.name(), ": ", std::ssize(rows), " of ", picked.rows, " rows of ", picked.table,
                                  " serve distances ", steps.front().first, " to ", steps.back().last);
  if (ends.before) text += text::concat("; before the query each has its own as far as ", ends.before->last + 1);
  if (ends.after) text += text::concat("; after it as far as ", ends.after->first - 1);
  if (!ends.before && !ends.after) return text + "; each has its own. ";
  const bool back = ends.last.last < 0;
  return text + text::concat("; the farthest ", back ? "before the query" : "after it", " begins at ",
                             back ? ends.last.last : ends.last.first, ". ");
}

Panel steps_panel(const Shown& shown, const Picked& picked, bool causal, std::string& text) {
  const Index n = shown.specimen.options.length;
  const Index last = causal ? 0 : n - 1;
  std::vector<double> rows(picked.row.values.begin(), picked.row.values.begin() + (last + n));
  Panel panel{.x = token_axis("distance, key - query (tokens)", static_cast<double>(1 - n), static_cast<double>(last)),
              .y = {"row of " + picked.table}};
  Series line{.y = rows, .stroke = Stroke::steps};
  for (Index d = 1 - n; d <= last; ++d) line.x.push_back(static_cast<double>(d));
  Range range;
  range.reach(rows);
  panel.y = axis_over(panel.y.title, range);
  panel.series.push_back(std::move(line));
  // Distances without a row lie at the ends: what is between them has one.
  Index first = 1 - n;
  while (!rows.empty() && std::isnan(rows.back())) rows.pop_back();
  const auto start = std::find_if(rows.begin(), rows.end(), [](double row) { return !std::isnan(row); });
  first += start - rows.begin();
  rows.erase(rows.begin(), start);
  const std::vector<Run> steps = runs(dense<const double>(rows.data(), std::ssize(rows)), first);
  const Ends ends = ends_of(steps);
  panel.guides.push_back({.upright = true, .at = 0});
  const Index near = ends.before ? ends.before->last + 1 : 0, far = ends.after ? ends.after->first - 1 : 0;
  if (ends.before) {
    panel.guides.push_back({true, static_cast<double>(near), text::concat("exact: ", near, " to ", far)});
  }
  if (ends.after) {
    panel.guides.push_back(
        {true, static_cast<double>(far), ends.before ? std::string() : text::concat("exact: 0 to ", far)});
  }
  text += said(shown, picked, steps);
  return panel;
}

Panel grid_panel(const Shown& shown, const Picked& picked, std::string& text) {
  const GridSize& grid = shown.specimen.grid;
  const auto down = static_cast<double>(grid.height - 1), right = static_cast<double>(grid.width - 1);
  Panel panel{.round = true, .cells = cells_from_top(picked.row, 0)};
  panel.cells->x_first = -right, panel.cells->y_first = -down;
  panel.x = {"right, key - query (patches)", -right - 0.5, right + 0.5};
  panel.y = {"down, key - query (patches)", down + 0.5, -down - 0.5};
  const Range range = range_of(*panel.cells);
  panel.cells->low = range.low, panel.cells->high = std::max(range.high, range.low + 1);
  panel.cells->title = "row of " + picked.table;
  std::set<double> rows;
  for (const double row : panel.cells->values) {
    if (!std::isnan(row)) rows.insert(row);
  }
  text += text::concat(shown.name(), ": ", std::ssize(rows), " of ", picked.rows, " rows of ", picked.table, " serve ",
                       panel.cells->rows * panel.cells->cols, " offsets in a grid, up to ",
                       down == right
                           ? text::concat(short_number(right), " patches away on either axis. ")
                           : text::concat(short_number(down), " rows and ", short_number(right), " columns away. "));
  return panel;
}

Figure buckets(std::span<const Subject> encodings, const FigureOptions& options) {
  if (options.length == 1) throw RangeError("[figure] length: must be at least 2, so that tokens lie apart, got 1");
  const std::vector<Shown> shown = examples(encodings, options, {.heads = 1, .dim = 8, .length = 160});
  Figure figure{.title = "The table's row for each distance: " + names_of(shown)};
  for (const Shown& one : shown) {
    const std::vector<Picked> tables = tables_of(one);
    if (tables.empty()) nothing_to_show(one, "must have a table whose rows are picked by distance");
    for (const Picked& picked : tables) {
      Panel& panel = figure.panels.emplace_back(
          one.specimen.is_image()
              ? grid_panel(one, picked, figure.text)
              : steps_panel(one, picked, options.causal.value_or(one.specimen.causal), figure.text));
      panel.title = tables.size() == 1 ? one.name() : text::concat(one.name(), ", ", picked.table);
    }
  }
  figure.text.pop_back();
  figure.columns = columns_for(figure.panels.size());
  return figure;
}

}  // namespace

FigureKind buckets_kind() {
  return {"buckets", "which row of a table each distance picks", 1, 8, {"length", "seed", "causal"}, buckets};
}

}  // namespace bearing::inspect
