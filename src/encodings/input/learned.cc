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
  std::vector<Index> row;
  std::vector<double> weight;

  void add(Index at, double of) {
    row.push_back(at);
    weight.push_back(of);
  }
};

/// Keys' cubic of the distance of a row, which is 0 from 2 on.
double cubic(double a, double x) {
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// Row `at` of `from` rows, between them: two or four neighbours, those beyond an edge at the edge.
Taps neighbours(Interpolation how, double at, Index from) {
  const double below = std::floor(at), t = at - below;
  Taps taps;
  const auto add = [&](Index offset, double weight) {
    taps.add(std::clamp<Index>(static_cast<Index>(below) + offset, 0, from - 1), weight);
  };
  if (how == Interpolation::linear) {
    add(0, 1 - t);
    add(1, t);
    return taps;
  }
  constexpr double a = -0.75;
  add(-1, cubic(a, 1 + t));
  add(0, cubic(a, t));
  add(1, cubic(a, 1 - t));
  add(2, cubic(a, 2 - t));
  return taps;
}

/// The rows whose centres a widened filter around `centre` reaches; their weights sum to 1.
Taps averaged(Interpolation how, double centre, double ratio, Index from) {
  const double wide = std::max(ratio, 1.0), reach = (how == Interpolation::linear ? 1 : 2) * wide;
  const Index first = std::max<Index>(static_cast<Index>(std::floor(centre - reach + 0.5)), 0);
  const Index end = std::min<Index>(static_cast<Index>(std::floor(centre + reach + 0.5)), from);
  Taps taps;
  double sum = 0;
  for (Index row = first; row < end; ++row) {
    const double x = std::abs((static_cast<double>(row) - centre + 0.5) / wide);
    const double weight = how == Interpolation::linear ? std::max(1 - x, 0.0) : cubic(-0.5, x);
    taps.add(row, weight);
    sum += weight;
  }
  for (double& weight : taps.weight) weight /= sum;
  return taps;
}

/// For row i of `to`, sampled among `from` rows.
Taps taps(Interpolation how, Sampling sampling, Index i, Index from, Index to) {
  const auto real = [](Index n) { return static_cast<double>(n); };
  if (sampling == Sampling::corners) {
    return neighbours(how, to == 1 ? 0 : real(i) * real(from - 1) / real(to - 1), from);
  }
  const double centre = (real(i) + 0.5) * real(from) / real(to);
  if (sampling == Sampling::antialias) return averaged(how, centre, real(from) / real(to), from);
  return neighbours(how, centre - 0.5, from);
}

/// … for every row of `to`
std::vector<Taps> every_taps(Interpolation how, Sampling sampling, Index from, Index to) {
  std::vector<Taps> all;
  for (Index i = 0; i < to; ++i) all.push_back(taps(how, sampling, i, from, to));
  return all;
}

void check_kept(const char* function, const char* argument, Index rows) {
  if (rows >= 0 && rows <= max_position) return;
  throw ShapeError(concat("[", function, "] ", argument, ": must be from 0 to 2^31, got ", rows));
}

/// How a table is resized, and how many rows stay as they are.
struct Resize {
  const char* function;
  Interpolation how;
  Index prefix;
  ResizeOptions options;

  Index kept() const { return prefix + options.suffix; }
  /// Throws ShapeError for a number of rows that cannot be.
  void check_rows() const {
    check_kept(function, "prefix", prefix);
    check_kept(function, "suffix", options.suffix);
  }
};

template <class T>
void check_resize(const Resize& call, View<const T, 2> from, Index from_rows, View<T, 2> to, Index to_rows) {
  const char* function = call.function;
  if (call.how != Interpolation::linear && call.how != Interpolation::cubic) {
    throw ShapeError(concat("[", function, "] how: must be linear or cubic, got ", static_cast<Index>(call.how)));
  }
  const Sampling sampling = call.options.sampling;
  if (sampling < Sampling::centres || sampling > Sampling::antialias) {
    throw ShapeError(concat("[", function, "] options.sampling: must be centres, corners or antialias, got ",
                            static_cast<Index>(sampling)));
  }
  const Index kept = call.kept();
  if (from_rows < 1 || to_rows < 0) {
    const std::string last = call.options.suffix == 0 ? "" : concat(" and before the suffix of ", call.options.suffix);
    throw ShapeError(concat("[", function, "] from, to: must have rows to sample after the prefix of ", call.prefix,
                            last, ", got ", from.shape, ", ", to.shape));
  }
  if (from.shape != std::array<Index, 2>{kept + from_rows, from.shape[1]} ||
      to.shape != std::array<Index, 2>{kept + to_rows, from.shape[1]}) {
    throw ShapeError(concat("[", function, "] from, to: must be [", kept + from_rows, ", dim] and [", kept + to_rows,
                            ", dim], got ", from.shape, ", ", to.shape));
  }
  check_tensor(function, "from", from);
  check_output(function, "to", to);
  check_apart(function, "to", to, "from", from);
}

template <class T>
void resample(const Resize& call, View<const T, 2> from, GridSize from_grid, View<T, 2> to, GridSize to_grid) {
  const Index dim = from.shape[1];
  const auto copy = [&](Index from_row, Index to_row, Index rows) {
    for (Index r = 0; r < rows; ++r) {
      for (Index d = 0; d < dim; ++d) to(to_row + r, d) = from(from_row + r, d);
    }
  };
  copy(0, 0, call.prefix);
  copy(from.shape[0] - call.options.suffix, to.shape[0] - call.options.suffix, call.options.suffix);
  const Sampling sampling = call.options.sampling;
  const std::vector<Taps> across = every_taps(call.how, sampling, from_grid.width, to_grid.width);
  std::vector<double> sum(static_cast<std::size_t>(dim));
  for (Index y = 0; y < to_grid.height; ++y) {
    const Taps along_y = taps(call.how, sampling, y, from_grid.height, to_grid.height);
    for (Index x = 0; x < to_grid.width; ++x) {
      const Taps& along_x = across[static_cast<std::size_t>(x)];
      std::fill(sum.begin(), sum.end(), 0.0);
      for (std::size_t v = 0; v < along_y.row.size(); ++v) {
        for (std::size_t u = 0; u < along_x.row.size(); ++u) {
          const double weight = along_y.weight[v] * along_x.weight[u];
          const Index row = call.prefix + along_y.row[v] * from_grid.width + along_x.row[u];
          for (Index d = 0; d < dim; ++d)
            sum[static_cast<std::size_t>(d)] += weight * static_cast<double>(from(row, d));
        }
      }
      const Index row = call.prefix + y * to_grid.width + x;
      for (Index d = 0; d < dim; ++d) to(row, d) = static_cast<T>(sum[static_cast<std::size_t>(d)]);
    }
  }
}

}  // namespace

