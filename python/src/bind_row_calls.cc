// Encodings of the input and of query and key rows over whole tensors: inputs(), fill(), add(), turn(), their backward.

#include <bearing/rows.hpp>

#include "bind.hpp"
#include "calls.hpp"
#include "words.hpp"

namespace bearing::python {

namespace {

template <class A>
const InputEncoding<A>& input_of(const char* function, const MadeOne<A>& one) {
  if (!one.made.input) Argument{function, "encoding"}.fail("an encoding of the input", one.encoding().repr());
  return *one.made.input;
}

template <class A>
const RowEncoding<A>& rows_of(const char* function, const MadeOne<A>& one) {
  if (!one.made.rows) Argument{function, "encoding"}.fail("an encoding of query and key rows", one.encoding().repr());
  return *one.made.rows;
}

/// [time, dim] as one sequence, or [batch, time, dim].
template <class T>
View<const T, 3> sequences(const Array& array) {
  if (array.rank() != 2) return array.view<T, 3>();
  const View<const T, 2> one = array.view<T, 2>();
  return {one.data, {1, one.shape[0], one.shape[1]}, {0, one.stride[0], one.stride[1]}};
}
template <class T>
View<T, 3> written_sequences(const Array& array) {
  const View<const T, 3> out = sequences<T>(array);
  return {const_cast<T*>(out.data), out.shape, out.stride};
}

nb::object inputs(nb::handle encoding, nb::handle at, nb::handle time, nb::handle dtype, nb::handle like,
                  Index threads) {
  const char* function = "inputs";
  const EncodingList list = encoding_of({function, "encoding"}, encoding);
  const PositionsArgument positions(at, {function, "positions"});
  const Index length = length_of(function, "time", time, at);
  const std::vector<Index> extents = extents_of(at);
  const bool batched = extents.size() == 2;
  const Index batch = batched ? extents[0] : 1;
  const Wish wish = wish_of(function, dtype, like, encoding);
  const Executor on = executor_of(threads, function);
  return with_type(wish.type, [&]<class T>() {
    const MadeOne<Compute<T>> one(function, encoding, Wanted::values);
    const auto& input = input_of(function, one);
    std::vector<Index> shape{length, input.dim};
    if (batched) shape.insert(shape.begin(), batch);
    const NewArray rows = new_array(wish.kind, wish.type, shape);
    {
      const Unlocked released;
      const View<T, 3> view = view_of<T, 3>(rows, {batch, length, input.dim});
      errors_as("[inputs]", "[fill]", [&] { bearing::fill<T>(input, *positions, view, on); });
    }
    return rows.object;
  });
}

void fill_rows(nb::handle encoding, nb::handle at, nb::handle rows, Index threads) {
  const char* function = "fill";
  const PositionsArgument positions(at, {function, "positions"});
  const Array to = Array::writable(rows, {function, "rows"});
  const Executor on = executor_of(threads, function);
  with_type(to.type(), [&]<class T>() {
    const MadeOne<Compute<T>> one(function, encoding, Wanted::values);
    const auto& input = input_of(function, one);
    const View<T, 3> view = written_sequences<T>(to);
    const Unlocked released;
    bearing::fill<T>(input, *positions, view, on);
  });
}

/// y ← x, of the same shape, any strides.
template <class T>
void copy(const View<const T, 3>& x, const View<T, 3>& y) {
  for (Index b = 0; b < x.shape[0]; ++b) {
    for (Index t = 0; t < x.shape[1]; ++t) {
      if (x.stride[2] == 1 && y.stride[2] == 1 && x.shape[2] > 0) {
        std::memcpy(&y(b, t, 0), &x(b, t, 0), static_cast<std::size_t>(x.shape[2]) * sizeof(T));
        continue;
      }
      for (Index c = 0; c < x.shape[2]; ++c) y(b, t, c) = x(b, t, c);
    }
  }
}

nb::object add(nb::handle encoding, nb::handle x, nb::handle at, nb::handle out, Index threads) {
  const char* function = "add";
  const Array from(x, {function, "x"});
  std::optional<Array> to;
  if (!out.is_none()) {
    to.emplace(Array::writable(out, {function, "out"}));
    check_same_type(*to, from, "x");
  }
  const PositionsArgument positions(at, {function, "positions"});
  const Executor on = executor_of(threads, function);
  return with_type(from.type(), [&]<class T>() -> nb::object {
    const MadeOne<Compute<T>> one(function, encoding, Wanted::values);
    const auto& input = input_of(function, one);
    const View<const T, 3> in = sequences<T>(from);
    nb::object object = nb::borrow(out);
    View<T, 3> view;
    if (to) {
      view = written_sequences<T>(*to);
      if (view.shape != in.shape) {
        to->argument().fail_shape("of x's shape " + shape_text(from.shape()), "shape " + shape_text(to->shape()));
      }
    } else {
      const NewArray made = new_array(from.kind(), from.type(), from.shape());
      object = made.object;
      view = view_of<T, 3>(made, in.shape);
    }
    {
      const Unlocked released;
      if (view.data != in.data || view.stride != in.stride) copy(in, view);
      bearing::add<T>(input, *positions, view, on);
    }
    return object;
  });
}

nb::object add_backward(nb::handle encoding, nb::handle d_x, nb::handle at, Index threads) {
  const char* function = "add_backward";
  const Array from(d_x, {function, "d_x"});
  const PositionsArgument positions(at, {function, "positions"});
  const Executor on = executor_of(threads, function);
  return with_arithmetic(from, [&]<class A>() -> nb::object {
    const MadeOne<A> one(function, encoding, Wanted::gradients);
    const auto& input = input_of(function, one);
    const View<const A, 3> view = sequences<A>(from);
    {
      const Unlocked released;
      bearing::add_backward<A>(input, *positions, view, on);
    }
    return one.gradient_arrays();
  });
}

nb::object turn(nb::handle encoding, nb::handle x, nb::handle at, nb::handle side, nb::handle out, nb::handle layout,
                Index threads) {
  const char* function = "turn";
  const Array from(x, {function, "x"});
  std::optional<Array> to;
  if (!out.is_none()) {
    to.emplace(Array::writable(out, {function, "out"}));
    check_same_type(*to, from, "x");
  }
  const PositionsArgument positions(at, {function, "positions"});
  const Side which = enum_of<Side>(side, {function, "side"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  return with_type(from.type(), [&]<class T>() -> nb::object {
    const MadeOne<Compute<T>> one(function, encoding, Wanted::values);
    const auto& rows = rows_of(function, one);
    const View<const T, 4> in = from.tensor<T>(time_first);
    nb::object object = nb::borrow(out);
    View<T, 4> view;
    if (to) {
      view = to->written_tensor<T>(time_first);
    } else {
      const Index dim = in.shape[3];
      const NewTensor<T> made(from, time_first, in.shape[2], rows.out_dim ? rows.out_dim(rows.self, dim) : dim);
      object = made.object();
      view = made.tensor();
    }
    {
      const Unlocked released;
      bearing::turn<T>(rows, which, *positions, in, view, on);
    }
    return object;
  });
}

nb::object turn_backward(nb::handle encoding, nb::handle x, nb::handle d_y, nb::handle at, nb::handle side,
                         nb::handle layout, Index threads) {
  const char* function = "turn_backward";
  const Array from(x, {function, "x"}), d(d_y, {function, "d_y"});
  check_same_type(d, from, "x");
  const PositionsArgument positions(at, {function, "positions"});
  const Side which = enum_of<Side>(side, {function, "side"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  return with_arithmetic(from, [&]<class A>() -> nb::object {
    const MadeOne<A> one(function, encoding, Wanted::gradients);
    const auto& rows = rows_of(function, one);
    const View<const A, 4> in = from.tensor<A>(time_first), d_out = d.tensor<A>(time_first);
    const NewTensor<A> d_x(from, time_first, in.shape[2], in.shape[3]);
    {
      const Unlocked released;
      bearing::turn_backward<A>(rows, which, *positions, in, d_out, d_x.tensor(), on);
    }
    return nb::make_tuple(d_x.object(), one.gradient_arrays());
  });
}

}  // namespace

void bind_row_calls(nb::module_& m) {
  m.def("inputs", inputs, nb::arg("encoding").none(), nb::arg("positions") = nb::none(), nb::arg("time") = nb::none(),
        nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("like") = nb::none(), nb::arg("threads") = 1,
        nb::sig("def inputs(encoding: Encoding, positions: Positions = None, time: int | None = None, *, "
                "dtype: DType | None = None, like: ArrayLike | None = None, threads: int = 1) -> Array"),
        "Returns what an encoding adds to the input, as a new array [time, dim].\n\n"
        "encoding: an encoding of the input.\n"
        "positions: where tokens stand, as rotate() takes positions. For several sequences the result is [batch, time, "
        "dim].\n"
        "time: how many tokens; it may be left out where positions are an array.\n"
        "dtype: the type of the result, as in bias_matrix().\n"
        "like: an array whose kind and type the result gets.\n"
        "threads: how many threads the call may use; 0 for all.\n\n"
        "Numbers are computed in float64 or float32 and rounded once. Raises ShapeError or RangeError for positions "
        "that the\n"
        "encoding cannot serve.");
  m.def(
      "fill", fill_rows, nb::arg("encoding").none(), nb::arg("positions").none(), nb::arg("rows"), nb::kw_only(),
      nb::arg("threads") = 1,
      nb::sig("def fill(encoding: Encoding, positions: Positions, rows: ArrayLike, *, threads: int = 1) -> None"),
      "Writes what an encoding adds to the input to rows [time, dim] or [batch, time, dim].\n\n"
      "Raises ShapeError or RangeError for rows or positions that the encoding cannot serve. Nothing is written then.");
  m.def(
      "add", add, nb::arg("encoding").none(), nb::arg("x"), nb::arg("positions") = nb::none(), nb::kw_only(),
      nb::arg("out") = nb::none(), nb::arg("threads") = 1,
      nb::sig("def add(encoding: Encoding, x: ArrayLike, positions: Positions = None, *, out: ArrayLike | None = None, "
              "threads: int = 1) -> Array"),
      "Returns x [time, dim] or [batch, time, dim] plus what the encoding adds to it. The sum is rounded once.\n\n"
      "encoding: an encoding of the input.\n"
      "positions: where tokens stand, as rotate() takes positions.\n"
      "out: the array to write; x itself for adding in place, without a copy. If not given, the result is a new array "
      "of x's\n"
      "    kind and type.\n"
      "threads: how many threads the call may use; 0 for all.\n\n"
      "Raises ShapeError or RangeError for an x or positions that the encoding cannot serve. Nothing is written then.");
  m.def(
      "add_backward", add_backward, nb::arg("encoding").none(), nb::arg("d_x"), nb::arg("positions") = nb::none(),
      nb::kw_only(), nb::arg("threads") = 1,
      nb::sig("def add_backward(encoding: Encoding, d_x: ArrayLike, positions: Positions = None, *, threads: int = 1) "
              "-> dict[str, Array]"),
      "Returns the gradients of an input encoding's parameters, by name.\n\n"
      "d_x [time, dim] or [batch, time, dim] is the gradient of the sum, float64 or float32. It is the gradient of x "
      "as well.");
  m.def(
      "turn", turn, nb::arg("encoding").none(), nb::arg("x"), nb::arg("positions") = nb::none(), nb::kw_only(),
      nb::arg("side"), nb::arg("out") = nb::none(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig(
          "def turn(encoding: Encoding, x: ArrayLike, positions: Positions = None, *, side: Literal['query', 'key'], "
          "out: ArrayLike | None = None, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> Array"),
      "Returns queries or keys x [batch, heads, time, dim] as an encoding of rows turns them: [batch, heads, time, "
      "out_dim].\n\n"
      "encoding: an encoding of query and key rows.\n"
      "x [batch, heads, time, dim]: the first axes may be left out.\n"
      "positions: where tokens stand, as rotate() takes positions.\n"
      "side: 'query' or 'key'.\n"
      "out: the array to write; it may be x itself if the encoding keeps the dimension. If not given, the result is a "
      "new array\n"
      "    of x's kind and type.\n"
      "layout: 'bhtd' or 'bthd'.\n"
      "threads: how many threads the call may use; 0 for all.\n\n"
      "Raises ShapeError or RangeError for an x or positions that the encoding cannot serve. Nothing is written then.");
  m.def("turn_backward", turn_backward, nb::arg("encoding").none(), nb::arg("x"), nb::arg("d_y"),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("side"), nb::arg("layout") = "bhtd",
        nb::arg("threads") = 1,
        nb::sig("def turn_backward(encoding: Encoding, x: ArrayLike, d_y: ArrayLike, positions: Positions = None, *, "
                "side: Literal['query', 'key'], layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) "
                "-> tuple[Array, dict[str, Array]]"),
        "Returns the gradients of turn(): d_x, and those of the parameters by name.\n\n"
        "x: what turn() was given, float64 or float32.\n"
        "d_y [batch, heads, time, out_dim]: the gradient of its result.");
}

}  // namespace bearing::python
