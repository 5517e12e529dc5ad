#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <bearing/view.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "numbers.hpp"

// Between values of Python and those of C++: words, numbers, sequences, and where a wrong one came from.

namespace bearing::python {

namespace nb = nanobind;

/// The words that Python has for an enumeration: specialise with `static constexpr std::array<Word<E>, n> words`.
template <class E>
struct Word {
  E value;
  const char* text;
};
template <class E>
struct Words;
template <class E>
concept Worded = requires {
  Words<E>::words;
};

template <Worded E>
const char* word_of(E value) {
  for (const auto& word : Words<E>::words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

/// "'half', 'interleaved'": all words, as Python writes them.
template <Worded E>
std::string words_text() {
  std::string all;
  for (const auto& word : Words<E>::words) all += std::string(all.empty() ? "'" : ", '") + word.text + "'";
  return all;
}

/// "a spec's name, its member": where a value came from, for errors.
struct Place {
  const char* owner;
  const char* member;

  [[noreturn]] void fail(const std::string& wanted, nb::handle got) const {
    const std::string text = std::string("[") + owner + "] " + member + ": must be " + wanted + ", got " +
                             nb::cast<std::string>(nb::repr(got));
    throw nb::type_error(text.c_str());
  }
};

template <Worded E>
E enum_of(nb::handle from, const Place& at) {
  std::string given;
  const bool is_text = nb::try_cast(from, given);
  for (const auto& word : Words<E>::words) {
    if (is_text && given == word.text) return word.value;
  }
  const std::string text = std::string("[") + at.owner + "] " + at.member + ": must be one of " + words_text<E>() +
                           ", got " + nb::cast<std::string>(nb::repr(from));
  throw nb::value_error(text.c_str());
}

/// How a type is converted, both ways, and what errors call it.
template <class T>
struct Member {
  static_assert(std::is_same_v<T, bool> || std::is_same_v<T, double>);
  static T from(nb::handle value, const Place& at) {
    T out{};
    if (!nb::try_cast(value, out)) at.fail(name(), value);
    return out;
  }
  static std::string name() { return std::is_same_v<T, bool> ? "bool" : "float"; }
};

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct Member<T> {
  static nb::object to(T value) { return nb::int_(value); }
  static T from(nb::handle value, const Place& at) {
    T out{};
    if (!nb::try_cast(value, out)) at.fail("int", value);
    return out;
  }
  static std::string name() { return "int"; }
};

template <Worded E>
struct Member<E> {
  static nb::object to(E value) { return nb::str(word_of(value)); }
  static E from(nb::handle value, const Place& at) { return enum_of<E>(value, at); }
  static std::string name() { return "Literal[" + words_text<E>() + "]"; }
};

/// Throws TypeError for an array that cannot be read as it is: memory.hpp.
void check_sequence(nb::handle values, const Place& at);

template <class T>
struct Member<std::vector<T>> {
  static nb::object to(const std::vector<T>& values) {
    nb::list all;
    for (const T& value : values) all.append(Member<T>::to(value));
    return nb::tuple(all);
  }
  static std::vector<T> from(nb::handle values, const Place& at) {
    std::vector<T> all;
    check_sequence(values, at);
    if (!nb::isinstance<nb::sequence>(values) && !nb::hasattr(values, "__iter__")) at.fail(name(), values);
    for (nb::handle value : values) all.push_back(Member<T>::from(value, at));
    return all;
  }
  static std::string name() { return "Sequence[" + Member<T>::name() + "]"; }
};

/// A value of plain Python types: what JSON can hold. Specs become {"type": name, …}.
inline nb::object plain(nb::handle value) {
  if (nb::hasattr(value, "to_dict")) return value.attr("to_dict")();
  if (nb::isinstance<nb::tuple>(value)) {
    nb::list all;
    for (nb::handle one : value) all.append(plain(one));
    return all;
  }
  return nb::borrow(value);
}
/// The other way; specs are found by name in this module.
nb::object unplain(nb::handle value);

/// What __reduce__ returns: bearing._pickle.<how>(arguments…), which pickle and deepcopy call to make a value again.
template <class... T>
nb::tuple made_by(const char* how, T&&... arguments) {
  const nb::object maker = nb::module_::import_("bearing._pickle").attr(how);
  return nb::make_tuple(maker, nb::make_tuple(std::forward<T>(arguments)...));
}

/// copy() and deepcopy() of what cannot be changed: itself.
template <class Type>
void copies_are_itself(Type& type) {
  type.def(
      "__copy__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __copy__(self) -> Any"));
  type.def(
      "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); }, nb::arg("memo").none(),
      nb::sig("def __deepcopy__(self, memo: Any) -> Any"));
}

}  // namespace bearing::python
