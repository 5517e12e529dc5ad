// Rotary tables, and what is turned with them.

#include <nanobind/stl/optional.h>

#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/encodings/rope_rebase.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>

#include "bind.hpp"
#include "calls.hpp"
#include "encodings.hpp"
#include "rope_tables.hpp"

namespace bearing::python {

namespace {

Table table_from(nb::handle from, Index length, nb::handle dtype, nb::handle angles, nb::handle memory, Index seq_len,
                 Index threads) {
  const char* function = "RopeTable";
  const auto type = enum_of<TableType>(dtype, {function, "dtype"});
  const TableOptions options{seq_len, enum_of<Angles>(angles, {function, "angles"}),
                             enum_of<TableMemory>(memory, {function, "memory"})};
  const Executor on = executor_of(threads, function);
  const auto make = [&]<class T>(T) {
    if (nb::isinstance<Rope>(from)) {
      const Rope& rope = nb::cast<const Rope&>(from);
      const nb::gil_scoped_release released;
      return std::make_shared<const RopeTable<T>>(rope, length, options, on);
    }
    RopeFrequencies frequencies = frequencies_of(from, {function, "rope"});
    if (frequencies.angles != options.angles && options.angles != Angles::exact) {
      throw nb::value_error("[RopeTable] angles: must be left to resolve() where frequencies are given");
    }
    const nb::gil_scoped_release released;
    return std::make_shared<const RopeTable<T>>(std::move(frequencies), length, options.memory, on);
  };
  if (type == TableType::f64) return {nullptr, make(double{})};
  return {make(float{}), nullptr};
}

Table table_from_cos_sin(const Rope& rope, nb::handle cos, nb::handle sin) {
  const Array c(cos, {"from_cos_sin", "cos"}), s(sin, {"from_cos_sin", "sin"});
  if (c.type() != s.type()) s.argument().fail(std::string(name_of(c.type())) + ", as cos is", name_of(s.type()));
  const auto make = [&]<class T>(T) {
    return std::make_shared<const RopeTable<T>>(RopeTable<T>::from_cos_sin(rope, c.view<T, 2>(), s.view<T, 2>()));
  };
  if (c.type() == DataType::f64) return {nullptr, make(double{}), true};
  if (c.type() == DataType::f32) return {make(float{}), nullptr, true};
  c.argument().fail("float32 or float64", name_of(c.type()));
}

/// cos or sin of a table: its own memory, read-only; the array keeps the table.
template <class Which>
nb::object rows_of(nb::handle self, const Which& which) {
  return nb::cast<const Table&>(self).visit([&]<class T>(const RopeTable<T>& table) {
    const View<const T, 2> rows = which(table);
    const std::array<std::size_t, 2> shape{static_cast<std::size_t>(rows.shape[0]),
                                           static_cast<std::size_t>(rows.shape[1])};
    return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<2>>(rows.data, 2, shape.data(), self, rows.stride.data()));
  });
}

/// Several arrays that one table turns: of one type, and the table's arithmetic.
void same_type(const Array& a, const Array& b) {
  if (a.type() == b.type()) return;
  b.argument().fail(std::string(name_of(a.type())) + ", as " + a.argument().name + " is", name_of(b.type()));
}

enum class Way { forward, backward };
template <Way way>
constexpr const char* in_place_name = way == Way::forward ? "rotate" : "rotate_backward";
template <Way way>
constexpr const char* copy_name = way == Way::forward ? "rotate_to" : "rotate_backward_to";

template <Way way>
void turn_in_place(const Table& table, nb::handle x, nb::handle positions, nb::handle layout, Index threads) {
  constexpr const char* function = in_place_name<way>;
  const Array array = Array::writable(x, {function, way == Way::forward ? "x" : "d"});
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(array.type(), [&]<class T>() {
    const auto& rows = table.of<Compute<T>>(array.argument(), name_of(array.type()));
    const View<T, 4> view = array.written_tensor<T>(time_first);
    const nb::gil_scoped_release released;
    if constexpr (way == Way::forward)
      rotate(rows, view, *at, on);
    else
      rotate_backward(rows, view, *at, on);
  });
}

void turn_both(const Table& table, nb::handle q, nb::handle k, nb::handle positions, nb::handle k_positions,
               nb::handle layout, Index threads) {
  const char* function = "rotate";
  const Array qs = Array::writable(q, {function, "q"}), ks = Array::writable(k, {function, "k"});
  same_type(qs, ks);
  const PositionsArgument at(positions, {function, "positions"});
  std::optional<PositionsArgument> k_at;
  if (!k_positions.is_none()) k_at.emplace(k_positions, Argument{function, "k_positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(qs.type(), [&]<class T>() {
    const auto& rows = table.of<Compute<T>>(qs.argument(), name_of(qs.type()));
    const View<T, 4> q_view = qs.written_tensor<T>(time_first), k_view = ks.written_tensor<T>(time_first);
    const nb::gil_scoped_release released;
    rotate(rows, q_view, *at, k_view, k_at ? **k_at : *at, on);
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
nb::object turn_copy(const Table& table, nb::handle x, nb::handle positions, nb::handle layout, Index threads) {
  constexpr const char* function = copy_name<way>;
  const Array array(x, {function, way == Way::forward ? "x" : "d_out"});
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
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
      const nb::gil_scoped_release released;
      if constexpr (way == Way::forward)
        rotate_to(rows, in, out, *at, on);
      else
        rotate_backward_to(rows, in, out, *at, on);
    }
    return swapped ? nb::object(made.object.attr("swapaxes")(n - 3, n - 2)) : made.object;
  });
}

void shift_keys(nb::handle frequencies, Index by, nb::handle k, nb::handle layout, Index threads) {
  const char* function = "shift";
  const RopeFrequencies of = frequencies_of(frequencies, {function, "frequencies"});
  const Array keys = Array::writable(k, {function, "k"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(keys.type(), [&]<class T>() {
    const View<T, 4> view = keys.written_tensor<T>(time_first);
    const nb::gil_scoped_release released;
    shift(of, by, view, on);
  });
}

/// f(view, old_at, new_at, on) on the keys of a rebase().
template <class F>
void rebase_keys(nb::handle old_at, nb::handle new_at, nb::handle k, nb::handle layout, Index threads, const F& f) {
  const char* function = "rebase";
  const Array keys = Array::writable(k, {function, "k"});
  const PositionsArgument from(old_at, {function, "old_at"}), to(new_at, {function, "new_at"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  with_type(keys.type(), [&]<class T>() {
    const View<T, 4> view = keys.written_tensor<T>(time_first);
    const nb::gil_scoped_release released;
    f(view, *from, *to, on);
  });
}

nb::dict parameter_gradients(nb::handle frequencies, nb::handle y, nb::handle d_y, nb::handle positions,
                             nb::handle layout, Index threads) {
  const char* function = "rotate_parameter_gradients";
  const RopeFrequencies of = frequencies_of(frequencies, {function, "frequencies"});
  const Array ys(y, {function, "y"}), d_ys(d_y, {function, "d_y"});
  same_type(ys, d_ys);
  const PositionsArgument at(positions, {function, "positions"});
  const bool time_first = is_time_first(function, layout);
  const Executor on = executor_of(threads, function);
  std::vector<double> d_inv_freq(static_cast<std::size_t>(of.pairs()), 0.0), d_positions;
  std::array<Index, 3> extents{};
  double d_factor = 0;
  with_type(ys.type(), [&]<class T>() {
    const View<const T, 4> out = ys.tensor<T>(time_first), d_out = d_ys.tensor<T>(time_first);
    extents = {of.axes, out.shape[0], out.shape[2]};
    d_positions.assign(static_cast<std::size_t>(extents[0] * extents[1] * extents[2]), 0.0);
    const RopeGradients gradients{{d_inv_freq.data(), {of.pairs()}, {1}},
                                  dense(d_positions.data(), extents[0], extents[1], extents[2]),
                                  &d_factor};
    const nb::gil_scoped_release released;
    rotate_parameter_gradients<T>(of, out, d_out, *at, gradients, on);
  });
  nb::dict all;
  all["inv_freq"] = numpy_array(d_inv_freq, {of.pairs()});
  all["positions"] = numpy_array(d_positions, {extents[0], extents[1], extents[2]});
  all["attention_factor"] = d_factor;
  return all;
}

nb::tuple cos_sin(nb::handle frequencies, nb::handle positions, std::optional<Index> length, nb::handle dtype,
                  Index threads) {
  const char* function = "cos_sin";
  const RopeFrequencies of = frequencies_of(frequencies, {function, "frequencies"});
  const auto type = enum_of<TableType>(dtype, {function, "dtype"}) == TableType::f64 ? DataType::f64 : DataType::f32;
  const PositionsArgument at(positions, {function, "positions"});
  const Index time = length ? *length : at.time();
  if (time < 0) throw RangeError("[cos_sin] length: must be given, or positions as an array");
  const Executor on = executor_of(threads, function);
  const NewArray cos = new_array(ArrayKind::numpy, type, {time, of.pairs()}),
                 sin = new_array(ArrayKind::numpy, type, {time, of.pairs()});
  with_type(type, [&]<class T>() {
    const auto c = view_of<T, 2>(cos, {time, of.pairs()}), s = view_of<T, 2>(sin, {time, of.pairs()});
    const nb::gil_scoped_release released;
    errors_as(function, "fill", [&] { fill<T>(of, *at, c, s, on); });
  });
  return nb::make_tuple(cos.object, sin.object);
}

/// A table as an encoding of a call's queries and keys.
template <class Tables, template <class> class Rows>
class TableEncoding final : public Encoding {
 public:
  TableEncoding(const char* name, nb::object table)
      : Encoding(name, {}, {{"table", table}}, false), tables_(nb::cast<const Tables&>(table)) {}

  MadeEncoding<float> make_f32(std::span<const ParameterMemory>) const override {
    if (!tables_.f32) fail("a float32 table in this call", "float64");
    return made(tables_.f32);
  }
  MadeEncoding<double> make_f64(std::span<const ParameterMemory>) const override {
    if (!tables_.f64) fail("a float64 table in this call", "float32");
    return made(tables_.f64);
  }

 private:
  [[noreturn]] void fail(const char* wanted, const char* got) const { Argument{name(), "table"}.fail(wanted, got); }

  template <class T>
  static auto made(const std::shared_ptr<const T>& table) {
    using A =
        std::conditional_t<std::is_same_v<T, RopeTable<double>> || std::is_same_v<T, XposTable<double>>, double, float>;
    struct Kept {
      std::shared_ptr<const T> table;
      Rows<A> rows;
    };
    const auto kept = std::make_shared<const Kept>(Kept{table, Rows<A>(*table)});
    MadeEncoding<A> out{kept, {}, {}, {}};
    out.term = erase<A>(kept->rows);
    out.rows.emplace(kept->rows);
    return out;
  }

  Tables tables_;
};

using RotaryEncoding = TableEncoding<Table, RotaryRows>;
using XposEncoding = TableEncoding<XposTables, XposRows>;

constexpr const char* layout_doc =
    "layout: 'bhtd' [batch, heads, time, dim] or 'bthd' [batch, time, heads, dim]; the first axes may be left out.\n"
    "positions: None for 0, 1, 2, …, an int for a cache of so many tokens, or integers or reals [time], [batch, time]\n"
    "or [axes, batch, time]. threads: 0 for all. Raises ShapeError, RangeError or TypeError, which name the argument;\n"
    "nothing is written then.";

const char* documented(const char* text) { return (new std::string(std::string(text) + "\n\n" + layout_doc))->c_str(); }

/// A table as its frequencies: rows are computed again, which is faster than reading them.
nb::tuple reduced(const Table& table) {
  if (table.given) {
    throw nb::type_error(
        "[RopeTable] cannot be pickled if it was made from_cos_sin(): pickle these, and make it again");
  }
  return table.visit([&](const auto& of) {
    return made_by("table", nb::cast(of.frequencies()), of.length(), word_of(table.type()), word_of(of.memory()));
  });
}

nb::tuple reduced(const XposTables& tables) {
  const Index length = tables.q.visit([](const auto& of) { return of.length(); });
  return made_by("xpos_table", tables.xpos, length, word_of(tables.q.type()));
}

void bind_tables(nb::module_& m) {
  nb::class_<Table> table =
      nb::class_<Table>(
          m, "RopeTable",
          "cos and sin of every pair of a rotary encoding, times its attention factor, for positions 0 … length − "
          "1.\n\n"
          "Exact: each number is rounded once from position·θ as real numbers. The length is how much is kept, not a\n"
          "limit: rows for other positions (longer, negative, real) are computed when they are needed. A float32 "
          "table\n"
          "serves float32, bfloat16 and float16, a float64 table float64. Immutable: share it between threads "
          "freely.\n\n"
          "rope: a Rope, or RopeFrequencies. length in tokens. memory: 'full', or 'compact' (under 1 MiB, same "
          "accuracy).\n"
          "angles: 'exact', or 'as_float32' for the bits of Hugging Face's float32 order. seq_len: for resolve(); 0: "
          "the\n"
          "length.")
          .def(
              "__init__",
              [](Table* self, nb::handle rope, Index length, nb::handle dtype, nb::handle angles, nb::handle memory,
                 Index seq_len, Index threads) {
                new (self) Table(table_from(rope, length, dtype, angles, memory, seq_len, threads));
              },
              nb::arg("rope"), nb::arg("length"), nb::kw_only(), nb::arg("dtype") = "float32",
              nb::arg("angles") = "exact", nb::arg("memory") = "full", nb::arg("seq_len") = 0, nb::arg("threads") = 1,
              nb::sig("def __init__(self, rope: Rope | RopeFrequencies, length: int, *, "
                      "dtype: Literal['float32', 'float64'] = 'float32', "
                      "angles: Literal['exact', 'as_float32'] = 'exact', memory: Literal['full', 'compact'] = 'full', "
                      "seq_len: int = 0, threads: int = 1) -> None"))
          .def_static(
              "from_cos_sin", table_from_cos_sin, nb::arg("rope"), nb::arg("cos").none(), nb::arg("sin").none(),
              nb::sig("def from_cos_sin(rope: Rope, cos: ArrayLike, sin: ArrayLike) -> RopeTable"),
              "A table from given numbers, cos and sin [length, pairs], taken as they are: positions must lie in\n"
              "[0, length). rope gives the geometry: head_dim, rotary_dim, pairing, part.")
          .def_prop_ro(
              "cos", [](nb::handle self) { return rows_of(self, [](const auto& table) { return table.cos(); }); },
              nb::for_getter(nb::sig("def cos(self) -> NDArray[Any]")),
              "[length, pairs], the table's own memory, read-only; of a full table only.")
          .def_prop_ro(
              "sin", [](nb::handle self) { return rows_of(self, [](const auto& table) { return table.sin(); }); },
              nb::for_getter(nb::sig("def sin(self) -> NDArray[Any]")),
              "[length, pairs], the table's own memory, read-only; of a full table only.")
          .def_prop_ro("frequencies", &Table::frequencies, nb::rv_policy::copy, "The numbers that it was made from.")
          .def_prop_ro(
              "length", [](const Table& self) { return self.visit([](const auto& table) { return table.length(); }); },
              "Rows that are kept.")
          .def_prop_ro(
              "memory",
              [](const Table& self) {
                return Member<TableMemory>::to(self.visit([](const auto& table) { return table.memory(); }));
              },
              nb::for_getter(nb::sig("def memory(self) -> str")), "'full' or 'compact'.")
          .def_prop_ro(
              "dtype", [](const Table& self) { return Member<TableType>::to(self.type()); },
              nb::for_getter(nb::sig("def dtype(self) -> str")), "'float32' or 'float64'.")
          .def_prop_ro(
              "nbytes", [](const Table& self) { return self.visit([](const auto& table) { return table.bytes(); }); },
              "Memory that the rows take, in bytes.")
          .def("__repr__", [](const Table& self) {
            const RopeFrequencies& of = self.frequencies();
            return "RopeTable(head_dim=" + std::to_string(of.head_dim) +
                   ", rotary_dim=" + std::to_string(of.rotary_dim) + ", pairing='" + word_of<Pairing>(of.pairing) +
                   "', length=" + std::to_string(self.visit([](const auto& table) { return table.length(); })) +
                   ", dtype='" + word_of(self.type()) + "')";
          });
  copies_are_itself(table);
  table.def(
      "__reduce__", [](const Table& self) { return reduced(self); },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  nb::class_<XposTables> xpos_table =
      nb::class_<XposTables>(
          m, "XposTable", "xPos' cos and sin with the decay multiplied in: `q` to rotate queries, `k` to rotate keys.")
          .def(
              "__init__",
              [](XposTables* self, const Xpos& xpos, Index length, nb::handle dtype, Index threads) {
                const Executor on = executor_of(threads, "XposTable");
                XposTables made{xpos, {}, {}, {}, {}};
                if (length < 0) {
                  throw RangeError("[XposTable] length: must be at least 0, got " + std::to_string(length));
                }
                if (enum_of<TableType>(dtype, {"XposTable", "dtype"}) == TableType::f64) {
                  made.f64 = std::make_shared<const XposTable<double>>(xpos, length, TableOptions{}, on);
                  made.q.f64 = {made.f64, &made.f64->q}, made.k.f64 = {made.f64, &made.f64->k};
                } else {
                  made.f32 = std::make_shared<const XposTable<float>>(xpos, length, TableOptions{}, on);
                  made.q.f32 = {made.f32, &made.f32->q}, made.k.f32 = {made.f32, &made.f32->k};
                }
                new (self) XposTables(std::move(made));
              },
              nb::arg("xpos"), nb::arg("length"), nb::kw_only(), nb::arg("dtype") = "float32", nb::arg("threads") = 1,
              nb::sig(
                  "def __init__(self, xpos: Xpos, length: int, *, dtype: Literal['float32', 'float64'] = 'float32', "
                  "threads: int = 1) -> None"))
          .def_ro("xpos", &XposTables::xpos, "What it was made from.")
          .def_ro("q", &XposTables::q, "The queries' table.")
          .def_ro("k", &XposTables::k, "The keys' table.");
  copies_are_itself(xpos_table);
  xpos_table.def(
      "__reduce__", [](const XposTables& self) { return reduced(self); },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  m.def(
      "xpos_decay",
      [](const Xpos& xpos) {
        const std::vector<double> decay = xpos_decay(xpos);
        return numpy_array(decay, {static_cast<Index>(decay.size())});
      },
      nb::arg("xpos"), nb::sig("def xpos_decay(xpos: Xpos) -> Float64Array"),
      "ζ of every pair, [pairs]: what it shrinks by over scale_base tokens.");
}

void bind_rotations(nb::module_& m) {
  m.def("rotate", turn_both, nb::arg("table"), nb::arg("q").none(), nb::arg("k").none(), nb::arg("positions").none(),
        nb::kw_only(), nb::arg("k_positions") = nb::none(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate(table: RopeTable, q: Array, k: Array, positions: Positions, *, "
                "k_positions: Positions = None, layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        documented("Rotates queries q [batch, heads, time, head_dim] and keys k [batch, kv_heads, time, head_dim] in\n"
                   "place, in one call. k_positions: where the keys stand, if not at `positions`."));
  m.def("rotate", turn_in_place<Way::forward>, nb::arg("table"), nb::arg("x").none(), nb::arg("positions") = nb::none(),
        nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate(table: RopeTable, x: Array, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        documented("Rotates x [batch, heads, time, head_dim] in place, by its tokens' positions.\n\n"
                   "The array must be writable: JAX's never are, rotate_to() returns a new one."));
  m.def("rotate_to", turn_copy<Way::forward>, nb::arg("table"), nb::arg("x").none(), nb::arg("positions") = nb::none(),
        nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate_to(table: RopeTable, x: ArrayLike, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> Array"),
        documented("Rotates x [batch, heads, time, head_dim] into a new array of the same kind, type and "
                   "order of memory."));
  m.def("rotate_backward", turn_in_place<Way::backward>, nb::arg("table"), nb::arg("d").none(),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate_backward(table: RopeTable, d: Array, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        documented("The gradient of rotate(), in place: d_x = a·R(pθ)ᵀ d_y. The transpose, not the inverse."));
  m.def("rotate_backward_to", turn_copy<Way::backward>, nb::arg("table"), nb::arg("d_out").none(),
        nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def rotate_backward_to(table: RopeTable, d_out: ArrayLike, positions: Positions = None, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> Array"),
        documented("The gradient of rotate_to(), as a new array."));
  m.def("shift", shift_keys, nb::arg("frequencies").none(), nb::arg("by"), nb::arg("k").none(), nb::kw_only(),
        nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
        nb::sig("def shift(frequencies: RopeFrequencies | RopeTable | Rope, by: int, k: Array, *, "
                "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
        "Moves cached keys k [batch, kv_heads, time, head_dim], which are rotated already, in place: each to the\n"
        "position `by` tokens later, or earlier if negative (llama.cpp's K-shift). Exact but for the rotation's own\n"
        "rounding. Raises ShapeError or TypeError, which name the argument; nothing is written then.");
  m.def(
      "rebase",
      [](const Xpos& xpos, nb::handle old_at, nb::handle new_at, nb::handle k, nb::handle layout, Index threads) {
        rebase_keys(old_at, new_at, k, layout, threads,
                    [&](auto view, const Positions& from, const Positions& to, const Executor& on) {
                      rebase(xpos, from, to, view, on);
                    });
      },
      nb::arg("xpos"), nb::arg("old_at").none(), nb::arg("new_at").none(), nb::arg("k").none(), nb::kw_only(),
      nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig("def rebase(xpos: Xpos, old_at: Positions, new_at: Positions, k: Array, *, "
              "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
      "Moves cached xPos keys k [batch, kv_heads, time, head_dim] to other positions, in place; positions as in\n"
      "rotate().");
  m.def(
      "rebase",
      [](nb::handle from, nb::handle old_at, nb::handle to, nb::handle new_at, nb::handle k, nb::handle layout,
         Index threads) {
        const RopeFrequencies before = frequencies_of(from, {"rebase", "from_"}),
                              after = frequencies_of(to, {"rebase", "to"});
        rebase_keys(old_at, new_at, k, layout, threads,
                    [&](auto view, const Positions& old_positions, const Positions& new_positions, const Executor& on) {
                      rebase(before, old_positions, after, new_positions, view, on);
                    });
      },
      nb::arg("from_").none(), nb::arg("old_at").none(), nb::arg("to").none(), nb::arg("new_at").none(),
      nb::arg("k").none(), nb::kw_only(), nb::arg("layout") = "bhtd", nb::arg("threads") = 1,
      nb::sig("def rebase(from_: RopeFrequencies | RopeTable | Rope, old_at: Positions, "
              "to: RopeFrequencies | RopeTable | Rope, new_at: Positions, k: Array, *, "
              "layout: Literal['bhtd', 'bthd'] = 'bhtd', threads: int = 1) -> None"),
      "Moves cached keys k [batch, kv_heads, time, head_dim], which are rotated already, in place: from positions\n"
      "old_at under one encoding to new_at under another, as if rotate() had been given those from the start.\n\n"
      "For a chunk reused elsewhere, or for dynamic NTK or LongRoPE at another length: resolve() the same Rope with\n"
      "two values of seq_len. Positions and layout as in rotate(); threads: 0 for all. Rounds once per call: a cache\n"
      "that is moved very often is better rebased from a copy. Raises ShapeError for encodings of other shapes.");
  m.def("rotate_parameter_gradients", parameter_gradients, nb::arg("frequencies").none(), nb::arg("y").none(),
        nb::arg("d_y").none(), nb::arg("positions") = nb::none(), nb::kw_only(), nb::arg("layout") = "bhtd",
        nb::arg("threads") = 1,
        nb::sig("def rotate_parameter_gradients(frequencies: RopeFrequencies | RopeTable | Rope, y: ArrayLike, "
                "d_y: ArrayLike, positions: Positions = None, *, layout: Literal['bhtd', 'bthd'] = 'bhtd', "
                "threads: int = 1) -> dict[str, Any]"),
        documented("The gradients of a rotation's own parameters, from what rotate() returned and its gradient, both\n"
                   "[batch, heads, time, head_dim]: {'inv_freq': [pairs], 'positions': [axes, batch, time],\n"
                   "'attention_factor': float}, in float64."));
  m.def(
      "base_gradient",
      [](const Rope& rope, nb::handle d_inv_freq, Index seq_len) {
        const auto d = Member<std::vector<double>>::from(d_inv_freq, {"base_gradient", "d_inv_freq"});
        return base_gradient(rope, {d.data(), {static_cast<Index>(d.size())}, {1}}, seq_len);
      },
      nb::arg("rope"), nb::arg("d_inv_freq").none(), nb::arg("seq_len") = 0,
      nb::sig("def base_gradient(rope: Rope, d_inv_freq: Sequence[float] | ArrayLike, seq_len: int = 0) -> float"),
      "The gradient of the base, from that of the frequencies [pairs].");
  m.def("cos_sin", cos_sin, nb::arg("frequencies").none(), nb::arg("positions") = nb::none(), nb::kw_only(),
        nb::arg("length") = nb::none(), nb::arg("dtype") = "float32", nb::arg("threads") = 1,
        nb::sig("def cos_sin(frequencies: RopeFrequencies | RopeTable | Rope, positions: Positions = None, *, "
                "length: int | None = None, dtype: Literal['float32', 'float64'] = 'float32', threads: int = 1) -> "
                "tuple[NDArray[Any], NDArray[Any]]"),
        "cos and sin, times the attention factor, at the positions of one sequence: two new arrays [time, pairs].\n\n"
        "length: how many tokens, where positions are not an array.");
}

}  // namespace

void bind_rope_tables(nb::module_& m) {
  bind_tables(m);
  bind_rotations(m);
  nb::class_<RotaryEncoding, Encoding>(
      m, "RotaryRows", "RoPE as an encoding of queries and keys: attention(q, k, v, [RotaryRows(table)], mask=…).")
      .def(
          "__init__",
          [](RotaryEncoding* self, nb::object table) {
            if (!nb::isinstance<Table>(table)) {
              Argument{"RotaryRows", "table"}.fail("a RopeTable", nb::cast<std::string>(nb::repr(table)));
            }
            new (self) RotaryEncoding("RotaryRows", std::move(table));
          },
          nb::arg("table").none(), nb::sig("def __init__(self, table: RopeTable) -> None"));
  nb::class_<XposEncoding, Encoding>(m, "XposRows", "xPos as an encoding of queries and keys, from an XposTable.")
      .def(
          "__init__",
          [](XposEncoding* self, nb::object table) {
            if (!nb::isinstance<XposTables>(table)) {
              Argument{"XposRows", "table"}.fail("an XposTable", nb::cast<std::string>(nb::repr(table)));
            }
            new (self) XposEncoding("XposRows", std::move(table));
          },
          nb::arg("table").none(), nb::sig("def __init__(self, table: XposTable) -> None"));
}

}  // namespace bearing::python
