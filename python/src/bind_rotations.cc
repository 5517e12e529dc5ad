// Rotations: what a rotary table or frequencies do to queries and keys.

#include <nanobind/stl/optional.h>

#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/error.hpp>
#include <bearing/rope_report.hpp>

#include "bind.hpp"
#include "calls.hpp"
#include "rope_tables.hpp"

namespace bearing::python {

namespace {

/// The table of a call that turns x: a RopeTable as it is, a Rope's made once and kept.
nb::object table_for(const char* function, nb::handle given, const Array& x) {
  if (nb::isinstance<Table>(given)) return nb::borrow(given);
  if (spec_as<Rope>(given) != nullptr) {
    check_fixed(given, std::string("[") + function + "] table", "a RopeTable, or ", "");
    const DataType arithmetic = x.type() == DataType::f64 ? DataType::f64 : DataType::f32;
    return nb::module_::import_("bearing._compat").attr("_table")(given, name_of(arithmetic));
  }
  Argument{function, "table"}.fail("a RopeTable or a Rope", nb::cast<std::string>(nb::repr(given)));
}

/// Its extents; none of what has no shape.
std::vector<Index> shape_asked(nb::handle x) {
  std::vector<Index> shape;
  if (nb::hasattr(x, "shape") && !nb::try_cast(nb::object(x.attr("shape")), shape)) shape.clear();
  return shape;
}

/// Throws TypeError for keys in the place of positions: rotate(table, q, k) turns q by positions k.
void check_no_keys(nb::handle positions, const Array& x, bool time_first) {
  const std::vector<Index> at = shape_asked(positions), &of = x.shape();
  const std::size_t axes = of.size();
  if (axes < 2 || at.size() != axes || at.back() != of.back()) return;
  // Positions of one sequence, of as many tokens as a head is wide.
  const Index time = of[time_first && axes == 3 ? 0 : axes - 2];
  if (axes < 4 && at[axes - 2] == 1 && at.back() == time) return;
  Argument{"rotate", "positions"}.fail(
      "those of x, an int or [time], [batch, time] or [axes, batch, time]; they follow queries and keys: "
      "rotate(table, q, k, positions), with None for 0, 1, 2, …",
      class_of(positions) + " of shape " + shape_text(at));
}

enum class Way { forward, backward };
template <Way way>
constexpr const char* in_place_name = way == Way::forward ? "rotate" : "rotate_backward";
template <Way way>
constexpr const char* copy_name = way == Way::forward ? "rotate_to" : "rotate_backward_to";

template <Way way>
void turn_in_place(nb::handle given, nb::handle x, nb::handle positions, nb::handle layout, Index threads) {
  constexpr const char* function = in_place_name<way>;
  const Array array = Array::writable(x, {function, way == Way::forward ? "x" : "d"});
  const bool time_first = is_time_first(function, layout);
  if constexpr (way == Way::forward) check_no_keys(positions, array, time_first);
  const PositionsArgument at(positions, {function, "positions"});
  const Executor on = executor_of(threads, function);
  const nb::object held = table_for(function, given, array);
  const auto& table = nb::cast<const Table&>(held);
  with_type(array.type(), [&]<class T>() {
    const auto& rows = table.of<Compute<T>>(array.argument(), name_of(array.type()));
    const View<T, 4> view = array.written_tensor<T>(time_first);
    const Unlocked released;
    if constexpr (way == Way::forward)
      rotate(rows, view, *at, on);
    else
      rotate_backward(rows, view, *at, on);
  });
}

void turn_both(nb::handle given, nb::handle q, nb::handle k, nb::handle positions, nb::handle k_at, nb::handle layout,
               Index threads) {
  const char* function = "rotate";
  const Array qs = Array::writable(q, {function, "q"}), ks = Array::writable(k, {function, "k"});
  check_same_type(ks, qs, "q");
  const PositionsArgument at(positions, {function, "positions"});
  std::optional<PositionsArgument> k_positions;
  if (!k_at.is_none()) k_positions.emplace(k_at, Argument{function, "k_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  const nb::object held = table_for(function, given, qs);
  const auto& table = nb::cast<const Table&>(held);
  with_type(qs.type(), [&]<class T>() {
    const auto& rows = table.of<Compute<T>>(qs.argument(), name_of(qs.type()));
    const View<T, 4> q_view = qs.written_tensor<T>(time_first), k_view = ks.written_tensor<T>(time_first);
    const Unlocked released;
    if (!k_positions) return rotate(rows, q_view, k_view, *at, on);
    // Python calls q's positions `positions`.
    errors_as("[rotate] positions", "[rotate] q_positions",
              [&] { rotate(rows, q_view, *at, k_view, **k_positions, on); });
  });
}

/// Whether heads and time lie in memory the other way round than the axes say, as projections leave them and a
/// transposition of axes alone hands them on.
bool lies_swapped(const Array& x) {
  const std::size_t n = x.shape().size();
  if (n < 3 || x.kind() == ArrayKind::jax) return false;  // JAX's arrays have one order
  const auto dense = [&](bool swapped) {
    Index step = 1;
    for (std::size_t i = n; i-- > 0;) {
      const std::size_t axis = swapped && (i == n - 2 || i == n - 3) ? 2 * n - 5 - i : i;
      if (x.shape()[axis] != 1 && x.stride()[axis] != step) return false;
      step *= x.shape()[axis];
    }
    return true;
  };
  return !dense(false) && dense(true);
}

/// The result of turning x, in x's own order of memory where that is dense: whoever reads it next reads it as it did x.
template <Way way>
nb::object turned(const Table& table, const Array& array, const Positions& at, bool time_first, const Executor& on) {
  return with_type(array.type(), [&]<class T>() {
    const auto& rows = table.of<Compute<T>>(array.argument(), name_of(array.type()));
    const View<const T, 4> in = array.tensor<T>(time_first);
    const bool swapped = lies_swapped(array);
    const std::size_t n = array.shape().size();
    std::vector<Index> shape = array.shape();
    if (swapped) std::swap(shape[n - 2], shape[n - 3]);
    const NewArray made = new_array(array.kind(), array.type(), shape);
    Extents extents;
    for (Index extent : shape) extents.push_back(extent);
    const View<T, 4> out = new_tensor<T>(made, extents, time_first != swapped);
    {
      const Unlocked released;
      if constexpr (way == Way::forward)
        errors_as("[rotate_to] x", "[rotate_to] in", [&] { rotate_to(rows, in, out, at, on); });
      else
        rotate_backward_to(rows, in, out, at, on);
    }
    return swapped ? nb::object(made.object.attr("swapaxes")(n - 3, n - 2)) : made.object;
  });
}

template <Way way>
nb::object turn_copy(nb::handle given, nb::handle x, nb::handle positions, nb::handle layout, Index threads) {
  constexpr const char* function = copy_name<way>;
  const Array array(x, {function, way == Way::forward ? "x" : "d_out"});
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  const nb::object held = table_for(function, given, array);
  return turned<way>(nb::cast<const Table&>(held), array, *at, time_first, on);
}

/// The results of turning each of xs: in one call, as at one token a call takes longer than its work.
template <Way way>
nb::list turn_each(const Table& table, const nb::sequence& xs, nb::handle positions, nb::handle layout, Index threads) {
  const char* function = copy_name<way>;
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  const Argument argument{function, way == Way::forward ? "x" : "d_out"};
  nb::list all;
  for (nb::handle x : xs) all.append(turned<way>(table, Array(x, argument), *at, time_first, on));
  return all;
}

nb::list turn_copies(const Table& table, const nb::sequence& xs, nb::handle positions, nb::handle layout, Index threads,
                     bool backward) {
  return (backward ? turn_each<Way::backward> : turn_each<Way::forward>)(table, xs, positions, layout, threads);
}

/// Turns a tensor of PyTorch's in place, or queries and keys. Nothing is written if it throws. Whoever calls counts
/// what is written.
void turn_tensors(const Table& table, const nb::sequence& xs, nb::handle positions, nb::handle layout, Index threads) {
  const char* function = in_place_name<Way::forward>;
  const bool both = nb::len(xs) == 2;
  const Array q(nb::object(xs[0]), {function, both ? "q" : "x"});
  std::optional<Array> k;
  if (both) {
    k.emplace(nb::object(xs[1]), Argument{function, "k"});
    check_same_type(*k, q, "q");
  }
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(q.type(), [&]<class T>() {
    const auto& rows = table.of<Compute<T>>(q.argument(), name_of(q.type()));
    const View<T, 4> queries = q.written_tensor<T>(time_first);
    const View<T, 4> keys = k ? k->written_tensor<T>(time_first) : View<T, 4>{};
    const Unlocked released;
    if (k)
      rotate(rows, queries, keys, *at, on);
    else
      rotate(rows, queries, *at, on);
  });
}

void shift_keys(nb::handle frequencies, Index by, nb::handle k, nb::handle layout, Index threads) {
  const char* function = "shift";
  const RopeFrequencies of = turning_frequencies_of(frequencies, {function, "frequencies"});
  const Array keys = Array::writable(k, {function, "k"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(keys.type(), [&]<class T>() {
    const View<T, 4> view = keys.written_tensor<T>(time_first);
    const Unlocked released;
    shift(of, by, view, on);
  });
}

/// f(view, old_positions, new_positions, on) on the keys of a rebase().
template <class F>
void rebase_keys(nb::handle old_positions, nb::handle new_positions, nb::handle k, nb::handle layout, Index threads,
                 const F& f) {
  const char* function = "rebase";
  const Array keys = Array::writable(k, {function, "k"});
  const PositionsArgument from(old_positions, {function, "old_positions"}),
      to(new_positions, {function, "new_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(keys.type(), [&]<class T>() {
    const View<T, 4> view = keys.written_tensor<T>(time_first);
    const Unlocked released;
    f(view, *from, *to, on);
  });
}

nb::dict parameter_gradients(nb::handle frequencies, nb::handle y, nb::handle d_y, nb::handle positions,
                             nb::handle layout, Index threads) {
  const char* function = "rotate_parameter_gradients";
  const RopeFrequencies of = turning_frequencies_of(frequencies, {function, "frequencies"});
  const Array ys(y, {function, "y"}), d_ys(d_y, {function, "d_y"});
  check_same_type(d_ys, ys, "y");
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  std::vector<double> d_inv_freq(static_cast<std::size_t>(of.pairs()), 0.0), d_log_factors(d_inv_freq), d_positions;
  std::array<Index, 3> extents{};
  double d_factor = 0;
  with_type(ys.type(), [&]<class T>() {
    const View<const T, 4> out = ys.tensor<T>(time_first), d_out = d_ys.tensor<T>(time_first);
    extents = {(*at).axes(), out.shape[0], out.shape[2]};
    d_positions.assign(static_cast<std::size_t>(extents[0] * extents[1] * extents[2]), 0.0);
    const RopeGradients gradients{{d_inv_freq.data(), {of.pairs()}, {1}},
                                  dense(d_positions.data(), extents[0], extents[1], extents[2]),
                                  &d_factor,
                                  {d_log_factors.data(), {of.pairs()}, {1}}};
    const Unlocked released;
    rotate_parameter_gradients<T>(of, out, d_out, *at, gradients, on);
  });
  nb::dict all;
  all["inv_freq"] = numpy_array(d_inv_freq, {of.pairs()});
  all["positions"] = numpy_array(d_positions, {extents[0], extents[1], extents[2]});
  all["attention_factor"] = d_factor;
  all["log_factors"] = numpy_array(d_log_factors, {of.pairs()});
  return all;
}

nb::tuple cos_sin(nb::handle frequencies, nb::handle positions, nb::handle length, nb::handle dtype, Index threads) {
  const char* function = "cos_sin";
  const RopeFrequencies of = turning_frequencies_of(frequencies, {function, "frequencies"});
  const auto type = table_type_of(dtype, function) == TableType::f64 ? DataType::f64 : DataType::f32;
  const PositionsArgument at(positions, {function, "positions"});
  const Index time = length_of(function, "length", length, positions);
  const Executor on = executor_of(threads, function);
  const NewArray cos = new_array(ArrayKind::numpy, type, {time, of.pairs()}),
                 sin = new_array(ArrayKind::numpy, type, {time, of.pairs()});
  with_type(type, [&]<class T>() {
    const auto c = view_of<T, 2>(cos, {time, of.pairs()}), s = view_of<T, 2>(sin, {time, of.pairs()});
    const Unlocked released;
    errors_as("[cos_sin]", "[fill]", [&] { fill<T>(of, *at, c, s, on); });
  });
  return nb::make_tuple(cos.object, sin.object);
}

constexpr const char* layout_doc =
    "layout: 'bhtd' for [batch, heads, time, dim], 'bthd' for [batch, time, heads, dim]. The first axes may be left "
    "out.\n"
    "positions: None for 0, 1, 2, …; an int p for p, p + 1, … (p tokens are in the cache already); or integers or "
    "reals\n"
    "    [time], [batch, time] or [axes, batch, time]. A rotation of several axes takes one number for all of them in\n"
    "    the first forms, as words of M-RoPE stand: patches of an image need the last one.\n"
    "threads: how many threads the call may use; 0 for all.\n\n"
    "Raises ShapeError, RangeError or TypeError, whose text names the argument. Nothing is written then.";

const char* documented(const char* text) { return (new std::string(std::string(text) + "\n\n" + layout_doc))->c_str(); }

}  // namespace

void bind_rotations(nb::module_& m) {
  m.def("rotate", turn_both, nb::arg("table").none(), nb::arg("q").none(), nb::arg("k").none(),
        nb::arg("positions").none(), nb::kw_only(), nb::arg("k_positions") = nb::none(), nb::arg("layout") = "bhtd",
        nb::arg("threads") = 1,
        nb::sig("def rotate(table: RopeTable | Rope, q: Array, k: Array, positions: Positions, *, "
                "k_positions: Positions = None, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        documented("Rotates queries q [batch, heads, time, head_dim] and keys k [batch, kv_heads, time, head_dim] in "
                   "place, in one call.\n\n"
                   "table: a RopeTable. For a Rope a table is made at the first call and kept.\n"
                   "k_positions: where the keys stand; at positions if not given."));
  m.def("rotate", turn_in_place<Way::forward>, nb::arg("table").none(), nb::arg("x").none(),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate(table: RopeTable | Rope, x: Array, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        documented("Rotates x [batch, heads, time, head_dim] in place, by the positions of its tokens.\n\n"
                   "The array must be writable. JAX's arrays never are: rotate_to() returns a new one.\n\n"
                   "table: a RopeTable. For a Rope a table is made at the first call and kept."));
  m.def("_rotate_each", turn_copies, nb::arg("table"), nb::arg("xs"), nb::arg("positions").none(), nb::arg("layout"),
        nb::arg("threads"), nb::arg("backward") = false,
        nb::sig("def _rotate_each(table: RopeTable, xs: Sequence[ArrayLike], positions: Positions, layout: str, "
                "threads: int, backward: bool = False) -> list[Array]"),
        "What rotate_to() gives for each of xs, or rotate_backward_to().");
  m.def("_rotate_tensors", turn_tensors, nb::arg("table"), nb::arg("xs"), nb::arg("positions").none(),
        nb::arg("layout"), nb::arg("threads"),
        nb::sig("def _rotate_tensors(table: RopeTable, xs: Sequence[Array], positions: Positions, layout: str, "
                "threads: int) -> None"),
        "Rotates one or two of PyTorch's tensors in place, whose versions stay as they are.");
  m.def("rotate_to", turn_copy<Way::forward>, nb::arg("table").none(), nb::arg("x").none(),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate_to(table: RopeTable | Rope, x: ArrayLike, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> Array"),
        documented(
            "Rotates x [batch, heads, time, head_dim] into a new array of the same kind, type and order of memory.\n\n"
            "table: a RopeTable. For a Rope a table is made at the first call and kept."));
  m.def("rotate_backward", turn_in_place<Way::backward>, nb::arg("table").none(), nb::arg("d").none(),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate_backward(table: RopeTable | Rope, d: Array, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        documented("Turns the gradient of rotate()'s result into the gradient of x, in place: d_x = a·R(pθ)ᵀ d_y.\n\n"
                   "This is the transpose, not the inverse: a multiplies as in rotate().\n\n"
                   "table: a RopeTable. For a Rope a table is made at the first call and kept."));
  m.def("rotate_backward_to", turn_copy<Way::backward>, nb::arg("table").none(), nb::arg("d_out").none(),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate_backward_to(table: RopeTable | Rope, d_out: ArrayLike, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> Array"),
        documented("Turns the gradient of rotate_to()'s result into the gradient of x, as a new array.\n\n"
                   "table: a RopeTable. For a Rope a table is made at the first call and kept."));
  m.def("shift", shift_keys, nb::arg("frequencies").none(), nb::arg("by"), nb::arg("k").none(), nb::kw_only(),
        nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def shift(frequencies: RopeFrequencies | RopeTable | Rope, by: int, k: Array, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        "Moves cached keys k, which are rotated already, by some tokens, in place (llama.cpp's K-shift).\n\n"
        "frequencies: the encoding that k was rotated with; resolve() it where frequencies depend on the length.\n"
        "by: how many tokens; negative moves to earlier positions.\n"
        "k [batch, kv_heads, time, head_dim]: the keys.\n"
        "layout: 'bhtd' or 'bthd'.\n"
        "threads: how many threads the call may use; 0 for all.\n\n"
        "The result is exact except for the rotation's rounding. Raises ShapeError, RangeError or TypeError, whose "
        "text names the\n"
        "argument; RangeError for angles as float32, whose roundings depend on both positions: rebase() takes them. "
        "Nothing is\n"
        "written then.");
  m.def(
      "rebase",
      [](const Xpos& xpos, nb::handle old_positions, nb::handle new_positions, nb::handle k, nb::handle layout,
         Index threads) {
        rebase_keys(old_positions, new_positions, k, layout, threads,
                    [&](auto view, const Positions& from, const Positions& to, const Executor& on) {
                      rebase(xpos, from, to, view, on);
                    });
      },
      nb::arg("xpos"), nb::arg("old_positions").none(), nb::arg("new_positions").none(), nb::arg("k").none(),
      nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig("def rebase(xpos: Xpos, old_positions: Positions, new_positions: Positions, k: Array, *, "
              "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
      "Moves cached keys k [batch, kv_heads, time, head_dim], which xPos has rotated already, in place.\n\n"
      "xpos: the spec that k was rotated with.\n"
      "old_positions: where the keys stood.\n"
      "new_positions: where they shall stand, in the forms that rotate() takes.\n\n"
      "Raises RangeError for a scaling that depends on the length, as the spec does not say which length the table "
      "serves:\n"
      "give table.k.frequencies.inv_freq as ExplicitFrequencies.");
  m.def(
      "rebase",
      [](nb::handle from, nb::handle old_positions, nb::handle to, nb::handle new_positions, nb::handle k,
         nb::handle layout, Index threads) {
        const RopeFrequencies before = turning_frequencies_of(from, {"rebase", "from_"}),
                              after = turning_frequencies_of(to, {"rebase", "to"});
        rebase_keys(old_positions, new_positions, k, layout, threads,
                    [&](auto view, const Positions& old_positions, const Positions& new_positions, const Executor& on) {
                      rebase(before, old_positions, after, new_positions, view, on);
                    });
      },
      nb::arg("from_").none(), nb::arg("old_positions").none(), nb::arg("to").none(), nb::arg("new_positions").none(),
      nb::arg("k").none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig("def rebase(from_: RopeFrequencies | RopeTable | Rope, old_positions: Positions, "
              "to: RopeFrequencies | RopeTable | Rope, new_positions: Positions, k: Array, *, "
              "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
      "Moves cached keys k [batch, kv_heads, time, head_dim], which are rotated already, in place.\n\n"
      "Afterwards they are as if rotate() had been given the new encoding and positions from the start. Use it for a "
      "chunk that\n"
      "is reused elsewhere, and for dynamic NTK or LongRoPE at another length: resolve() the same Rope with two values "
      "of\n"
      "seq_len.\n\n"
      "from_: the encoding that k was rotated with.\n"
      "old_positions: where the keys stood.\n"
      "to: the encoding that they shall have.\n"
      "new_positions: where they shall stand, in the forms that rotate() takes.\n"
      "layout: 'bhtd' or 'bthd'.\n"
      "threads: how many threads the call may use; 0 for all.\n\n"
      "Each call rounds once: rebase a cache that is moved very often from a copy. Raises ShapeError for encodings of "
      "other\n"
      "shapes.");
  m.def(
      "rotate_parameter_gradients", parameter_gradients, nb::arg("frequencies").none(), nb::arg("y").none(),
      nb::arg("d_y").none(), nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd",
      nb::arg("threads") = 1,
      nb::sig("def rotate_parameter_gradients(frequencies: RopeFrequencies | RopeTable | Rope, y: ArrayLike, "
              "d_y: ArrayLike, positions: Positions = None, *, layout: Literal['bhtd', 'bthd'] = 'bhtd', "
              "threads: int = 1) -> dict[str, Any]"),
      documented(
          "Returns the gradients of a rotation's own parameters, in float64.\n\n"
          "They are {'inv_freq': [pairs], 'positions': [axes, batch, time], 'attention_factor': float, 'log_factors': "
          "[pairs]}, where axes\n"
          "are those of the positions: 1 unless they are [axes, batch, time].\n\n"
          "frequencies: the encoding that rotate() was called with.\n"
          "y [batch, heads, time, head_dim]: what rotate() returned.\n"
          "d_y [batch, heads, time, head_dim]: its gradient."));
  m.def(
      "base_gradient",
      [](const Rope& rope, nb::handle d_inv_freq, Index seq_len) {
        const auto d = Member<std::vector<double>>::from(d_inv_freq, {"base_gradient", "d_inv_freq"});
        return base_gradient(rope, {d.data(), {static_cast<Index>(d.size())}, {1}}, seq_len);
      },
      nb::arg("rope"), nb::arg("d_inv_freq").none(), nb::arg("seq_len") = 0,
      nb::sig("def base_gradient(rope: Rope, d_inv_freq: Sequence[float] | ArrayLike, seq_len: int = 0) -> float"),
      "Returns the gradient of the base.\n\n"
      "rope: the spec.\n"
      "d_inv_freq [pairs]: the gradient of the frequencies.\n"
      "seq_len: how many tokens the frequencies serve, as in resolve().\n\n"
      "Raises as resolve(), and ShapeError unless there is one number for each pair.");
  m.def("cos_sin", cos_sin, nb::arg("frequencies").none(), nb::arg("positions") = nb::none(), nb::kw_only(),
        nb::arg("length") = nb::none(), nb::arg("dtype") = "float32", nb::arg("threads") = 1,
        nb::sig("def cos_sin(frequencies: RopeFrequencies | RopeTable | Rope, positions: Positions = None, *, "
                "length: int | None = None, dtype: DType = 'float32', threads: int = 1) -> "
                "tuple[NDArray[Any], NDArray[Any]]"),
        "Returns cos and sin, times the attention factor, at the positions of one sequence: two new arrays [time, "
        "pairs].\n\n"
        "frequencies: the encoding; resolve() it where frequencies depend on the length.\n"
        "positions: where tokens stand: None for 0, 1, 2, …; an int p for p, p + 1, …; or an array [time].\n"
        "length: how many tokens; it may be left out where positions are an array.\n"
        "dtype: 'float32' or 'float64', or what NumPy, PyTorch and JAX call them.\n\n"
        "Raises ShapeError or RangeError for positions that the encoding cannot serve.");
}

}  // namespace bearing::python
