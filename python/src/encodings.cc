#include "encodings.hpp"

#include <bearing/rope_report.hpp>
#include <cstring>
#include <string_view>

#include "rope_tables.hpp"

namespace bearing::python {

namespace {

/// Throws TypeError for truth values where something else takes these.
void check_no_truth(nb::handle array, const Argument& argument, const char* for_truth) {
  if (for_truth == nullptr || !nb::hasattr(array, "dtype") || !type_text(array).ends_with("bool")) return;
  argument.fail(std::string("numbers to add to the scores; ") + for_truth + " takes truth values", type_text(array));
}

/// Throws TypeError for an encoding whose table is of another arithmetic.
void check_table(const char* function, const Encoding& encoding, DataType arithmetic) {
  for (const auto& [name, value] : encoding.given()) {
    const bool rotary = nb::isinstance<Table>(value), xpos = nb::isinstance<XposTables>(value);
    if (!rotary && !xpos) continue;
    const TableType type = rotary ? nb::cast<const Table&>(value).type() : nb::cast<const XposTables&>(value).q.type();
    if ((type == TableType::f64) == (arithmetic == DataType::f64)) continue;
    const std::string called = std::string(encoding.name()) + "." + name;
    Argument{function, called.c_str()}.fail(std::string(name_of(arithmetic)) + ", the arithmetic of this call",
                                            word_of(type));
  }
}

}  // namespace

std::vector<ParameterInfo> named_in_errors(const char* encoding, bool has_spec, std::vector<ParameterInfo> infos) {
  std::string_view owner = encoding;
  for (const std::string_view site : {"Inputs", "Rows", "Bias", "Term"}) {
    if (has_spec && owner.ends_with(site)) owner.remove_suffix(site.size());
  }
  // Kept as long as the module, which is for ever.
  for (ParameterInfo& one : infos) one.called = (new std::string(std::string(owner) + "." + one.name))->c_str();
  return infos;
}

void bind_arguments(nb::handle type, const std::vector<const char*>& names, std::size_t first, std::size_t arrays) {
  const nb::object property = nb::module_::import_("builtins").attr("property");
  for (std::size_t i = first; i < names.size(); ++i) {
    const bool is_array = i < first + arrays;
    const auto* signature = new std::string(std::string("def ") + names[i] + "(self) -> Any");
    const nb::object get =
        nb::cpp_function([i](const Encoding& self) { return self.given()[i].value; }, nb::scope(type),
                         nb::name(names[i]), nb::is_method(), nb::sig(signature->c_str()),
                         is_array ? "The array that was given, or None." : "What was given.");
    nb::setattr(type, names[i], property(get));
  }
}

Encoding::Encoding(const char* name, std::vector<ParameterInfo> infos, std::vector<GivenArgument> given, bool has_spec)
    : name_(name), infos_(std::move(infos)), given_(std::move(given)), has_spec_(has_spec), first_(has_spec ? 1 : 0) {
  for (std::size_t p = 0; p < infos_.size(); ++p) {
    if (!infos_[p].optional && parameter(p).is_none()) Argument{name_, infos_[p].name}.fail("given", "None");
  }
}

std::vector<ParameterMemory> Encoding::memory(const char* function, DataType arithmetic, Wanted wanted,
                                              std::vector<Gradient>& gradients) const {
  if (infos_.empty()) check_table(function, *this, arithmetic);
  std::vector<ParameterMemory> all(infos_.size());
  for (std::size_t p = 0; p < infos_.size(); ++p) {
    if (parameter(p).is_none()) continue;
    check_no_truth(parameter(p), {function, infos_[p].called}, infos_[p].for_truth);
    const Array array(parameter(p), {function, infos_[p].called});
    if (array.type() != arithmetic) {
      array.argument().fail(std::string(name_of(arithmetic)) + ", the arithmetic of this call", name_of(array.type()));
    }
    const std::size_t most = infos_[p].rank, fewest = infos_[p].fewest == 0 ? most : infos_[p].fewest;
    if (array.rank() < fewest || array.rank() > most) {
      array.argument().fail(
          "an array of " + (fewest == most ? "" : std::to_string(fewest) + " to ") + std::to_string(most) + " axes",
          "one of " + std::to_string(array.rank()));
    }
    all[p] = {array.data(), nullptr, array.shape(), array.stride()};
    if (wanted != Wanted::gradients) continue;
    const NewArray grad = new_array(array.kind(), array.type(), array.shape());
    std::size_t bytes = arithmetic == DataType::f64 ? 8 : 4;
    for (const Index extent : array.shape()) bytes *= static_cast<std::size_t>(extent);
    std::memset(grad.data, 0, bytes);
    all[p].grad = grad.data;
    gradients.push_back({infos_[p].name, grad.object});
  }
  return all;
}

std::string Encoding::repr() const {
  std::string text = std::string(name_) + "(";
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const auto& [name, value] = given_[i];
    if (value.is_none()) continue;
    if (text.back() != '(') text += ", ";
    const bool is_spec = has_spec_ && i == 0;
    if (!is_spec) text += std::string(name) + "=";
    const bool is_array = nb::hasattr(value, "shape");
    text += is_array ? "<" + nb::cast<std::string>(nb::repr(nb::tuple(nb::object(value.attr("shape"))))) + ">"
                     : nb::cast<std::string>(nb::repr(value));
  }
  return text + ")";
}