template <class T>
void resize(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from, View<T, 2> to,
            const ResizeOptions& options) {
  const Resize call{"resize", how, prefix, options};
  call.check_rows();
  const Index from_rows = from.shape[0] - call.kept(), to_rows = to.shape[0] - call.kept();
  check_resize(call, from, from_rows, to, to_rows);
  resample(call, from, {from_rows, 1}, to, {to_rows, 1});
}

template <class T>
void resize_grid(Interpolation how, Index prefix, std::type_identity_t<View<const T, 2>> from, GridSize from_grid,
                 View<T, 2> to, GridSize to_grid, const ResizeOptions& options) {
  const Resize call{"resize_grid", how, prefix, options};
  call.check_rows();
  for (const GridSize& grid : {from_grid, to_grid}) {
    if (countable_grid(grid.height, grid.width)) continue;
    throw ShapeError(concat("[resize_grid] from_grid, to_grid: must be at least 0 and make at most 2^31 patches, got ",
                            grid.height, " by ", grid.width));
  }
  check_resize(call, from, from_grid.height * from_grid.width, to, to_grid.height * to_grid.width);
  resample(call, from, from_grid, to, to_grid);
}

#define BEARING_INSTANTIATE(T)                                                                         \
  template void resize<T>(Interpolation, Index, View<const T, 2>, View<T, 2>, const ResizeOptions&);   \
  template void resize_grid<T>(Interpolation, Index, View<const T, 2>, GridSize, View<T, 2>, GridSize, \
                               const ResizeOptions&);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

