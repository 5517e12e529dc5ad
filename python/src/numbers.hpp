#pragma once

#include <nanobind/nanobind.h>

#include <bearing/view.hpp>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

// What counts as a number, in every argument and member: Python's own, NumPy's, and whatever else has __index__ or
// __float__. A truth value does not: it is a flag in the place of a number.

namespace bearing::python {

namespace nb = nanobind;

/// Python's or NumPy's, or an array of them without axes.
inline bool is_truth_value(nb::handle from) noexcept {
  if (PyBool_Check(from.ptr())) return true;
  if (PyLong_Check(from.ptr()) || PyFloat_Check(from.ptr())) return false;
  const nb::object type = nb::steal(PyObject_GetAttrString(from.ptr(), "dtype"));
  const nb::object text = type.is_valid() ? nb::steal(PyObject_Str(type.ptr())) : nb::object();
  const char* word = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (word == nullptr) PyErr_Clear();
  return word != nullptr && (std::string_view(word) == "bool" || std::string_view(word) == "torch.bool");
}

/// As nanobind converts numbers of a type `As`, but for truth values.
template <class T, class As>
struct NumberCaster {
  static_assert(!std::is_same_v<T, As> && sizeof(T) <= sizeof(As));
  using Value = T;
  template <class U>
  using Cast = nb::detail::movable_cast_t<U>;
  template <class U>
  static constexpr bool can_cast() {
    return true;
  }

  template <class Flags>
  bool from_python(nb::handle from, Flags flags, nb::detail::cleanup_list* cleanup) noexcept {
    nb::detail::make_caster<As> caster;
    if (is_truth_value(from) || !caster.from_python(from, flags, cleanup)) return false;
    value = static_cast<T>(caster.value);
    return true;
  }
  static nb::handle from_cpp(T from, nb::rv_policy policy, nb::detail::cleanup_list* cleanup) noexcept {
    return nb::detail::make_caster<As>::from_cpp(static_cast<As>(from), policy, cleanup);
  }
  explicit operator T*() { return &value; }
  explicit operator T&() { return value; }
  explicit operator T&&() { return std::move(value); }

  T value = 0;
};

}  // namespace bearing::python

namespace nanobind::detail {

using bearing_whole = std::conditional_t<std::is_same_v<bearing::Index, long long>, long, long long>;
using bearing_natural =
    std::conditional_t<std::is_same_v<std::uint64_t, unsigned long long>, unsigned long, unsigned long long>;

template <>
struct type_caster<bearing::Index> : bearing::python::NumberCaster<bearing::Index, bearing_whole> {
  static constexpr auto Name = const_name("int");
};
template <>
struct type_caster<std::uint64_t> : bearing::python::NumberCaster<std::uint64_t, bearing_natural> {
  static constexpr auto Name = const_name("int");
};
template <>
struct type_caster<double> : bearing::python::NumberCaster<double, long double> {
  static constexpr auto Name = const_name("float");
};

}  // namespace nanobind::detail