nb::dict Encoding::parameters() const {
  nb::dict all;
  for (std::size_t p = 0; p < infos_.size(); ++p) {
    if (!parameter(p).is_none()) all[infos_[p].name] = parameter(p);
  }
  return all;
}

nb::dict Encoding::arguments() const {
  nb::dict all;
  for (const auto& [name, value] : given_) all[name] = value;
  return all;
}

void bind_encoding(nb::module_& m) {
  nb::class_<Encoding>(
      m, "Encoding",
      "An encoding with its numbers: a spec, arrays of parameters and settings.\n\n"
      "Arrays are those that were given, not copies: each call reads them as they are then. They must\n"
      "have the arithmetic of the call, float64 for float64 and float32 for all other types. copy() shares\n"
      "them; deepcopy() and pickle copy them.")
      .def("__repr__", &Encoding::repr, nb::sig("def __repr__(self) -> str"))
      .def_prop_ro("spec", &Encoding::spec, nb::for_getter(nb::sig("def spec(self) -> Any")),
                   "The spec, or None for an encoding that has none.")
      .def_prop_ro("parameters", &Encoding::parameters,
                   nb::for_getter(nb::sig("def parameters(self) -> dict[str, Array]")),
                   "The arrays of parameters that were given, by name.")
      .def_prop_ro("arguments", &Encoding::arguments, nb::for_getter(nb::sig("def arguments(self) -> dict[str, Any]")),
                   "All that the constructor took, by name.")
      .def(
          "replace",
          [](nb::handle self, const nb::kwargs& given) {
            const nb::dict all = nb::cast<const Encoding&>(self).arguments();
            for (auto [key, value] : given) all[key] = value;
            return nb::object(nb::handle(self.type())(**all));
          },
          "A copy with some arguments changed: bias.replace(table=new_table).")
      .def(
          "__reduce__",
          [](nb::handle self) {
            return made_by("encoding", nb::handle(self.type()), nb::cast<const Encoding&>(self).arguments());
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
}

std::vector<GivenArgument> arguments_of(const char* name, std::span<const char* const> names, const nb::args& args,
                                        const nb::kwargs& given) {
  const auto fail = [&](const std::string& text) {
    throw nb::type_error((std::string("[") + name + "] " + text).c_str());
  };
  std::vector<GivenArgument> all;
  std::string list;
  for (const char* one : names) {
    all.push_back({one, nb::none()});
    list += (list.empty() ? "" : ", ") + std::string(one);
  }
  if (args.size() > names.size()) fail("takes (" + list + "), got " + std::to_string(args.size()) + " arguments");
  for (std::size_t i = 0; i < args.size(); ++i) all[i].value = nb::borrow(args[i]);
  for (auto [key, value] : given) {
    const auto word = nb::cast<std::string>(key);
    std::size_t i = 0;
    while (i < names.size() && word != names[i]) ++i;
    if (i == names.size()) fail("has no argument " + word + "; it takes (" + list + ")");
    if (i < args.size()) fail("got its argument " + word + " twice");
    all[i].value = nb::borrow(value);
  }
  return all;
}

namespace {

/// How an encoding is made of what was given in place of one; nothing where nobody knows.
std::string made_from(nb::handle given) {
  const auto name = nb::cast<std::string>(nb::handle(given.type()).attr("__name__"));
  const auto say = [&](const std::string& call) { return ", which " + call + " makes of it"; };
  if (name == "RopeFrequencies") return say("RotaryRows(RopeTable(frequencies, length))");
  if (name == "Xpos") return say("XposRows(XposTable(xpos, length))");
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
  if (!nb::isinstance<Rope>(given) || depends_on_length(nb::cast<const Rope&>(given).scaling)) return {};
  return nb::module_::import_("bearing._compat").attr("_rotary_rows")(given, name_of(arithmetic));
}

void add_one(EncodingList& to, nb::handle one, const Argument& argument, const char* wanted, DataType arithmetic) {
  nb::object encoding = nb::isinstance<Encoding>(one) ? nb::borrow(one) : rotary_rows(one, arithmetic);
  if (!encoding.is_valid()) argument.fail(wanted + made_from(one), nb::cast<std::string>(nb::repr(one)));
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
