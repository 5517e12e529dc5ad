#include "values.hpp"

#include <nanobind/ndarray.h>

#include <cstring>
#include <numeric>

#include "specs.hpp"

namespace bearing::python {

namespace {

Index count(const std::vector<Index>& shape) {
  return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
}

ValueType given(ValueType type) {
  type.optional = false;
  return type;
}

[[noreturn]] void fail(const ValueType& type, const Place& at, nb::handle got) {
  at.fail(python_type(given(type)), got);
}

std::string word_of(nb::handle from, const ValueType& type, const Place& at) {
  std::string word;
  const bool is_text = nb::try_cast(from, word);
  if (type.words.empty()) {
    if (!is_text) fail(type, at, from);
    return word;
  }
  std::string choices;
  for (const std::string& one : type.words) {
    if (is_text && word == one) return word;
    choices += (choices.empty() ? "'" : ", '") + one + "'";
  }
  const std::string text = std::string("[") + at.owner + "] " + at.member + ": must be one of " + choices + ", got " +
                           nb::cast<std::string>(nb::repr(from));
  throw nb::value_error(text.c_str());
}

Values list_of(nb::handle from, const ValueType& type, const Place& at) {
  check_sequence(from, at);
  if (!nb::isinstance<nb::sequence>(from) && !nb::hasattr(from, "__iter__")) fail(type, at, from);
  Values all;
  for (nb::handle one : from) {
    if (type.items.size() > 1 && all.size() == type.items.size()) fail(type, at, from);
    all.push_back(value_of(one, type.items[type.items.size() > 1 ? all.size() : 0], at));
  }
  if (type.items.size() > 1 && all.size() != type.items.size()) fail(type, at, from);
  return all;
}

Record spec_of(nb::handle from, const ValueType& type, const Place& at) {
  const Record* record = record_of(from);
  const auto& types = type.records;
  if (record == nullptr || std::find(types.begin(), types.end(), record->type().type) == types.end()) {
    fail(type, at, from);
  }
  return *record;
}

/// f(offset in elements) for each place of an array, row by row.
template <class F>
void each_place(const std::vector<Index>& shape, const std::vector<Index>& stride, const F& f) {
  std::vector<Index> at(shape.size());
  for (Index n = count(shape); n > 0; --n) {
    f(std::inner_product(at.begin(), at.end(), stride.begin(), Index{0}));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

template <class T>
std::vector<T> copied(const T* data, const std::vector<Index>& shape, const std::vector<Index>& stride) {
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(count(shape)));
  each_place(shape, stride, [&](Index offset) { out.push_back(data[offset]); });
  return out;
}

/// Numbers of float64 or float32, copied.
Tensor numbers(nb::handle from, const ValueType& type, const Argument& argument) {
  const Array array(from, argument);
  if (type.rank != 0 && array.rank() != static_cast<std::size_t>(type.rank)) {
    argument.fail_shape("an array of " + axes_text(static_cast<std::size_t>(type.rank)),
                        "shape " + shape_text(array.shape()));
  }
  const std::vector<Index> shape = array.shape(), stride = array.stride();
  if (array.type() == DataType::f64) return {shape, copied(static_cast<const double*>(array.data()), shape, stride)};
  if (array.type() != DataType::f32) {
    argument.fail("float64 or float32", name_of(array.type()));
  }
  return {shape, copied(static_cast<const float*>(array.data()), shape, stride)};
}

/// Nothing, the first of a row of them, or whole or real numbers of so many axes.
Value positions_of(nb::handle from, const Argument& argument) {
  const PositionsArgument given(from, argument);  // refuses what cannot be
  Index first = 0;
  if (nb::try_cast(from, first)) return first;
  const nb::object array =
      nb::hasattr(from, "dtype") ? nb::borrow(from) : nb::module_::import_("numpy").attr("asarray")(from);
  const Memory memory(array, argument, Expected{"positions", "positions"});
  const std::vector<Index> shape = memory.shape;
  if (const auto whole = integers_of(memory, argument)) return Tensor{shape, copied(whole->data, shape, whole->stride)};
  const auto real = reals_of(memory);
  return Tensor{shape, copied(real->data, shape, real->stride)};
}

nb::object array_of(const Tensor& tensor, ArrayKind kind) {
  return std::visit(
      [&]<class T>(const std::vector<T>& from) -> nb::object {
        if constexpr (std::is_same_v<T, Index>) {
          return nb::module_::import_("numpy").attr("array")(nested(tensor), "int64");
        } else {
          const NewArray made =
              new_array(kind, std::is_same_v<T, double> ? DataType::f64 : DataType::f32, tensor.shape);
          if (!from.empty()) std::memcpy(made.data, from.data(), from.size() * sizeof(T));
          return made.object;
        }
      },
      tensor.numbers);
}

}  // namespace

Value value_of(nb::handle from, const ValueType& type, const Place& at) {
  if (type.optional && from.is_none()) return {};
  switch (type.kind) {
    case Kind::truth:
      return Member<bool>::from(from, at);
    case Kind::whole:
      return Member<Index>::from(from, at);
    case Kind::number:
      return Member<double>::from(from, at);
    case Kind::word:
      return word_of(from, type, at);
    case Kind::list:
      return list_of(from, type, at);
    case Kind::record:
      return spec_of(from, type, at);
    case Kind::tensor:
      return numbers(from, type, {at.owner, at.member});
    case Kind::positions:
      return positions_of(from, {at.owner, at.member});
  }
  fail(type, at, from);
}

nb::object object_of(const Value& value, ArrayKind kind) {
  struct Objects {
    ArrayKind kind;
    nb::object operator()(std::monostate) const { return nb::none(); }
    nb::object operator()(bool one) const { return nb::bool_(one); }
    nb::object operator()(Index one) const { return nb::int_(one); }
    nb::object operator()(double one) const { return nb::float_(one); }
    nb::object operator()(const std::string& one) const { return nb::str(one.c_str(), one.size()); }
    nb::object operator()(const Record& one) const { return spec_object(one); }
    nb::object operator()(const Tensor& one) const { return array_of(one, kind); }
    nb::object operator()(const Values& all) const {
      nb::list list;
      for (const Value& one : all) list.append(object_of(one, kind));
      return nb::tuple(list);
    }
  };
  return std::visit(Objects{kind}, static_cast<const Value::variant&>(value));
}

std::string result_type(const FunctionInfo& function) {
  if (!function.result_text.empty()) return function.result_text;
  const ValueType& type = function.result;
  if (type.kind == Kind::list && type.items.size() == 1) return "list[" + python_type(type.items[0]) + "]";
  if (type.kind != Kind::tensor) return python_type(type);
  const bool of_arrays = std::any_of(function.arguments.begin(), function.arguments.end(),
                                     [](const ArgumentInfo& one) { return one.type.kind == Kind::tensor; });
  return of_arrays ? "Array" : "Float64Array";
}

std::string signature_of(const std::string& name, const ValueType& type, const std::optional<Value>& otherwise) {
  std::string text = name + ": " + python_type(type);
  if (!otherwise) return text;
  const auto value = nb::cast<std::string>(nb::repr(object_of(*otherwise)));
  return text + " = " + (value.find('(') == std::string::npos || value == "()" ? value : "...");
}

Tensor whole_numbers(nb::handle from, const Argument& argument) {
  constexpr const char* wanted = "an array of integers on the CPU";
  const nb::object array =
      nb::hasattr(from, "dtype") ? nb::borrow(from) : nb::module_::import_("numpy").attr("asarray")(from);
  const Memory memory(array, argument, Expected{wanted, wanted});
  const auto elements = integers_of(memory, argument);
  if (!elements) argument.fail(wanted, "an array of " + type_text(array));
  const std::vector<Index> shape = memory.shape, stride = elements->stride;
  return {shape, copied(elements->data, shape, stride)};
}

nb::object nested(const Tensor& tensor) {
  const auto& all = std::get<std::vector<Index>>(tensor.numbers);
  std::size_t next = 0;
  const auto level = [&](const auto& self, std::size_t axis) -> nb::object {
    if (axis == tensor.shape.size()) return nb::int_(all[next++]);
    nb::list list;
    for (Index i = 0; i < tensor.shape[axis]; ++i) list.append(self(self, axis + 1));
    return nb::tuple(list);
  };
  return level(level, 0);
}

std::string with_items(std::string text, const std::vector<DocumentedItem>& items) {
  constexpr std::size_t width = 110;
  if (!items.empty()) text += "\n";
  for (const auto& [name, about] : items) {
    std::string line = name + ":";
    for (std::size_t from = 0; from < about.size();) {
      const std::size_t to = std::min(about.find_first_of(" \n", from), about.size());
      if (to > from) {
        if (line.size() + 1 + (to - from) > width) text += "\n" + line, line = "   ";
        line += " " + about.substr(from, to - from);
      }
      from = to + 1;
    }
    text += "\n" + line;
  }
  return text;
}

}  // namespace bearing::python
