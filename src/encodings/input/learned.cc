#include <algorithm>
#include <bearing/encodings/learned.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <vector>

#include "describe/describer.hpp"
#include "describe/tensors.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

Index Learned::rows() const {
  if (length < 0 || length > max_position || offset < 0 || offset > max_position) {
    throw RangeError(concat("[Learned] length, offset: must be from 0 to 2^31, got ", length, ", ", offset));
  }
  return length + offset;
}

template <class A>
LearnedInputs<A>::LearnedInputs(const Learned& spec, Param<A, 2> table) : spec_(spec), table_(table) {
  const std::array<Index, 2> shape{spec.rows(), spec.dim};
  if (spec.dim < 1) throw ShapeError(concat("[Learned] dim: must be at least 1, got ", spec.dim));
  if (spec.padding_row && (*spec.padding_row < 0 || *spec.padding_row >= shape[0])) {
    throw RangeError(
        concat("[Learned] padding_row: must be a row of the table, 0 to ", shape[0] - 1, ", got ", *spec.padding_row));
  }
  if (table.value.shape != shape) {
    throw ShapeError(
        concat("[LearnedInputs] table: must be [length + offset, dim] = ", shape, ", got ", table.value.shape));
  }
  check_tensor("LearnedInputs", "table", table.value);
  if (table.grad.data != nullptr && table.grad.shape != shape) {
    throw ShapeError(
        concat("[LearnedInputs] table.grad: must have the shape of the table, ", shape, ", got ", table.grad.shape));
  }
  if (table.grad.data != nullptr) check_output("LearnedInputs", "table.grad", table.grad);
}

template <class A>
void LearnedInputs<A>::check(const char* function, const Problem& problem) const {
  const Positions& at = *problem.q_positions;
  if (at.axes() != 1) {
    throw ShapeError(concat("[", function, "] positions: must have one axis for Learned, got ", at.axes()));
  }
  const double length = static_cast<double>(spec_.length);
  const Index padding = spec_.padding_row ? *spec_.padding_row - spec_.offset : 0;
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index t = 0; t < problem.q_len; ++t) {
      const double p = at.real(0, b, t);
      const bool whole = p == std::floor(p);
      if (whole && ((p >= 0 && p < length) || (spec_.padding_row && p == static_cast<double>(padding)))) continue;
      throw RangeError(concat("[", function, "] positions: must be whole and lie in [0, ", spec_.length,
                              "), the length of the learned table, got ", p, " at [batch ", b, ", time ", t, "]"));
    }
  }
}

template <class A>
void LearnedInputs<A>::inputs(const RowTile& tile, A* p) const {
  for (Index r = 0; r < tile.rows; ++r) {
    const Index row = static_cast<Index>(tile.at[0][r]) + spec_.offset;
    for (Index d = 0; d < spec_.dim; ++d) p[r * tile.y_stride + d] = table_.value(row, d);
  }
}

template <class A>
void LearnedInputs<A>::input_grads(const RowTile& tile, const A* d_p, A*) const {
  for (Index r = 0; r < tile.rows; ++r) {
    const Index row = static_cast<Index>(tile.at[0][r]) + spec_.offset;
    if (spec_.padding_row && row == *spec_.padding_row) continue;
    for (Index d = 0; d < spec_.dim; ++d) table_.grad(row, d) += d_p[r * tile.y_stride + d];
  }
}

template class LearnedInputs<float>;
template class LearnedInputs<double>;

namespace {

/// The rows that one new row is made of.
struct Taps {
  std::array<Index, 4> row{};
  std::array<double, 4> weight{};
  int size = 0;
};

/// For row i of `to`, sampled among `from` rows.
Taps taps(Interpolation how, Index i, Index from, Index to) {
  const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  const double below = std::floor(at), t = at - below;
  Taps taps;
  const auto add = [&](Index offset, double weight) {
    const auto n = static_cast<std::size_t>(taps.size++);
    taps.row[n] = std::clamp<Index>(static_cast<Index>(below) + offset, 0, from - 1);
    taps.weight[n] = weight;
  };
  if (how == Interpolation::linear) {
    add(0, 1 - t);
    add(1, t);
    return taps;
  }
  constexpr double a = -0.75;
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };       // |x| ≤ 1
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };  // 1 ≤ |x| ≤ 2
  add(-1, far(1 + t));
  add(0, near(t));
  add(1, near(1 - t));
  add(2, far(2 - t));
  return taps;
}

void check_prefix(const char* function, Index prefix) {
  if (prefix >= 0 && prefix <= max_position) return;
  throw ShapeError(concat("[", function, "] prefix: must be from 0 to 2^31, got ", prefix));
}

