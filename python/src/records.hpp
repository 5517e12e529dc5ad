#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <type_traits>
#include <vector>

#include "members.hpp"

// Results as Python sees them: objects with read-only members, that print themselves, compare, and become
// dictionaries. Unlike specs they are never made from Python, nor from a pickle, but for those that say how.

namespace bearing::python {

/// One member: its name, what a signature calls its type, how it is read, and what it is.
template <class R>
struct Item {
  const char* name;
  const char* type;
  nb::object (*get)(const R&);
  const char* doc;
};

// How most members are read.

inline nb::object number(Index value) { return nb::int_(value); }
/// As os.fsdecode reads a file's name, which need not be UTF-8.
inline nb::object text(const std::string& value) {
  nb::object read =
      nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape"));
  if (!read.is_valid()) nb::raise_python_error();
  return read;
}

/// One object for each, in a tuple.
template <class T>
nb::object tuple_of(const std::vector<T>& all) {
  nb::list list;
  for (const T& one : all) {
    if constexpr (std::is_same_v<T, std::string>) {
      list.append(text(one));
    } else {
      list.append(nb::cast(one));
    }
  }
  return nb::tuple(list);
}

/// The text of a value; of an array its shape alone, of a long tuple its length.
inline std::string short_repr(nb::handle value) {
  if (nb::isinstance<nb::tuple>(value) && nb::len(value) > 8) {
    return "<tuple of " + std::to_string(nb::len(value)) + ">";
  }
  if (!nb::hasattr(value, "shape")) return nb::cast<std::string>(nb::repr(value));
  return "<array " + nb::cast<std::string>(nb::repr(nb::object(value.attr("shape")))) + ">";
}

/// Plain Python all the way down: arrays become lists.
inline nb::object plain_value(nb::handle value) {
  if (nb::isinstance<nb::dict>(value)) {
    nb::dict all;
    for (const auto& [key, one] : nb::borrow<nb::dict>(value)) all[key] = plain_value(one);
    return all;
  }
  return nb::hasattr(value, "tolist") ? nb::object(value.attr("tolist")()) : plain(value);
}

/// Specialise with `static nb::tuple reduce(const R&)`, what __reduce__ returns, for a record that can be made again.
template <class R>
struct Pickled;
template <class R>
concept Picklable = requires(const R& record) {
  Pickled<R>::reduce(record);
};

template <class R>
nb::class_<R> record(nb::module_& m, const char* name, const char* doc, std::vector<Item<R>> items) {
  nb::class_<R> type(m, name, doc);
  for (const Item<R>& item : items) {
    // Signatures are kept as long as the module, which is for ever.
    const auto* signature = new std::string(std::string("def ") + item.name + "(self) -> " + item.type);
    type.def_prop_ro(
        item.name, [get = item.get](const R& self) { return get(self); }, nb::for_getter(nb::sig(signature->c_str())),
        item.doc);
  }
  const auto to_dict = [items](const R& self) {
    nb::dict all;
    for (const Item<R>& item : items) all[item.name] = plain_value(item.get(self));
    return all;
  };
  type.def("__repr__", [name, items](const R& self) {
    std::string text = std::string(name) + "(";
    for (const Item<R>& item : items) {
      if (text.back() != '(') text += ", ";
      text += std::string(item.name) + "=" + short_repr(item.get(self));
    }
    return text + ")";
  });
  type.def(
      "__eq__",
      [to_dict](const R& self, nb::handle other) {
        // By their texts: a NaN, which says that there is no number, is like another.
        return nb::isinstance<R>(other) && nb::repr(to_dict(self)).equal(nb::repr(to_dict(nb::cast<const R&>(other))));
      },
      nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  type.def(
      "__hash__", [to_dict](const R& self) { return nb::hash(nb::repr(to_dict(self))); },
      nb::sig("def __hash__(self) -> int"));
  type.def("to_dict", to_dict, nb::sig("def to_dict(self) -> dict[str, Any]"),
           "Returns the members by name, in plain Python types that JSON can hold.");
  copies_are_itself(type);
  type.def(
      "__reduce__",
      [name]([[maybe_unused]] const R& self) -> nb::tuple {
        if constexpr (Picklable<R>) return Pickled<R>::reduce(self);
        throw nb::type_error((std::string("[") + name + "] cannot be pickled: pickle its to_dict()").c_str());
      },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  return type;
}

}  // namespace bearing::python
