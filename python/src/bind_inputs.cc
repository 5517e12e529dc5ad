// Encodings of the input.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <bearing/encodings/cape.hpp>
#include <bearing/encodings/index_encoding.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/encodings/sinusoidal_2d.hpp>

#include "bind.hpp"
#include "calls.hpp"
#include "words.hpp"

namespace bearing::python {

template <>
struct Words<IndexForm> {
  static constexpr std::array<Word<IndexForm>, 3> words{
      {{IndexForm::index, "index"}, {IndexForm::normalised, "normalised"}, {IndexForm::binary, "binary"}}};
};
template <>
struct Words<FirstHalf> {
  static constexpr std::array<Word<FirstHalf>, 2> words{{{FirstHalf::y, "y"}, {FirstHalf::x, "x"}}};
};
template <>
struct Words<CapeCentre> {
  static constexpr std::array<Word<CapeCentre>, 2> words{{{CapeCentre::none, "none"}, {CapeCentre::mean, "mean"}}};
};
template <>
struct Words<SinusoidPart> {
  static constexpr std::array<Word<SinusoidPart>, 3> words{
      {{SinusoidPart::sine, "sine"}, {SinusoidPart::cosine, "cosine"}, {SinusoidPart::zero, "zero"}}};
};
template <>
struct Words<Interpolation> {
  static constexpr std::array<Word<Interpolation>, 2> words{
      {{Interpolation::linear, "linear"}, {Interpolation::cubic, "cubic"}}};
};

namespace {

using Extent2 = std::pair<Index, Index>;

nb::object resized(nb::handle table, Index rows, nb::handle how, Index prefix) {
  const Array from(table, {"resize", "table"});
  const auto by = enum_of<Interpolation>(how, {"resize", "how"});
  return with_arithmetic(from, [&]<class A>() {
    const View<const A, 2> in = from.view<A, 2>();
    const NewArray out = new_array(from.kind(), from.type(), {std::max(rows, Index{0}), in.shape[1]});
    {
      const Unlocked released;
      bearing::resize<A>(by, prefix, in, view_of<A, 2>(out, {std::max(rows, Index{0}), in.shape[1]}));
    }
    return out.object;
  });
}

nb::object resized_grid(nb::handle table, Extent2 from_grid, Extent2 to_grid, nb::handle how, Index prefix) {
  const Array from(table, {"resize_grid", "table"});
  const auto by = enum_of<Interpolation>(how, {"resize_grid", "how"});
  const Index patches = patches_of({"resize_grid", "to_grid"}, to_grid.first, to_grid.second);
  patches_of({"resize_grid", "from_grid"}, from_grid.first, from_grid.second);
  const Index rows = std::clamp(prefix, Index{0}, from.rank() == 2 ? from.shape()[0] : Index{0}) + patches;
  return with_arithmetic(from, [&]<class A>() {
    const View<const A, 2> in = from.view<A, 2>();
    const NewArray out = new_array(from.kind(), from.type(), {rows, in.shape[1]});
    {
      const Unlocked released;
      bearing::resize_grid<A>(by, prefix, in, {from_grid.first, from_grid.second},
                              view_of<A, 2>(out, {rows, in.shape[1]}), {to_grid.first, to_grid.second});
    }
    return out.object;
  });
}

void bind_learned(nb::module_& m) {
  spec(m, "Learned",
       "A learned row for every position.\n\n"
       "    x_p <- x_p + table[p + offset]\n\n"
       "Positions are 0 ... length - 1. offset: 2 in OPT and BART, padding_idx + 1 in RoBERTa. padding_row gets no\n"
       "gradient: 1 in RoBERTa.\n\nGehring et al. 2017, arXiv 1705.03122; BERT, GPT-2, ViT.",
       Learned{}, Field{"length", &Learned::length}, Field{"dim", &Learned::dim}, Field{"offset", &Learned::offset},
       Field{"padding_row", &Learned::padding_row})
      .def("rows", &Learned::rows, "Of the table, as a model's file has it: length + offset.");
  encoding<Learned, 2>(m, "LearnedInputs",
                       "Learned positions: table [length + offset, dim].\n\n"
                       "    x_p <- x_p + table[p + offset]\n\n"
                       "A position that has no row is a RangeError.\n\nGehring et al. 2017, arXiv 1705.03122.",
                       {{"table", 2}}, []<class A>(const Learned& learned, const Param<A, 2>& table) {
                         return LearnedInputs<A>(learned, table);
                       });
  m.def("resize", resized, nb::arg("table"), nb::arg("rows"), nb::kw_only(), nb::arg("how"), nb::arg("prefix") = 0,
        nb::sig("def resize(table: ArrayLike, rows: int, *, how: Literal['linear', 'cubic'], prefix: int = 0) -> "
                "Array"),
        "A table [rows, dim] of positions for another length: a new array; float64 or float32.\n\n"
        "The first `prefix` rows are copied, the others resampled, with samples at the rows' centres (align_corners\n"
        "False). cubic is what ViT, DeiT, DINO and BEiT code uses. No antialiasing.");
  m.def("resize_grid", resized_grid, nb::arg("table"), nb::arg("from_grid"), nb::arg("to_grid"), nb::kw_only(),
        nb::arg("how"), nb::arg("prefix") = 0,
        nb::sig("def resize_grid(table: ArrayLike, from_grid: tuple[int, int], to_grid: tuple[int, int], *, "
                "how: Literal['linear', 'cubic'], prefix: int = 0) -> Array"),
        "resize() for the table of a grid's patches [prefix + height width, dim], row by row, along both sides.\n\n"
        "Grids are (height, width).");
}

void bind_sinusoidal(nb::module_& m) {
  spec(m, "Sinusoidal",
       "Sinusoidal encoding of the input: sines and cosines of the position times a row of frequencies.\n\n"
       "    x_p <- x_p + [sin p w_0, cos p w_0, sin p w_1, cos p w_1, ...]        w_i = base^(-2i/dim)\n\n"
       "layout has no default, as implementations agree neither on the order of the columns nor on the exponent:\n\n"
       "    interleaved        [scsc]   2i/dim       the paper; DistilBERT, XLM, Flaubert\n"
       "    concatenated       [ss|cc]  2i/dim       Transformer-XL, Marian, Pegasus\n"
       "    tensor2tensor      [ss|cc]  i/(h-1)      fairseq, M2M100, Whisper, MLX; h is dim/2\n"
       "    cos_first          [cc|ss]  i/h          DiT, diffusers with flip_sin_to_cos\n"
       "    cos_first_shifted  [cc|ss]  i/(h-1)      diffusers with downscale_freq_shift 1\n\n"
       "frequency_scale multiplies every w, scale every sine and cosine; padding_position's row is 0.\n\n"
       "Vaswani et al. 2017, arXiv 1706.03762.",
       Sinusoidal{.layout = SinusoidalLayout::interleaved}, Field{"dim", &Sinusoidal::dim},
       Field{"base", &Sinusoidal::base}, Field{"layout", &Sinusoidal::layout},
       Field{"frequency_scale", &Sinusoidal::frequency_scale}, Field{"scale", &Sinusoidal::scale},
       Field{"padding_position", &Sinusoidal::padding_position});
  encoding<Sinusoidal, 1, 1>(
      m, "SinusoidalInputs",
      "The sinusoids of a spec, exact: those of the real numbers p and w, rounded. Real positions too.\n\n"
      "    x_p <- x_p + scale [sin p w_0, cos p w_0, ...]\n\n"
      "What may be learned: scale [1], beside the spec's, and frequencies [pairs], in place of the spec's.\n\n"
      "Vaswani et al. 2017, arXiv 1706.03762.",
      {{"scale", 1, true}, {"frequencies", 1, true}},
      []<class A>(const Sinusoidal& sinusoidal, const Param<A, 1>& scale, const Param<A, 1>& frequencies) {
        return SinusoidalInputs<A>(sinusoidal, {scale, frequencies});
      });
  m.def(
      "sinusoidal_columns",
      [](const Sinusoidal& sinusoidal) {
        nb::list all;
        for (const SinusoidColumn& column : sinusoidal_columns(sinusoidal)) {
          all.append(nb::make_tuple(column.pair, word_of(column.part)));
        }
        return all;
      },
      nb::arg("spec"), nb::sig("def sinusoidal_columns(spec: Sinusoidal) -> list[tuple[int, str]]"),
      "What each column holds: (pair, 'sine', 'cosine' or 'zero').");
  m.def(
      "sinusoidal_frequencies",
      [](const Sinusoidal& sinusoidal) {
        const std::vector<double> all = sinusoidal_frequencies(sinusoidal);
        return numpy_array(all, {static_cast<Index>(all.size())});
      },
      nb::arg("spec"), nb::sig("def sinusoidal_frequencies(spec: Sinusoidal) -> Array"),
      "w of every pair, radians per token, float64 [pairs].");
  m.def(
      "sinusoidal_column_order",
      [](nb::handle from, nb::handle to, Index dim) {
        const char* function = "sinusoidal_column_order";
        return sinusoidal_column_order(enum_of<SinusoidalLayout>(from, {function, "from_layout"}),
                                       enum_of<SinusoidalLayout>(to, {function, "to_layout"}), dim);
      },
      nb::arg("from_layout"), nb::arg("to_layout"), nb::arg("dim"),
      nb::sig("def sinusoidal_column_order(from_layout: str, to_layout: str, dim: int) -> list[int]"),
      "The permutation between two layouts of the same numbers: column c of to_layout is column order[c] of "
      "from_layout.\n\n"
      "Raises ShapeError where the exponents differ: no permutation helps then.");
  m.def(
      "sinusoidal_base_gradient",
      [](const Sinusoidal& sinusoidal, nb::handle d_frequencies) {
        const Array d(d_frequencies, {"sinusoidal_base_gradient", "d_frequencies"});
        check_type(d, DataType::f64);
        return sinusoidal_base_gradient(sinusoidal, d.view<double, 1>());
      },
      nb::arg("spec"), nb::arg("d_frequencies"),
      nb::sig("def sinusoidal_base_gradient(spec: Sinusoidal, d_frequencies: ArrayLike) -> float"),
      "The base's gradient from that of the frequencies, float64 [pairs].");
}

void bind_sinusoidal_2d(nb::module_& m) {
  spec(m, "Sinusoidal2d",
       "Sinusoidal encoding of an image's patches: half of the columns encode one coordinate, half the other.\n\n"
       "    DETR  [y: s c s c ... | x: s c s c ...]        MAE  [x: s s ... c c ... | y: s s ... c c ...]\n\n"
       "dim is a multiple of 4; first says whose half comes first, layout is that of each half.\n\n"
       "Carion et al. 2020, arXiv 2005.12872; He et al. 2021, arXiv 2111.06377.",
       Sinusoidal2d{.first = FirstHalf::y, .layout = SinusoidalLayout::interleaved}, Field{"dim", &Sinusoidal2d::dim},
       Field{"base", &Sinusoidal2d::base}, Field{"first", &Sinusoidal2d::first}, Field{"layout", &Sinusoidal2d::layout})
      .def_static(
          "detr", [](Index dim, double temperature) { return Sinusoidal2d::detr(dim, temperature); }, nb::arg("dim"),
          nb::arg("temperature") = 10'000.0, "As DETR and its successors have it: y first, interleaved.")
      .def_static(
          "mae", [](Index dim) { return Sinusoidal2d::mae(dim); }, nb::arg("dim"),
          "As MAE and MoCo v3 have it: x first, sines then cosines.");
  encoding<Sinusoidal2d>(
      m, "Sinusoidal2dInputs",
      "Sinusoids of two coordinates; positions [2, batch, time], y then x, as grid_positions() makes "
      "them.\n\nCarion et al. 2020, arXiv 2005.12872; He et al. 2021, arXiv 2111.06377.",
      {}, []<class A>(const Sinusoidal2d& both) { return Sinusoidal2dInputs<A>(both); });
  m.def(
      "grid_positions",
      [](Index height, Index width, double first, double span) {
        const std::vector<double> all = grid_positions({height, width, first, span});
        return numpy_array(all, {2, 1, height * width});
      },
      nb::arg("height"), nb::arg("width"), nb::arg("first") = 0.0, nb::arg("span") = 0.0,
      nb::sig("def grid_positions(height: int, width: int, first: float = 0.0, span: float = 0.0) -> Array"),
      "Positions of a grid's patches, row by row: float64 [2, 1, height width], y then x.\n\n"
      "first is that of the first row and column: 0 in MAE, 1 in DETR, 0.5 in Deformable DETR. With a span, "
      "coordinates\n"
      "are divided by height and width and multiplied by it: 2 pi in DETR.");
}

nb::object moved(const Cape& cape, nb::handle at, nb::handle time, std::optional<Index> batch,
                 std::optional<std::uint64_t> training) {
  const char* function = "cape_positions";
  const PositionsArgument positions(at, {function, "positions"});
  std::vector<Index> shape = extents_of(at);
  if (shape.empty()) shape = {length_of(function, "time", time, at)};
  if (batch && shape.size() < 2) shape.insert(shape.begin(), std::max(*batch, Index{0}));
  const NewArray out = new_array(ArrayKind::numpy, DataType::f64, shape);
  const Index rows = shape.size() == 2 ? shape[0] : 1;
  const std::optional<CapeSeed> seed = training ? std::optional(CapeSeed{*training}) : std::nullopt;
  cape_positions(cape, *positions, view_of<double, 2>(out, {rows, shape.back()}), seed);
  return out.object;
}

nb::object moved_2d(const Cape2d& cape, Index height, Index width, Index batch, std::optional<std::uint64_t> training) {
  const Index patches = patches_of({"cape_positions", "height, width"}, height, width);
  const std::array<Index, 3> shape{2, std::max(batch, Index{0}), patches};
  const NewArray out = new_array(ArrayKind::numpy, DataType::f64, {shape[0], shape[1], shape[2]});
  const std::optional<CapeSeed> seed = training ? std::optional(CapeSeed{*training}) : std::nullopt;
  cape_positions(cape, height, width, view_of<double, 3>(out, shape), seed);
  return out.object;
}

void bind_cape(nb::module_& m) {
  spec(m, "CapeAugmentation",
       "How far CAPE's training moves positions: max_local_shift in units of the distance between neighbours.\n\n"
       "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
       CapeAugmentation{}, Field{"max_global_shift", &CapeAugmentation::max_global_shift},
       Field{"max_local_shift", &CapeAugmentation::max_local_shift},
       Field{"max_global_scale", &CapeAugmentation::max_global_scale});
  spec(m, "Cape",
       "CAPE, continuous augmented positional embeddings: sinusoids of positions that training moves about.\n\n"
       "    p <- position_scale p - mean          always\n"
       "    p <- (p + D + e_t) l                  in training\n\n"
       "D uniform in +-max_global_shift, e_t in +-max_local_shift spacing, ln l in +-ln max_global_scale.\n"
       "cape_positions() makes the positions, CapeInputs the rows.\n\n"
       "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
       Cape{}, Field{"dim", &Cape::dim}, Field{"augmentation", &Cape::augmentation}, Field{"centre", &Cape::centre},
       Field{"position_scale", &Cape::position_scale}, Field{"frequency_scale", &Cape::frequency_scale},
       Field{"base", &Cape::base})
      .def("sinusoidal", &Cape::sinusoidal, "The sinusoids that its positions go into.");
  encoding<Cape>(m, "CapeInputs",
                 "The sinusoids of cape_positions(); nothing to learn.\n\n"
                 "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
                 {}, []<class A>(const Cape& cape) { return CapeInputs<A>(cape); });
  m.def(
      "cape_positions", moved, nb::arg("spec"), nb::arg("positions") = nb::none(), nb::arg("time") = nb::none(),
      nb::kw_only(), nb::arg("batch") = nb::none(), nb::arg("training") = nb::none(),
      nb::sig("def cape_positions(spec: Cape, positions: Positions = None, time: int | None = None, *, "
              "batch: int | None = None, training: int | None = None) -> Array"),
      "Positions for a Cape encoding, float64 [time] or [batch, time]: scaled and centred; moved too if `training` is\n"
      "given, a seed that gives the same draws on every machine. Give each step its own.");
  spec(m, "Cape2d",
       "CAPE for the patches of an image at (y, x) in [-1, 1]^2: waves in C = dim/2 directions.\n\n"
       "    cos pi(u_j x + v_j y), sin ...      u_j = r_j cos j,  v_j = r_j sin j,  r_j = 10^(j/(C-1))\n\n"
       "dim is even, at least 4.\n\nLikhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
       Cape2d{}, Field{"dim", &Cape2d::dim}, Field{"augmentation", &Cape2d::augmentation});
  encoding<Cape2d>(m, "Cape2dInputs",
                   "The waves of a Cape2d at its cape_positions(); nothing to learn.\n\n"
                   "Likhomanenko, Xu, Synnaeve, Collobert, Rogozhnikov 2021, arXiv 2106.03143.",
                   {}, []<class A>(const Cape2d& cape) { return Cape2dInputs<A>(cape); });
  m.def(
      "cape_positions", moved_2d, nb::arg("spec"), nb::arg("height"), nb::arg("width"), nb::kw_only(),
      nb::arg("batch") = 1, nb::arg("training") = nb::none(),
      nb::sig("def cape_positions(spec: Cape2d, height: int, width: int, *, batch: int = 1, "
              "training: int | None = None) -> Array"),
      "Positions of a grid's patches, row by row, for a Cape2d encoding: float64 [2, batch, height width], y then x.");
}

}  // namespace

void bind_inputs(nb::module_& m) {
  bind_learned(m);
  bind_sinusoidal(m);
  bind_sinusoidal_2d(m);
  bind_cape(m);

  spec(m, "IndexEncoding",
       "The encodings that come to mind first, to be measured against.\n\n"
       "    index        x_p <- x_p + p                  grows without bound\n"
       "    normalised   x_p <- x_p + p/(length - 1)     the same number means another place at another length\n"
       "    binary       x_p <- x_p + bits of p          neighbours may differ in every bit\n\n"
       "length is for normalised only.",
       IndexEncoding{.form = IndexForm::index}, Field{"dim", &IndexEncoding::dim}, Field{"form", &IndexEncoding::form},
       Field{"length", &IndexEncoding::length});
  encoding<IndexEncoding>(m, "IndexInputs",
                          "index and normalised: the same number in every column; binary: bit d of p in column d.", {},
                          []<class A>(const IndexEncoding& index) { return IndexInputs<A>(index); });
}

}  // namespace bearing::python
