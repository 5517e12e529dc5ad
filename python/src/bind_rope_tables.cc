// Rotary tables, and the encodings that they make.

#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/rotary_values.hpp>
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
  const auto type = table_type_of(dtype, function);
  const TableOptions options{seq_len, enum_of<Angles>(angles, {function, "angles"}),
                             enum_of<TableMemory>(memory, {function, "memory"})};
  const Executor on = executor_of(threads, function);
  const auto make = [&]<class T>(T) {
    if (const auto* rope = spec_as<Rope>(from)) {
      const Unlocked released;
      return std::make_shared<const RopeTable<T>>(*rope, length, options, on);
    }
    RopeFrequencies frequencies = frequencies_of(from, {function, "rope"});
    if (frequencies.angles != options.angles && options.angles != Angles::exact) {
      throw nb::value_error(
          "[RopeTable] angles: must not be given with RopeFrequencies, which have angles of their own");
    }
    const Unlocked released;
    return std::make_shared<const RopeTable<T>>(std::move(frequencies), length, options.memory, on);
  };
  if (type == TableType::f64) return {nullptr, make(double{})};
  return {make(float{}), nullptr};
}

Table table_from_cos_sin(const Rope& rope, nb::handle cos, nb::handle sin) {
  const Array c(cos, {"from_cos_sin", "cos"}), s(sin, {"from_cos_sin", "sin"});
  if (c.type() != s.type()) s.argument().fail(std::string(name_of(c.type())) + ", as cos is", name_of(s.type()));
  const auto make = [&]<class T>(T) {
    const View<const T, 2> c_rows = c.view<T, 2>(), s_rows = s.view<T, 2>();
    const Unlocked released;
    return std::make_shared<const RopeTable<T>>(RopeTable<T>::from_cos_sin(rope, c_rows, s_rows));
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

/// A table as an encoding of a call's queries and keys, or of its values.
template <class Tables, template <class> class Rows>
class TableEncoding final : public Encoding {
 public:
  TableEncoding(const EncodingClass& of, nb::object table)
      : Encoding(of, {{"table", table}}), tables_(nb::cast<const Tables&>(table)) {}

 private:
  Made<float> make_f32(std::span<const ParameterMemory>) const override {
    if (!tables_.f32) fail("a float32 table in this call", "float64");
    return made(tables_.f32);
  }
  Made<double> make_f64(std::span<const ParameterMemory>) const override {
    if (!tables_.f64) fail("a float64 table in this call", "float32");
    return made(tables_.f64);
  }

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
    Made<A> out{kept, {}, {}, {}};
    out.term = erase<A>(kept->rows);
    if constexpr (RowTerm<Rows<A>, A>) out.rows.emplace(kept->rows);
    return out;
  }

  Tables tables_;
};

using RotaryEncoding = TableEncoding<Table, RotaryRows>;
using RotaryValueEncoding = TableEncoding<Table, RotaryValues>;
using XposEncoding = TableEncoding<XposTables, XposRows>;

/// A table as its frequencies: rows are computed again, which is faster than reading them.
nb::tuple reduced(const Table& table) {
  if (table.given) {
    throw nb::type_error(
        "[RopeTable] cannot be pickled if from_cos_sin() or an XposTable made it: pickle cos and sin, or the "
        "XposTable");
  }
  return table.visit([&](const auto& of) {
    return made_by("table", nb::cast(of.frequencies()), of.length(), word_of(table.type()), word_of(of.memory()));
  });
}

Index kept_rows(const Table& table) {
  return table.visit([](const auto& of) { return of.length(); });
}

/// What has no default but the spec, length and type is left out, as in pickles of before.
nb::tuple reduced(const XposTables& tables) {
  const TableOptions& options = tables.options;
  const Index length = kept_rows(tables.q);
  const char* type = word_of(tables.q.type());
  if (options.seq_len == 0 && options.angles == Angles::exact && options.memory == TableMemory::full) {
    return made_by("xpos_table", tables.xpos, length, type);
  }
  return made_by("xpos_table", tables.xpos, length, type, options.seq_len, word_of(options.angles),
                 word_of(options.memory));
}

XposTables xpos_table_from(const Xpos& xpos, Index length, nb::handle dtype, nb::handle angles, nb::handle memory,
                           Index seq_len, Index threads) {
  const char* function = "XposTable";
  const auto type = table_type_of(dtype, function);
  const TableOptions options{seq_len, enum_of<Angles>(angles, {function, "angles"}),
                             enum_of<TableMemory>(memory, {function, "memory"})};
  const Executor on = executor_of(threads, function);
  XposTables made{xpos, options, {}, {}, {}, {}};
  const auto make = [&]<class T>(T) {
    const Unlocked released;
    return std::make_shared<const XposTable<T>>(xpos, length, options, on);
  };
  if (type == TableType::f64) {
    made.f64 = make(double{});
    made.q.f64 = {made.f64, &made.f64->q}, made.k.f64 = {made.f64, &made.f64->k};
  } else {
    made.f32 = make(float{});
    made.q.f32 = {made.f32, &made.f32->q}, made.k.f32 = {made.f32, &made.f32->k};
  }
  made.q.given = made.k.given = true;  // the decay is in their numbers alone
  return made;
}

std::string repr_of(const XposTables& tables) {
  const TableOptions& options = tables.options;
  std::string text = "XposTable(" + nb::cast<std::string>(nb::repr(nb::cast(tables.xpos))) +
                     ", length=" + std::to_string(kept_rows(tables.q)) + ", dtype='" + word_of(tables.q.type()) + "'";
  if (options.angles != Angles::exact) text += std::string(", angles='") + word_of(options.angles) + "'";
  if (options.memory != TableMemory::full) text += std::string(", memory='") + word_of(options.memory) + "'";
  if (options.seq_len != 0) text += ", seq_len=" + std::to_string(options.seq_len);
  return text + ")";
}

void bind_tables(nb::module_& m) {
  nb::class_<Table> table =
      nb::class_<Table>(
          m, "RopeTable", nb::is_weak_referenceable(),
          "cos and sin of every pair of a rotary encoding, times its attention factor, for positions 0 … "
          "length − 1.\n\n"
          "Each number is that of the real numbers position·θ: rounded once in float32, within 2 ulp in "
          "float64. The length says\n"
          "how much is kept; it is no limit: rows\n"
          "for other positions (later, negative, real) are computed when they are needed. A float32 "
          "table serves float32, bfloat16\n"
          "and float16, a float64 table serves float64. A table never changes: threads may share it.\n\n"
          "rope: a Rope, or RopeFrequencies.\n"
          "length: how many tokens the table keeps rows for.\n"
          "dtype: 'float32' or 'float64', or what NumPy, PyTorch and JAX call them.\n"
          "angles: 'exact', or 'as_float32' for the bits of Hugging Face's float32 order of operations.\n"
          "memory: 'full', or 'compact' for less than 1 MiB with the same accuracy.\n"
          "seq_len: how many tokens the frequencies must serve, as in resolve(); to be given where they depend on it.\n"
          "threads: how many threads may compute the rows; 0 for all.\n\n"
          "Raises as resolve(), and RangeError for a length out of range.")
          .def(
              "__init__",
              [](Table* self, nb::handle rope, Index length, nb::handle dtype, nb::handle angles, nb::handle memory,
                 Index seq_len, Index threads) {
                new (self) Table(table_from(rope, length, dtype, angles, memory, seq_len, threads));
              },
              nb::arg("rope"), nb::arg("length"), nb::kw_only(), nb::arg("dtype") = "float32",
              nb::arg("angles") = "exact", nb::arg("memory") = "full", nb::arg("seq_len") = 0, nb::arg("threads") = 1,
              nb::sig("def __init__(self, rope: Rope | RopeFrequencies, length: int, *, "
                      "dtype: DType = 'float32', "
                      "angles: Literal['exact', 'as_float32'] = 'exact', memory: Literal['full', 'compact'] = 'full', "
                      "seq_len: int = 0, threads: int = 1) -> None"))
          .def_static(
              "from_cos_sin", table_from_cos_sin, nb::arg("rope"), nb::arg("cos").none(), nb::arg("sin").none(),
              nb::sig("def from_cos_sin(rope: Rope, cos: ArrayLike, sin: ArrayLike) -> RopeTable"),
              "Makes a table of given numbers, which are taken as they are. It serves only positions in [0, "
              "length).\n\n"
              "rope: the geometry: its head_dim, rotary_dim, pairing and part.\n"
              "cos [length, pairs]: the cosines.\n"
              "sin [length, pairs]: the sines.\n\n"
              "Raises ShapeError for arrays of other shapes, TypeError unless both are float32 or both float64.")
          .def_prop_ro(
              "cos", [](nb::handle self) { return rows_of(self, [](const auto& table) { return table.cos(); }); },
              nb::for_getter(nb::sig("def cos(self) -> NDArray[Any]")),
              "[length, pairs]: the table's own memory, read-only. Only a full table has it.")
          .def_prop_ro(
              "sin", [](nb::handle self) { return rows_of(self, [](const auto& table) { return table.sin(); }); },
              nb::for_getter(nb::sig("def sin(self) -> NDArray[Any]")),
              "[length, pairs]: the table's own memory, read-only. Only a full table has it.")
          .def_prop_ro("frequencies", &Table::frequencies, nb::rv_policy::copy,
                       "The frequencies that the table was made from.")
          .def_prop_ro(
              "length", [](const Table& self) { return kept_rows(self); }, "How many rows are kept.")
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
              "How many bytes the rows take.")
          .def("__repr__", [](const Table& self) {
            const RopeFrequencies& of = self.frequencies();
            return "RopeTable(head_dim=" + std::to_string(of.head_dim) +
                   ", rotary_dim=" + std::to_string(of.rotary_dim) + ", pairing='" + word_of<Pairing>(of.pairing) +
                   "', length=" + std::to_string(kept_rows(self)) + ", dtype='" + word_of(self.type()) + "')";
          });
  copies_are_itself(table);
  table.def(
      "__reduce__", [](const Table& self) { return reduced(self); },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  nb::class_<XposTables> xpos_table =
      nb::class_<XposTables>(
          m, "XposTable",
          "xPos' cos and sin with the decay multiplied in. Rotate queries with `q` and keys with `k`.\n\n"
          "xpos: the spec.\n"
          "length: how many tokens the tables keep rows for.\n"
          "dtype: 'float32' or 'float64', or what NumPy, PyTorch and JAX call them.\n"
          "angles: 'exact', or 'as_float32', as in RopeTable.\n"
          "memory: 'full', or 'compact' for less than 1 MiB with the same accuracy.\n"
          "seq_len: how many tokens the frequencies must serve, as in resolve(); to be given where they depend on it.\n"
          "threads: how many threads may compute the rows; 0 for all.\n\n"
          "Raises RangeError if a factor leaves [2^-100, 2^100].")
          .def(
              "__init__",
              [](XposTables* self, const Xpos& xpos, Index length, nb::handle dtype, nb::handle angles,
                 nb::handle memory, Index seq_len, Index threads) {
                new (self) XposTables(xpos_table_from(xpos, length, dtype, angles, memory, seq_len, threads));
              },
              nb::arg("xpos"), nb::arg("length"), nb::kw_only(), nb::arg("dtype") = "float32",
              nb::arg("angles") = "exact", nb::arg("memory") = "full", nb::arg("seq_len") = 0, nb::arg("threads") = 1,
              nb::sig("def __init__(self, xpos: Xpos, length: int, *, dtype: DType = 'float32', "
                      "angles: Literal['exact', 'as_float32'] = 'exact', memory: Literal['full', 'compact'] = 'full', "
                      "seq_len: int = 0, threads: int = 1) -> None"))
          .def("__repr__", repr_of)
          .def_ro("xpos", &XposTables::xpos, "The spec that it was made from.")
          .def_ro("q", &XposTables::q, "The queries' table.")
          .def_ro("k", &XposTables::k, "The keys' table.")
          .def_prop_ro(
              "length", [](const XposTables& self) { return kept_rows(self.q); }, "How many rows are kept.")
          .def_prop_ro(
              "dtype", [](const XposTables& self) { return Member<TableType>::to(self.q.type()); },
              nb::for_getter(nb::sig("def dtype(self) -> str")), "'float32' or 'float64'.")
          .def_prop_ro(
              "angles", [](const XposTables& self) { return Member<Angles>::to(self.options.angles); },
              nb::for_getter(nb::sig("def angles(self) -> str")), "'exact' or 'as_float32'.")
          .def_prop_ro(
              "memory", [](const XposTables& self) { return Member<TableMemory>::to(self.options.memory); },
              nb::for_getter(nb::sig("def memory(self) -> str")), "'full' or 'compact'.")
          .def_prop_ro(
              "seq_len", [](const XposTables& self) { return self.options.seq_len; },
              "How many tokens the frequencies were said to serve; 0 where they do not depend on it.");
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
      "Returns ζ of every pair [pairs]: the factor by which the pair shrinks over scale_base tokens.");
}

}  // namespace