template <class T>
void check_resize(const char* function, Interpolation how, Index prefix, View<const T, 2> from, Index from_rows,
                  View<T, 2> to, Index to_rows) {
  if (how != Interpolation::linear && how != Interpolation::cubic) {
    throw ShapeError(concat("[", function, "] how: must be linear or cubic, got ", static_cast<Index>(how)));
  }
  if (from_rows < 1 || to_rows < 0) {
    throw ShapeError(concat("[", function, "] from, to: must have rows to sample after the prefix of ", prefix,
                            ", got ", from.shape, ", ", to.shape));
  }
  if (from.shape != std::array<Index, 2>{prefix + from_rows, from.shape[1]} ||
      to.shape != std::array<Index, 2>{prefix + to_rows, from.shape[1]}) {
    throw ShapeError(concat("[", function, "] from, to: must be [", prefix + from_rows, ", dim] and [",
                            prefix + to_rows, ", dim], got ", from.shape, ", ", to.shape));
  }
  check_tensor(function, "from", from);
  check_output(function, "to", to);
  check_apart(function, "to", to, "from", from);
}

template <class T>
void resample(Interpolation how, Index prefix, View<const T, 2> from, GridSize from_grid, View<T, 2> to,
              GridSize to_grid) {
  const Index dim = from.shape[1];
  for (Index r = 0; r < prefix; ++r) {
    for (Index d = 0; d < dim; ++d) to(r, d) = from(r, d);
  }
  std::vector<double> sum(static_cast<std::size_t>(dim));
  for (Index y = 0; y < to_grid.height; ++y) {
    const Taps along_y = taps(how, y, from_grid.height, to_grid.height);
    for (Index x = 0; x < to_grid.width; ++x) {
      const Taps along_x = taps(how, x, from_grid.width, to_grid.width);
      std::fill(sum.begin(), sum.end(), 0.0);
      for (std::size_t v = 0; v < static_cast<std::size_t>(along_y.size); ++v) {
        for (std::size_t u = 0; u < static_cast<std::size_t>(along_x.size); ++u) {
          const double weight = along_y.weight[v] * along_x.weight[u];
          const Index row = prefix + along_y.row[v] * from_grid.width + along_x.row[u];
          for (Index d = 0; d < dim; ++d)
            sum[static_cast<std::size_t>(d)] += weight * static_cast<double>(from(row, d));
        }
      }
      const Index row = prefix + y * to_grid.width + x;
      for (Index d = 0; d < dim; ++d) to(row, d) = static_cast<T>(sum[static_cast<std::size_t>(d)]);
    }
  }
}

}  // namespace

template <class T>
void resize(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from, View<T, 2> to) {
  check_prefix("resize", prefix);
  const Index from_rows = from.shape[0] - prefix, to_rows = to.shape[0] - prefix;
  check_resize("resize", how, prefix, from, from_rows, to, to_rows);
  resample(how, prefix, from, {from_rows, 1}, to, {to_rows, 1});
}

template <class T>
void resize_grid(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from, GridSize from_grid,
                 View<T, 2> to, GridSize to_grid) {
  check_prefix("resize_grid", prefix);
  for (const GridSize& grid : {from_grid, to_grid}) {
    if (countable_grid(grid.height, grid.width)) continue;
    throw ShapeError(concat("[resize_grid] from_grid, to_grid: must be at least 0 and make at most 2^31 patches, got ",
                            grid.height, " by ", grid.width));
  }
  check_resize("resize_grid", how, prefix, from, from_grid.height * from_grid.width, to,
               to_grid.height * to_grid.width);
  resample(how, prefix, from, from_grid, to, to_grid);
}

#define BEARING_INSTANTIATE(T)                                                 \
  template void resize<T>(Interpolation, Index, View<const T, 2>, View<T, 2>); \
  template void resize_grid<T>(Interpolation, Index, View<const T, 2>, GridSize, View<T, 2>, GridSize);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

template <>
struct describe::Words<Interpolation> {
  static constexpr const char* all[] = {"linear", "cubic"};
};

