#include "encodings.hpp"

#include <algorithm>
#include <bearing/rope_report.hpp>
#include <cstring>
#include <string_view>
#include <utility>

#include "classes.hpp"
#include "rope_tables.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

/// Throws TypeError for truth values where something else takes these.
void check_no_truth(nb::handle array, const Argument& argument, const char* for_truth) {
  if (for_truth == nullptr || !nb::hasattr(array, "dtype") || !type_text(array).ends_with("bool")) return;
  argument.fail(std::string("numbers to add to the scores; ") + for_truth + " takes truth values", type_text(array));
}

/// Throws TypeError for an encoding whose table is of another arithmetic.
void check_table(const char* function, const Encoding& encoding, DataType arithmetic) {
  for (const auto& [name, value, by_caller] : encoding.given()) {
    const bool rotary = nb::isinstance<Table>(value), xpos = nb::isinstance<XposTables>(value);
    if (!rotary && !xpos) continue;
    const TableType type = rotary ? nb::cast<const Table&>(value).type() : nb::cast<const XposTables&>(value).q.type();
    if ((type == TableType::f64) == (arithmetic == DataType::f64)) continue;
    const std::string called = std::string(encoding.name()) + "." + name;
    Argument{function, called.c_str()}.fail(std::string(name_of(arithmetic)) + ", the arithmetic of this call",
                                            word_of(type));
  }
}

template <class Shape>
void check_axes(const ArrayInfo& info, const Shape& shape, const Argument& argument) {
  const std::size_t rank = shape.size(), most = info.rank, fewest = info.fewest == 0 ? most : info.fewest;
  if (rank >= fewest && rank <= most) return;
  argument.fail_shape("an array of " + (fewest == most ? "" : std::to_string(fewest) + " to ") + axes_text(most),
                      "shape " + shape_text(shape));
}

ParameterMemory memory_of(const Tensor& numbers) {
  const auto& all = std::get<std::vector<Index>>(numbers.numbers);
  ParameterMemory memory{all.data(), nullptr, numbers.shape, numbers.shape};
  Index step = 1;
  for (std::size_t axis = numbers.shape.size(); axis-- > 0; step *= numbers.shape[axis]) memory.stride[axis] = step;
  return memory;
}

}  // namespace

void bind_arguments(nb::handle type, const std::vector<const char*>& names, std::size_t first, std::size_t arrays) {
  for (std::size_t i = first; i < names.size(); ++i) {
    const bool is_array = i < first + arrays;
    def_property(
        type, names[i],
        [i, name = names[i]](const Encoding& self) {
          if (i < self.given().size() && std::string_view(self.given()[i].name) == name) return self.given()[i].value;
          Argument{name, "self"}.fail(std::string("an encoding with ") + name, self.name());
        },
        kept(std::string("def ") + names[i] + "(self) -> Any"),
        is_array ? "The array that the constructor took, or None." : "What the constructor took.");
  }
}

Encoding::Encoding(const EncodingClass& of, std::vector<GivenArgument> given, Record spec, Record settings)
    : of_(of),
      given_(std::move(given)),
      spec_(std::move(spec)),
      settings_(std::move(settings)),
      whole_numbers_(of.arrays.size()) {
  std::vector<bool> there;
  for (std::size_t p = 0; p < infos().size(); ++p) {
    const ArrayInfo& info = infos()[p];
    nb::object& value = given_[(of.has_spec ? 1 : 0) + p].value;
    there.push_back(!value.is_none());
    if (value.is_none()) {
      if (!info.optional) Argument{name(), info.name}.fail("given", "None");
    } else if (info.indices) {
      whole_numbers_[p] = whole_numbers(value, {name(), info.name});
      check_axes(info, whole_numbers_[p].shape, {name(), info.name});
      value = nested(whole_numbers_[p]);
    }
  }
  if (of.info != nullptr) of.info->check_given(spec_, there);
}

std::vector<ParameterMemory> Encoding::with_whole_numbers(std::span<const ParameterMemory> given) const {
  std::vector<ParameterMemory> all(given.begin(), given.end());
  all.resize(infos().size());
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (infos()[p].indices && !parameter(p).is_none()) all[p] = memory_of(whole_numbers_[p]);
  }
  return all;
}

