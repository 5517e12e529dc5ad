#pragma once

#include <nanobind/nanobind.h>

#include <any>
#include <bearing/description.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/say.hpp>
#include <span>
#include <typeindex>
#include <utility>
#include <variant>

#include "members.hpp"

// Specs as Python sees them: immutable objects that are made from keywords, print themselves, compare, hash, and go to
// and from dictionaries. A class for each type of records that the library describes.

namespace bearing::python {

struct Argument;

/// A spec as Python holds it.
struct Spec {
  Record record;
  mutable Py_hash_t hash = -1;  ///< of its text; -1: nobody has asked yet
};

/// Binds `Spec`, the base of them all.
void bind_spec(nb::module_& m);
/// Binds the class of a type of records, which must live for ever.
void bind_record(nb::module_& m, const RecordType& type);

/// The class of a type of records. Throws std::logic_error if it has none.
nb::handle class_of_records(std::type_index type);
/// Its record; null for what is no spec.
const Record* record_of(nb::handle from);
nb::object spec_object(Record record);
/// Throws TypeError unless the record is of one of these types: any spec can be given to another class's method.
void check_self(const Record& self, std::span<const std::type_index> types, const char* function);
/// An encoding in any way to say it: text as the command takes it, or a spec.
Said said_by(nb::handle from, const Argument& argument);

/// The spec of a C++ type; null for what is none.
template <class S>
const S* spec_as(nb::handle from) {
  const Record* record = record_of(from);
  return record == nullptr ? nullptr : record->as<S>();
}
/// The Python object of a spec.
nb::object spec_object(std::type_index type, std::any value);
template <class S>
nb::object object_of_spec(S value) {
  return spec_object(typeid(S), std::any(std::move(value)));
}
template <class... S>
nb::object object_of_spec(const std::variant<S...>& one) {
  return std::visit([](const auto& spec) { return object_of_spec(spec); }, one);
}

/// Throws TypeError for another spec than one of the variant.
template <class... S>
void take_spec(nb::handle from, const Place& at, std::variant<S...>& to) {
  bool found = false;
  const auto take = [&]<class T>(const T* spec) {
    if (spec != nullptr) to = *spec, found = true;
  };
  (take(spec_as<S>(from)), ...);
  if (found) return;
  std::string all;
  ((all += (all.empty() ? "" : " | ") + nb::cast<std::string>(class_of_records(typeid(S)).attr("__name__"))), ...);
  at.fail(all, from);
}

/// Lets functions take and give a spec's C++ type.
template <class S>
struct SpecCaster {
  using Value = S;
  static constexpr auto Name = nb::detail::const_name("Spec");
  template <class T>
  using Cast = nb::detail::movable_cast_t<T>;
  template <class T>
  static constexpr bool can_cast() {
    return true;
  }

  template <class Flags>
  bool from_python(nb::handle from, Flags, nb::detail::cleanup_list*) noexcept {
    spec = const_cast<S*>(spec_as<S>(from));
    return spec != nullptr;
  }
  static nb::handle from_cpp(const S& from, nb::rv_policy, nb::detail::cleanup_list*) noexcept {
    return object_of_spec(from).release();
  }
  explicit operator S&() { return *spec; }

  S* spec = nullptr;  ///< read only: functions take const S&
};

}  // namespace bearing::python

namespace nanobind::detail {

template <>
struct type_caster<bearing::Rope> : bearing::python::SpecCaster<bearing::Rope> {};
template <>
struct type_caster<bearing::Xpos> : bearing::python::SpecCaster<bearing::Xpos> {};

}  // namespace nanobind::detail