namespace {

Tensor resized(const Tensor& table, Index rows, Interpolation how, Index prefix) {
  return describe::in_arithmetic_of("[resize] table", table, [&]<class A>() {
    const View<const A, 2> from = describe::view_of<A, 2>("[resize] table", table);
    check_prefix("resize", prefix);
    if (from.shape[0] <= prefix) {
      throw ShapeError(
          concat("[resize] table: must have rows after the prefix of ", prefix, ", got shape ", from.shape));
    }
    if (rows < prefix) throw ShapeError(concat("[resize] rows: must be at least prefix = ", prefix, ", got ", rows));
    describe::NewTensor<A, 2> to({rows, from.shape[1]});
    resize<A>(how, prefix, from, to.view);
    return to.tensor;
  });
}

GridSize grid_of(const char* argument, const std::pair<Index, Index>& sides) {
  const auto [height, width] = sides;
  if (!countable_grid(height, width)) {
    throw ShapeError(text::concat("[resize_grid] ", argument,
                                  ": must be (height, width) of at most 2^31 patches, got (", height, ", ", width,
                                  ")"));
  }
  return {height, width};
}

using Sides = std::pair<Index, Index>;

Tensor resized_grid(const Tensor& table, const Sides& from_grid, const Sides& to_grid, Interpolation how,
                    Index prefix) {
  const GridSize before = grid_of("from_grid", from_grid), after = grid_of("to_grid", to_grid);
  return describe::in_arithmetic_of("[resize_grid] table", table, [&]<class A>() {
    const View<const A, 2> from = describe::view_of<A, 2>("[resize_grid] table", table);
    check_prefix("resize_grid", prefix);
    const Index wanted = prefix + before.height * before.width;
    if (from.shape[0] != wanted) {
      throw ShapeError(concat("[resize_grid] table: must be [prefix + patches of from_grid, dim] = [", wanted,
                              ", dim], got shape ", from.shape));
    }
    describe::NewTensor<A, 2> to({prefix + after.height * after.width, from.shape[1]});
    resize_grid<A>(how, prefix, from, before, to.view, after);
    return to.tensor;
  });
}

}  // namespace

void describe_learned(Describer& to) {
  to.home("learned", {"Gehring et al.", 2017, "arXiv 1705.03122"});
  to.record("Learned", Learned{},
            "A learned row for every position.\n\n"
            "    x_p <- x_p + table[p + offset]\n\n"
            "Gehring et al. 2017, arXiv 1705.03122; BERT, GPT-2, ViT.")
      .member("length", &Learned::length, "Positions are 0 ... length - 1.")
      .member("dim", &Learned::dim, "How many columns a row has.")
      .member("offset", &Learned::offset, "The row of position 0: 2 in OPT and BART, padding_idx + 1 in RoBERTa.")
      .member("padding_row", &Learned::padding_row, "A row that gets no gradient: 1 in RoBERTa.")
      .method("rows", &Learned::rows, {}, "Rows of the table, as in a model's file: length + offset.");
  const Rule start{"normal, of standard deviation 0.02, as in BERT and GPT-2; the row of padding at 0",
                   [](const Filling& all) {
                     normal(0.02).fill(all);
                     const auto& padding = all.spec.as<Learned>()->padding_row;
                     if (!padding) return;
                     const auto dim = static_cast<std::size_t>(all.extents[1]);
                     const auto row = all.numbers.subspan(static_cast<std::size_t>(*padding) * dim, dim);
                     std::fill(row.begin(), row.end(), 0);
                   }};
  to.encoding<Learned, 2>("LearnedInputs",
                          "Learned positions: table [length + offset, dim].\n\n"
                          "    x_p <- x_p + table[p + offset]\n\n"
                          "A position without a row raises RangeError.\n\n"
                          "Gehring et al. 2017, arXiv 1705.03122.",
                          {Parameter("table", {{"length + offset", &Learned::rows}, "dim"}, "A row for each position.")
                               .starts(start)
                               .draws(normal(0.02))},
                          make_with_spec<LearnedInputs>)
      .module("LearnedPositions")
      .whole_positions()
      .called("learned", "learned positions", "a learned row for each position",
              [](const ExampleSize& size) { return Learned{.length = size.length, .dim = size.dim}; })
      .also({"learned_absolute", "absolute"});
  to.function(
      "resize", resized, {"table", "rows", Argument("how").named(), Argument("prefix", Index{0}).named()},
      "Resizes a table [rows, dim] of positions to another length: a new array, float64 or float32.\n\n"
      "The first `prefix` rows are copied, the others resampled, with samples at the rows' centres (align_corners\n"
      "False). cubic is what ViT, DeiT, DINO and BEiT code uses. There is no antialiasing.");
  to.function(
      "resize_grid", resized_grid,
      {"table", "from_grid", "to_grid", Argument("how").named(), Argument("prefix", Index{0}).named()},
      "Resizes the table of a grid's patches [prefix + height width, dim] along both sides, as resize() does.\n\n"
      "Patches stand row by row. Grids are (height, width).");
}

}  // namespace bearing