template <>
struct describe::Words<Interpolation> {
  static constexpr const char* all[] = {"linear", "cubic"};
};

namespace {

/// What Python calls Sampling::corners and Sampling::antialias.
struct Sampled {
  bool align_corners, antialias;

  Sampling sampling(const char* function) const {
    if (align_corners && antialias) {
      throw ShapeError(concat("[", function, "] align_corners, antialias: at most one may be True, got both"));
    }
    return align_corners ? Sampling::corners : antialias ? Sampling::antialias : Sampling::centres;
  }
};

Tensor resized(const Tensor& table, Index rows, Interpolation how, Index prefix, Index suffix, bool align_corners,
               bool antialias) {
  const Resize call{"resize", how, prefix, {Sampled{align_corners, antialias}.sampling("resize"), suffix}};
  return describe::in_arithmetic_of("[resize] table", table, [&]<class A>() {
    const View<const A, 2> from = describe::view_of<A, 2>("[resize] table", table);
    call.check_rows();
    if (from.shape[0] <= call.kept()) {
      throw ShapeError(concat("[resize] table: must have rows after the prefix of ", prefix,
                              suffix == 0 ? "" : concat(" and before the suffix of ", suffix), ", got shape ",
                              from.shape));
    }
    if (rows < call.kept()) {
      throw ShapeError(concat("[resize] rows: must be at least prefix", suffix == 0 ? "" : " + suffix", " = ",
                              call.kept(), ", got ", rows));
    }
    describe::NewTensor<A, 2> to({rows, from.shape[1]});
    resize<A>(how, prefix, from, to.view, call.options);
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

Tensor resized_grid(const Tensor& table, const Sides& from_grid, const Sides& to_grid, Interpolation how, Index prefix,
                    Index suffix, bool align_corners, bool antialias) {
  const GridSize before = grid_of("from_grid", from_grid), after = grid_of("to_grid", to_grid);
  const Resize call{"resize_grid", how, prefix, {Sampled{align_corners, antialias}.sampling("resize_grid"), suffix}};
  return describe::in_arithmetic_of("[resize_grid] table", table, [&]<class A>() {
    const View<const A, 2> from = describe::view_of<A, 2>("[resize_grid] table", table);
    call.check_rows();
    const Index wanted = call.kept() + before.height * before.width;
    if (from.shape[0] != wanted) {
      throw ShapeError(concat("[resize_grid] table: must be [prefix + patches of from_grid",
                              suffix == 0 ? "" : " + suffix", ", dim] = [", wanted, ", dim], got shape ", from.shape));
    }
    describe::NewTensor<A, 2> to({call.kept() + after.height * after.width, from.shape[1]});
    resize_grid<A>(how, prefix, from, before, to.view, after, call.options);
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
  const Argument align_corners = Argument("align_corners", false).named(),
                 antialias = Argument("antialias", false).named();
  to.function(
      "resize", resized,
      {"table", "rows", Argument("how").named(), Argument("prefix", Index{0}).named(),
       Argument("suffix", Index{0}).named(), align_corners, antialias},
      "Resizes a table [rows, dim] of positions to another length: a new array, float64 or float32.\n\n"
      "The first `prefix` and the last `suffix` rows are copied, the others resampled as PyTorch's interpolate(size=)\n"
      "does: by default with samples at the rows' centres, which the code of ViT, DeiT and BEiT takes (cubic). With\n"
      "align_corners the first and last rows stay (Qwen3-VL, linear). antialias averages what a smaller table skips,\n"
      "and its cubic is another one (SigLIP 2: linear; DINOv2 with registers in transformers, timm: cubic).");
  to.function(
      "resize_grid", resized_grid,
      {"table", "from_grid", "to_grid", Argument("how").named(), Argument("prefix", Index{0}).named(),
       Argument("suffix", Index{0}).named(), align_corners, antialias},
      "Resizes the table of a grid's patches [prefix + height width + suffix, dim] along both sides, as resize() "
      "does.\n\n"
      "Patches stand row by row. Grids are (height, width). The offsets of BEiT's relative table are a grid of\n"
      "(2 height - 1, 2 width - 1) before a suffix of 3.");
}

}  // namespace bearing
