#pragma once

#include <nanobind/nanobind.h>

#include <string>

// Classes that are made while the module is: one for each type of records and each encoding.

namespace bearing::python {

namespace nb = nanobind;

/// A subclass of `base`, which nanobind binds, as an attribute of the module. Its objects take no other attributes.
inline nb::object make_class(nb::module_& m, nb::handle base, const std::string& name, const std::string& doc) {
  nb::dict members;
  members["__doc__"] = doc;
  members["__module__"] = m.attr("__name__");
  members["__slots__"] = nb::tuple();
  nb::object made = nb::handle(base.type())(name, nb::make_tuple(base), members);
  nb::delattr(made, "__slots__");
  nb::setattr(m, name.c_str(), made);
  return made;
}

/// A member of a class that is read only.
template <class Get>
void def_property(nb::handle type, const char* name, const Get& get, const char* signature, const char* doc) {
  const nb::object property = nb::module_::import_("builtins").attr("property");
  const nb::object getter =
      nb::cpp_function(get, nb::scope(type), nb::name(name), nb::is_method(), nb::sig(signature), doc);
  nb::setattr(type, name, property(getter, nb::none(), nb::none(), doc));
}

/// A method that hides one of the base.
template <class F, class... Extra>
void def_method(nb::handle type, const char* name, const F& f, const Extra&... extra) {
  nb::cpp_function(f, nb::scope(type), nb::name(name), nb::is_method(), extra...);
}

}  // namespace bearing::python