template <class A>
Made<A> Encoding::made_or_kept(std::span<const ParameterMemory> given, std::optional<Made<A>>& kept) const {
  const std::vector<ParameterMemory> all = with_whole_numbers(given);
  const bool reads_any = std::any_of(given.begin(), given.end(), [](const auto& one) { return one.value != nullptr; });
  if (reads_any) return of_.info->template make<A>()(spec_, settings_, all);
  // Without parameters it is the same for all calls, of all threads: made once, as exact tables take their time.
  const std::lock_guard lock(mutex_);
  if (!kept) kept = of_.info->template make<A>()(spec_, settings_, all);
  return *kept;
}
template Made<float> Encoding::made_or_kept(std::span<const ParameterMemory>, std::optional<Made<float>>&) const;
template Made<double> Encoding::made_or_kept(std::span<const ParameterMemory>, std::optional<Made<double>>&) const;

std::vector<ParameterMemory> Encoding::memory(const char* function, DataType arithmetic, Wanted wanted,
                                              std::vector<Gradient>& gradients) const {
  if (infos().empty()) check_table(function, *this, arithmetic);
  std::vector<ParameterMemory> all(infos().size());
  for (std::size_t p = 0; p < infos().size(); ++p) {
    if (!reads(p)) continue;
    const ArrayInfo& info = infos()[p];
    check_no_truth(parameter(p), {function, info.called}, info.for_truth);
    const Array array(parameter(p), {function, info.called});
    if (array.type() != arithmetic) {
      array.argument().fail(std::string(name_of(arithmetic)) + ", the arithmetic of this call", name_of(array.type()));
    }
    check_axes(info, array.shape(), array.argument());
    all[p] = {array.data(), nullptr, array.shape(), array.stride()};
    if (wanted != Wanted::gradients) continue;
    const NewArray grad = new_array(array.kind(), array.type(), array.shape());
    std::size_t bytes = arithmetic == DataType::f64 ? 8 : 4;
    for (const Index extent : array.shape()) bytes *= static_cast<std::size_t>(extent);
    std::memset(grad.data, 0, bytes);
    all[p].grad = grad.data;
    gradients.push_back({info.name, grad.object});
  }
  return all;
}

std::string Encoding::repr() const {
  std::string text = std::string(name()) + "(";
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const auto& [name, value, by_caller] = given_[i];
    const bool is_setting = i >= (of_.has_spec ? 1 : 0) + of_.arrays.size();
    if (value.is_none() && !is_setting) continue;
    if (text.back() != '(') text += ", ";
    const bool is_spec = of_.has_spec && i == 0;
    if (!is_spec) text += std::string(name) + "=";
    const bool is_array = nb::hasattr(value, "shape");
    text += is_array ? "<" + nb::cast<std::string>(nb::repr(nb::tuple(nb::object(value.attr("shape"))))) + ">"
                     : nb::cast<std::string>(nb::repr(value));
  }
  return text + ")";
}

nb::dict Encoding::parameters() const {
  nb::dict all;
  for (std::size_t p = 0; p < infos().size(); ++p) {
    if (reads(p)) all[infos()[p].name] = parameter(p);
  }
  return all;
}

nb::dict Encoding::arguments() const {
  nb::dict all;
  for (const auto& [name, value, by_caller] : given_) all[name] = value;
  return all;
}

void Encoding::forget() {
  std::vector<nb::object> gone;  // outlives the loop: what is destroyed may run code that looks at this encoding
  for (GivenArgument& one : given_) gone.push_back(std::exchange(one.value, nb::none()));
}

namespace {

// A parameter's hook may be a method of the module that holds this encoding: Python's collector sees such cycles.

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const GivenArgument& one : nb::inst_ptr<Encoding>(self)->given()) Py_VISIT(one.value.ptr());
  return 0;
}

int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Encoding>(self)->forget();
  return 0;
}