void bind_rope_tables(nb::module_& m) {
  bind_tables(m);
  nb::class_<RotaryEncoding, Encoding> rotary(
      m, "RotaryRows",
      "RoPE as an encoding of query and key rows: attention(q, k, v, [RotaryRows(table)], mask=…).\n\n"
      "Su et al. 2021, arXiv 2104.09864.\n\n"
      "table: a RopeTable.");
  bind_arguments(rotary, {"table"}, 0, 0);
  rotary.def(
      "__init__",
      [](RotaryEncoding* self, nb::object table) {
        if (!nb::isinstance<Table>(table)) {
          Argument{"RotaryRows", "table"}.fail("a RopeTable", nb::cast<std::string>(nb::repr(table)));
        }
        static const EncodingClass of{"RotaryRows", {}};
        new (self) RotaryEncoding(of, std::move(table));
      },
      nb::arg("table").none(), nb::sig("def __init__(self, table: RopeTable) -> None"));
  nb::class_<RotaryValueEncoding, Encoding> values(
      m, "RotaryValues",
      "RoPE on values, whose sum is turned back: attention(q, k, v, [RotaryRows(table), RotaryValues(table)], "
      "mask=…).\n\n"
      "    o_i = R(-m_i) sum_j p_ij R(n_j) v_j\n\n"
      "DeepSeek-V4 has it, whose keys are its values. Values stand at k_positions, outputs at q_positions.\n\n"
      "DeepSeek-AI 2026; before it RoPER, by Georges Harik.\n\n"
      "table: a RopeTable, whose head_dim is that of the values.");
  bind_arguments(values, {"table"}, 0, 0);
  values.def(
      "__init__",
      [](RotaryValueEncoding* self, nb::object table) {
        if (!nb::isinstance<Table>(table)) {
          Argument{"RotaryValues", "table"}.fail("a RopeTable", nb::cast<std::string>(nb::repr(table)));
        }
        static const EncodingClass of{"RotaryValues", {}};
        new (self) RotaryValueEncoding(of, std::move(table));
      },
      nb::arg("table").none(), nb::sig("def __init__(self, table: RopeTable) -> None"));
  nb::class_<XposEncoding, Encoding> xpos(m, "XposRows",
                                          "xPos as an encoding of query and key rows.\n\n"
                                          "Sun et al. 2022, arXiv 2212.10554.\n\n"
                                          "table: an XposTable.");
  bind_arguments(xpos, {"table"}, 0, 0);
  xpos.def(
      "__init__",
      [](XposEncoding* self, nb::object table) {
        if (!nb::isinstance<XposTables>(table)) {
          Argument{"XposRows", "table"}.fail("an XposTable", nb::cast<std::string>(nb::repr(table)));
        }
        static const EncodingClass of{"XposRows", {}};
        new (self) XposEncoding(of, std::move(table));
      },
      nb::arg("table").none(), nb::sig("def __init__(self, table: XposTable) -> None"));
}

TableType table_type_of(nb::handle dtype, const char* function) {
  const auto type = type_called(dtype);
  if (type == DataType::f64) return TableType::f64;
  if (type == DataType::f32) return TableType::f32;
  Argument{function, "dtype"}.fail("float32 or float64", nb::cast<std::string>(nb::repr(dtype)));
}

}  // namespace bearing::python
