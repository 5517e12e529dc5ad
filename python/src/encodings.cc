#include "encodings.hpp"

#include <cstring>

namespace bearing::python {

Encoding::Encoding(const char* name, std::vector<ParameterInfo> infos, std::vector<GivenArgument> given, bool has_spec)
    : name_(name), infos_(std::move(infos)), given_(std::move(given)), has_spec_(has_spec), first_(has_spec ? 1 : 0) {
  for (std::size_t p = 0; p < infos_.size(); ++p) {
    if (!infos_[p].optional && parameter(p).is_none()) Argument{name_, infos_[p].name}.fail("given", "None");
  }
}

std::vector<ParameterMemory> Encoding::memory(const char* function, DataType arithmetic, Wanted wanted,
                                              std::vector<Gradient>& gradients) const {
  // An empty array has no memory, but has been given.
  static const double none_of_it = 0;
  std::vector<ParameterMemory> all(infos_.size());
  for (std::size_t p = 0; p < infos_.size(); ++p) {
    if (parameter(p).is_none()) continue;
    const Array array(parameter(p), {function, infos_[p].name});
    const auto fail = [&](const std::string& wanted, const std::string& got) {
      const std::string named =
          std::string(name()) + "." + infos_[p].name;  // which encoding's, as there may be several
      Argument{function, named.c_str()}.fail(wanted, got);
    };
    if (array.type() != arithmetic) {
      fail(std::string(name_of(arithmetic)) + ", the arithmetic of this call", name_of(array.type()));
    }
    const std::size_t most = infos_[p].rank, fewest = infos_[p].fewest == 0 ? most : infos_[p].fewest;
    if (array.rank() < fewest || array.rank() > most) {
      fail("an array of " + (fewest == most ? "" : std::to_string(fewest) + " to ") + std::to_string(most) + " axes",
           "one of " + std::to_string(array.rank()));
    }
    all[p] = {array.data() == nullptr ? &none_of_it : array.data(), nullptr, array.shape(), array.stride()};
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

std::vector<const Encoding*> encodings_of(const char* function, nb::handle encodings) {
  std::vector<const Encoding*> all;
  const auto add = [&](nb::handle one) {
    if (!nb::isinstance<Encoding>(one)) {
      Argument{function, "encodings"}.fail("encodings", nb::cast<std::string>(nb::repr(one)));
    }
    all.push_back(nb::cast<const Encoding*>(one));
  };
  if (encodings.is_none()) return all;
  if (nb::isinstance<nb::list>(encodings) || nb::isinstance<nb::tuple>(encodings)) {
    for (nb::handle one : encodings) add(one);
  } else {
    add(encodings);
  }
  if (all.size() > static_cast<std::size_t>(TermList<float>::most)) {
    Argument{function, "encodings"}.fail("at most 8 encodings", std::to_string(all.size()));
  }
  return all;
}

}  // namespace bearing::python