PyType_Slot collected[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

void bind_encoding(nb::module_& m) {
  nb::class_<Encoding>(m, "Encoding", nb::type_slots(collected),
                       "An encoding with its numbers: a spec, arrays of parameters, and settings.\n\n"
                       "The arrays are the caller's own, not copies: each call reads them as they are then. They must "
                       "have the type of the\n"
                       "call's arithmetic: float64 for float64, float32 for all other types. copy() shares them; "
                       "deepcopy() and pickle copy\n"
                       "them.")
      .def("__repr__", &Encoding::repr, nb::sig("def __repr__(self) -> str"))
      .def_prop_ro("spec", &Encoding::spec, nb::for_getter(nb::sig("def spec(self) -> Any")),
                   "The spec, or None for an encoding that has none.")
      .def_prop_ro("parameters", &Encoding::parameters,
                   nb::for_getter(nb::sig("def parameters(self) -> dict[str, Array]")),
                   "The arrays of parameters that were given, by name.")
      .def_prop_ro("arguments", &Encoding::arguments, nb::for_getter(nb::sig("def arguments(self) -> dict[str, Any]")),
                   "The arguments of the constructor, by name.")
      .def(
          "replace",
          [](nb::handle self, const nb::kwargs& given) {
            const nb::dict all = nb::cast<const Encoding&>(self).arguments();
            for (auto [key, value] : given) all[key] = value;
            return nb::object(nb::handle(self.type())(**all));
          },
          nb::sig("def replace(self, **changes: Any) -> Any"),
          "Returns a copy with some arguments changed: bias.replace(table=new_table).")
      .def(
          "__reduce__",
          [](nb::handle self) {
            return made_by("encoding", nb::handle(self.type()), nb::cast<const Encoding&>(self).arguments());
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
}

namespace {

/// What a described encoding's class is, kept as long as the module, which is for ever.
struct DescribedClass : EncodingClass {
  explicit DescribedClass(const EncodingInfo& from) : EncodingClass{from.name.c_str(), {}, !from.specs.empty(), &from} {
    if (has_spec) names.push_back("spec");
    for (const ParameterInfo& one : from.parameters) {
      names.push_back(one.name.c_str());
      const std::size_t rank = one.extents.size(), fewest = std::max(one.fewest(), std::min<std::size_t>(rank, 2));
      const char* truth = one.for_truth.empty() ? nullptr : one.for_truth.c_str();
      arrays.push_back({names.back(), rank, one.optional, fewest, truth, called(one.name), one.indices});
    }
    if (from.settings == nullptr) return;
    for (const MemberInfo& one : from.settings->members) names.push_back(one.name.c_str());
  }

  ValueType spec_type() const {
    ValueType type{.kind = Kind::record, .optional = info->spec_optional};
    for (const RecordType* one : info->specs) type.records.push_back(one->type);
    return type;
  }

  std::string signature() const {
    std::string text = "def __init__(self";
    bool may_be_left_out = false;
    const auto add = [&](const std::string& name, const ValueType& type, std::optional<Value> otherwise) {
      if (type.optional && !otherwise) otherwise.emplace();
      text += ", " + signature_of(name, type, otherwise);
      if (may_be_left_out && !otherwise) text += " = ...";  // it is given by name where those before it are not
      may_be_left_out = may_be_left_out || otherwise;
    };
    if (has_spec) add("spec", spec_type(), {});
    for (const ParameterInfo& one : info->parameters) {
      add(one.name, {.kind = Kind::tensor, .optional = one.optional}, {});
    }
    if (info->settings != nullptr) {
      for (const MemberInfo& one : info->settings->members) {
        add(one.name, one.type, one.required ? std::optional<Value>() : info->settings->otherwise(one));
      }
    }
    return text + ") -> None";
  }

  std::string doc() const {
    std::vector<DocumentedItem> items;
    for (const ParameterInfo& one : info->parameters) items.push_back({one.name, one.text});
    if (info->settings != nullptr) {
      for (const MemberInfo& one : info->settings->members) items.push_back({one.name, one.text});
    }
    return with_items(info->text, items);
  }

  std::vector<const char*> names;  ///< of the constructor's arguments

 private:
  /// "Encoding.parameter", as the C++ library calls it.
  const char* called(const std::string& parameter) const {
    std::string_view owner = name;
    for (const std::string_view site : {"Inputs", "Rows", "Bias", "Term"}) {
      if (has_spec && owner.ends_with(site)) owner.remove_suffix(site.size());
    }
    return kept(std::string(owner) + "." + parameter);
  }
};

void make_encoding(Encoding* self, const DescribedClass& of, const nb::args& args, const nb::kwargs& named) {
  std::vector<GivenArgument> given = arguments_of(of.name, of.names, args, named);
  Record spec;
  if (of.has_spec) {
    const Value found = value_of(given[0].value, of.spec_type(), {of.name, "spec"});
    if (const Record* record = std::get_if<Record>(&found)) spec = *record;
  }
  Record settings;
  if (of.info->settings != nullptr) {
    settings = of.info->settings->make();
    std::size_t next = of.names.size() - settings.type().members.size();
    for (const MemberInfo& one : settings.type().members) {
      GivenArgument& argument = given[next++];
      const bool none = argument.value.is_none();
      if (one.required || !none || (argument.by_caller && one.type.optional)) {
        settings.set(one.name, value_of(argument.value, one.type, {of.name, one.name.c_str()}));
      }
      argument.value = object_of(settings.get(one.name));
    }
  }
  new (self) Encoding(of, std::move(given), std::move(spec), std::move(settings));
}

}  // namespace

void bind_encoding(nb::module_& m, const EncodingInfo& info) {
  const auto& of = *new DescribedClass(info);
  const nb::object type = make_class(m, nb::type<Encoding>(), info.name, of.doc());
  bind_arguments(type, of.names, of.has_spec ? 1 : 0, of.arrays.size());
  def_method(
      type, "__init__",
      [&of](Encoding* self, const nb::args& args, const nb::kwargs& named) { make_encoding(self, of, args, named); },
      nb::sig(kept(of.signature())));
}

namespace {

/// How an encoding is made of what was given in place of one; nothing where nobody knows.
std::string made_from(nb::handle given) {
  const auto name = nb::cast<std::string>(nb::handle(given.type()).attr("__name__"));
  const auto say = [&](const std::string& call) { return "; " + call + " makes an encoding of it"; };
  if (name == "RopeFrequencies") return say("RotaryRows(RopeTable(frequencies, length))");
  if (name == "Xpos") return say("XposRows(XposTable(xpos, length, seq_len=…))");
  if (name == "XposTable") return say("XposRows(table)");
  if (name == "Rope") return say("RotaryRows(RopeTable(rope, length, seq_len=…))");
  const nb::module_ module = nb::module_::import_("bearing._core");
  for (const char* site : {"Bias", "Term", "Rows", "Inputs"}) {
    if (nb::hasattr(module, (name + site).c_str())) return say(name + site + "(spec, …)");
  }
  return "";
}

/// RotaryRows of a table, or of a Rope whose frequencies are the same at every length; none of anything else.
nb::object rotary_rows(nb::handle given, DataType arithmetic) {
  if (nb::isinstance<Table>(given)) return nb::module_::import_("bearing._core").attr("RotaryRows")(given);
  const auto* rope = spec_as<Rope>(given);
  if (rope == nullptr || depends_on_length(rope->scaling)) return {};
  return nb::module_::import_("bearing._compat").attr("_rotary_rows")(given, name_of(arithmetic));
}

void add_one(EncodingList& to, nb::handle one, const Argument& argument, const char* wanted, DataType arithmetic) {
  nb::object encoding = nb::isinstance<Encoding>(one) ? nb::borrow(one) : rotary_rows(one, arithmetic);
  if (!encoding.is_valid()) argument.fail(wanted, nb::cast<std::string>(nb::repr(one)) + made_from(one));
  to.all.push_back(nb::cast<const Encoding*>(encoding));
  to.kept.push_back(std::move(encoding));
}

}  // namespace

EncodingList encoding_of(const Argument& argument, nb::handle encoding, DataType arithmetic) {
  EncodingList list;
  add_one(list, encoding, argument, "an encoding", arithmetic);
  return list;
}

EncodingList encodings_of(const char* function, nb::handle encodings, DataType arithmetic) {
  EncodingList list;
  const Argument argument{function, "encodings"};
  const auto add = [&](nb::handle one) { add_one(list, one, argument, "encodings", arithmetic); };
  if (encodings.is_none()) return list;
  if (nb::isinstance<nb::list>(encodings) || nb::isinstance<nb::tuple>(encodings)) {
    for (nb::handle one : encodings) add(one);
  } else {
    add(encodings);
  }
  if (list.all.size() > static_cast<std::size_t>(TermList<float>::most)) {
    argument.fail("at most 8 encodings", std::to_string(list.all.size()));
  }
  return list;
}

}  // namespace bearing::python
