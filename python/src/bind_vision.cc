// Biases between the tokens of an image.

#include <nanobind/stl/pair.h>
#include <bearing/encodings/sam.hpp>
#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/error.hpp>

#include "bind.hpp"
#include "calls.hpp"

namespace bearing::python {

template <>
struct Words<Swin::ClassToken> {
  static constexpr std::array<Word<Swin::ClassToken>, 2> words{
      {{Swin::ClassToken::none, "none"}, {Swin::ClassToken::three_rows, "three_rows"}}};
};

namespace {

/// w1, b1 and w2 of a call, and their gradients.
struct Network {
  Network(const char* function, nb::handle first, nb::handle bias, nb::handle second)
      : w1(first, {function, "w1"}), b1(bias, {function, "b1"}), w2(second, {function, "w2"}) {
    check_same_type(b1, w1, "w1");
    check_same_type(w2, w1, "w1");
  }

  template <class A>
  SwinV2Network<A> values() const {
    return {{w1.view<A, 2>()}, {b1.view<A, 1>()}, {w2.view<A, 2>()}};
  }

  Array w1, b1, w2;
};

/// A new array of zeros like `as`, as a parameter's gradient.
template <class A, int Rank>
nb::object zeros(const Array& as, Param<A, Rank>& of) {
  const NewArray made = new_array(as.kind(), as.type(), as.shape());
  of.grad = view_of<A, Rank>(made, of.value.shape);
  if (of.grad.size() > 0) std::memset(made.data, 0, static_cast<std::size_t>(of.grad.size()) * sizeof(A));
  return made.object;
}

/// 0 for a window that has no table: swin_v2_table() says so.
Index rows_of(const Swin& window) {
  try {
    return window.rows();
  } catch (const ShapeError&) {
    return 0;
  }
}

nb::object swin_table(const SwinV2& spec, nb::handle w1, nb::handle b1, nb::handle w2) {
  const Network network("swin_v2_table", w1, b1, w2);
  return with_arithmetic(network.w1, [&]<class A>() {
    const SwinV2Network<A> values = network.values<A>();
    const std::array<Index, 2> shape{rows_of(spec.window), values.w2.value.shape[0]};
    const NewArray table = new_array(network.w1.kind(), network.w1.type(), {shape[0], shape[1]});
    {
      const Unlocked released;
      bearing::swin_v2_table<A>(spec, values, view_of<A, 2>(table, shape));
    }
    return table.object;
  });
}

nb::object swin_table_backward(const SwinV2& spec, nb::handle w1, nb::handle b1, nb::handle w2, nb::handle d_table) {
  const Network network("swin_v2_table_backward", w1, b1, w2);
  const Array d(d_table, {"swin_v2_table_backward", "d_table"});
  check_same_type(d, network.w1, "w1");
  return with_arithmetic(network.w1, [&]<class A>() -> nb::object {
    SwinV2Network<A> values = network.values<A>();
    const nb::object d_w1 = zeros(network.w1, values.w1), d_b1 = zeros(network.b1, values.b1),
                     d_w2 = zeros(network.w2, values.w2);
    const View<const A, 2> from = d.view<A, 2>();
    {
      const Unlocked released;
      bearing::swin_v2_table_backward<A>(spec, values, from);
    }
    return nb::make_tuple(d_w1, d_b1, d_w2);
  });
}

using Place = std::pair<Index, Index>;  // y, x

Index swin_row(const Swin& swin, const Place& q_position, const Place& k_position) {
  static_cast<void>(swin.rows());  // refuses a window that cannot be
  const auto check = [&](const char* argument, const Place& at) {
    const bool inside = at.first >= 0 && at.first < swin.height && at.second >= 0 && at.second < swin.width;
    const bool of_class = swin.class_token == Swin::ClassToken::three_rows && at == Place{-1, -1};
    if (inside || of_class) return;
    throw RangeError(std::string("[Swin] ") + argument + ": must be a token of a window of " +
                     std::to_string(swin.height) + " x " + std::to_string(swin.width) + ", got (" +
                     std::to_string(at.first) + ", " + std::to_string(at.second) + ")");
  };
  check("q_position", q_position);
  check("k_position", k_position);
  const double q[] = {static_cast<double>(q_position.first), static_cast<double>(q_position.second)};
  const double k[] = {static_cast<double>(k_position.first), static_cast<double>(k_position.second)};
  return swin.row(q, k);
}

}  // namespace

void bind_vision(nb::module_& m) {
  spec(m, "Swin",
       "Swin's relative position bias: inside a window every displacement has a learned number per head.\n\n"
       "    s_ij <- s_ij + B_h[y_i - y_j, x_i - x_j]\n\n"
       "height and width of a window in tokens (BEiT: of the image in patches). class_token 'three_rows' is BEiT: its\n"
       "class token has the position (-1, -1).\n\n"
       "Liu et al. 2021, arXiv 2103.14030; Bao et al. 2022, arXiv 2106.08254.",
       Swin{}, Field{"height", &Swin::height}, Field{"width", &Swin::width}, Field{"class_token", &Swin::class_token})
      .def("rows", &Swin::rows, "Of the table: (2 height - 1)(2 width - 1), and three with a class token.")
      .def("row", swin_row, nb::arg("q_position"), nb::arg("k_position"),
           "The table's row for a query and a key, each at (y, x); the class token is at (-1, -1).");
  encoding<Swin, 2>(
      m, "SwinBias",
      "Swin's bias, and BEiT's: table [spec.rows(), heads] (relative_position_bias_table).\n\n"
      "    s_ij <- s_ij + table[(dy + height - 1)(2 width - 1) + dx + width - 1, h],   d = query - key\n\n"
      "Positions [2, batch, time], y then x, counted from 0 within the window.\n\n"
      "Liu et al. 2021, arXiv 2103.14030.",
      {{"table", 2}}, []<class A>(const Swin& swin, const Param<A, 2>& table) { return SwinBias<A>(swin, table); });

  spec(m, "SwinV2",
       "Swin V2's continuous position bias: SwinBias's table, computed by a small network of the displacement.\n\n"
       "    c(d) = sign(d) log2(1 + 8|d|/(W - 1)) / log2 8,   B = 16 sigmoid(w2 relu(w1 (c(dy), c(dx)) + b1))\n\n"
       "W is the window that it was trained with: trained_height, trained_width, 0 for this one.\n\n"
       "Liu et al. 2022, arXiv 2111.09883.",
       SwinV2{}, Field{"window", &SwinV2::window}, Field{"trained_height", &SwinV2::trained_height},
       Field{"trained_width", &SwinV2::trained_width});
  m.def(
      "swin_v2_coordinates",
      [](const SwinV2& spec) {
        const std::vector<double> coordinates = bearing::swin_v2_coordinates(spec);
        return numpy_array(coordinates, {static_cast<Index>(coordinates.size() / 2), 2});
      },
      nb::arg("spec"), nb::sig("def swin_v2_coordinates(spec: SwinV2) -> Float64Array"),
      "What the network sees: (c(dy), c(dx)) of every displacement, query minus key, [window.rows(), 2].");
  m.def("swin_v2_table", swin_table, nb::arg("spec"), nb::arg("w1"), nb::arg("b1"), nb::arg("w2"),
        nb::sig("def swin_v2_table(spec: SwinV2, w1: ArrayLike, b1: ArrayLike, w2: ArrayLike) -> Array"),
        "The table of a SwinBias [window.rows(), heads] from the network w1 [hidden, 2] of (y, x), b1 [hidden] and w2\n"
        "[heads, hidden]. float64 or float32. Make it once per step, and give the table's gradient to\n"
        "swin_v2_table_backward().");
  m.def("swin_v2_table_backward", swin_table_backward, nb::arg("spec"), nb::arg("w1"), nb::arg("b1"), nb::arg("w2"),
        nb::arg("d_table"),
        nb::sig("def swin_v2_table_backward(spec: SwinV2, w1: ArrayLike, b1: ArrayLike, w2: ArrayLike, "
                "d_table: ArrayLike) -> tuple[Array, Array, Array]"),
        "The network's gradients d_w1, d_b1, d_w2, from the table's.");

  spec(m, "Sam",
       "Decomposed relative position embeddings, of MViTv2, ViTDet and Segment Anything.\n\n"
       "    s_ij <- s_ij + q_i (R_h[y_i - y_j] + R_w[x_i - x_j])\n\n"
       "height and width of the map that attention sees, in patches. The query enters without the softmax scale.\n\n"
       "Li et al. 2022, arXiv 2112.01526.",
       Sam{}, Field{"height", &Sam::height}, Field{"width", &Sam::width});
  encoding<Sam, 2, 2>(
      m, "SamTerm",
      "Segment Anything's term: height_table [2 height - 1, dim], width_table [2 width - 1, dim], for all heads.\n\n"
      "    s_ij <- s_ij + q_i (R_h[y_i - y_j] + R_w[x_i - x_j])\n\n"
      "Row 0 is for -(height - 1), query minus key. Positions [2, batch, time], y then x, from 0.\n\n"
      "Li et al. 2022, arXiv 2112.01526.",
      {{"height_table", 2}, {"width_table", 2}},
      []<class A>(const Sam& sam, const Param<A, 2>& height_table, const Param<A, 2>& width_table) {
        return SamTerm<A>(sam, height_table, width_table);
      });
}

}  // namespace bearing::python
