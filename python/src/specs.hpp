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

// Specs as Python sees them: immutable objects that are made from keywords, print themselves, compare, hash, and go to
// and from dictionaries. One call of spec() binds one aggregate: its members in their order.

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
  std::string choices;
  std::string given;
  const bool is_text = nb::try_cast(from, given);
  for (const auto& word : Words<E>::words) {
    if (is_text && given == word.text) return word.value;
    choices += std::string(choices.empty() ? "'" : ", '") + word.text + "'";
  }
  const std::string text = std::string("[") + at.owner + "] " + at.member + ": must be one of " + choices + ", got " +
                           nb::cast<std::string>(nb::repr(from));
  throw nb::value_error(text.c_str());
}

/// How a member's type is converted, both ways, and what a signature calls it.
template <class T>
struct Member {
  static nb::object to(const T& value) { return nb::cast(value); }
  static T from(nb::handle value, const Place& at) {
    if constexpr (std::is_class_v<T>) {  // a spec
      if (!nb::isinstance<T>(value)) at.fail(name(), value);
      return nb::cast<T>(value);
    } else {
      T out{};
      if (!nb::try_cast(value, out)) at.fail(name(), value);
      return out;
    }
  }
  static std::string name() {
    if constexpr (std::is_same_v<T, bool>)
      return "bool";
    else if constexpr (std::is_integral_v<T>)
      return "int";
    else if constexpr (std::is_floating_point_v<T>)
      return "float";
    else if constexpr (std::is_same_v<T, std::string>)
      return "str";
    else
      return nb::cast<std::string>(nb::type<T>().attr("__name__"));
  }
};

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct Member<T> {
  static nb::object to(T value) { return nb::int_(value); }
  static T from(nb::handle value, const Place& at) {
    T out{};
    if (PyBool_Check(value.ptr()) || !nb::try_cast(value, out)) at.fail("int", value);
    return out;
  }
  static std::string name() { return "int"; }
};

template <Worded E>
struct Member<E> {
  static nb::object to(E value) { return nb::str(word_of(value)); }
  static E from(nb::handle value, const Place& at) { return enum_of<E>(value, at); }
  static std::string name() {
    std::string all = "Literal[";
    for (const auto& word : Words<E>::words) all += std::string(all.back() == '[' ? "'" : ", '") + word.text + "'";
    return all + "]";
  }
};

template <class T>
struct Member<Required<T>> {
  static nb::object to(const Required<T>& value) { return Member<T>::to(value); }
  static Required<T> from(nb::handle value, const Place& at) { return Member<T>::from(value, at); }
  static std::string name() { return Member<T>::name(); }
};

template <class T>
struct Member<std::optional<T>> {
  static nb::object to(const std::optional<T>& value) { return value ? Member<T>::to(*value) : nb::none(); }
  static std::optional<T> from(nb::handle value, const Place& at) {
    if (value.is_none()) return std::nullopt;
    return Member<T>::from(value, at);
  }
  static std::string name() { return Member<T>::name() + " | None"; }
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

/// One of several specs.
template <class... T>
struct Member<std::variant<T...>> {
  static nb::object to(const std::variant<T...>& value) {
    return std::visit([](const auto& one) { return nb::cast(one); }, value);
  }
  static std::variant<T...> from(nb::handle value, const Place& at) {
    std::optional<std::variant<T...>> found;
    ((found || !nb::isinstance<T>(value) ? void() : void(found = nb::cast<T>(value))), ...);
    if (!found) at.fail(name(), value);
    return *found;
  }
  static std::string name() {
    std::string all;
    ((all += (all.empty() ? "" : " | ") + Member<T>::name()), ...);
    return all;
  }
};

template <class Spec, class T>
struct Field {
  const char* name;
  T Spec::*member;
};
template <class Spec, class T>
Field(const char*, T Spec::*) -> Field<Spec, T>;

template <class T>
inline constexpr bool is_required = false;
template <class T>
inline constexpr bool is_required<Required<T>> = true;

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

/// f(field) for each of them, in order.
template <class Fields, class F>
void each(const Fields& fields, const F& f) {
  std::apply([&](const auto&... one) { (f(one), ...); }, fields);
}

/// Binds a spec: all of its members, in their order. `example` has its defaults (and something for those that have
/// none). Lines of `doc` are its docstring.
template <class Spec, class... T>
nb::class_<Spec> spec(nb::module_& m, const char* name, const char* doc, Spec example, Field<Spec, T>... field) {
  nb::class_<Spec> type(m, name, doc);
  const auto fields = std::make_tuple(field...);
  const auto build = [=](const nb::dict& given) {
    std::size_t used = 0;
    const auto value = [&]<class M>(const Field<Spec, M>& one) -> M {
      if (given.contains(one.name)) {
        ++used;
        return Member<M>::from(given[one.name], {name, one.name});
      }
      if constexpr (is_required<M>) {
        const std::string text = std::string("[") + name + "] " + one.name + ": must be given, one of " +
                                 Member<M>::name() + "; a wrong guess would be silent";
        throw nb::type_error(text.c_str());
      } else {
        return example.*one.member;
      }
    };
    Spec made = std::apply([&](const auto&... one) { return Spec{value(one)...}; }, fields);
    if (used != given.size()) {
      for (auto [key, unused] : given) {
        const std::string word = nb::cast<std::string>(key);
        bool known = false;
        each(fields, [&](const auto& one) { known = known || word == one.name; });
        if (known) continue;
        std::string all;
        each(fields, [&](const auto& one) { all += (all.empty() ? "" : ", ") + std::string(one.name); });
        throw nb::type_error((std::string("[") + name + "] has no " + word + "; it has " + all).c_str());
      }
    }
    return made;
  };
  // The signature, for help() and the stubs. Kept for as long as the module, which is for ever.
  auto* signature = new std::string("def __init__(self");
  if (sizeof...(T) > 0) *signature += ", *";
  each(fields, [&]<class M>(const Field<Spec, M>& f) {
    *signature += std::string(", ") + f.name + ": " + Member<M>::name();
    if constexpr (!is_required<M>) {
      const std::string value = nb::cast<std::string>(nb::repr(Member<M>::to(example.*f.member)));
      *signature += " = " + (value.find('(') == std::string::npos || value == "()" ? value : std::string("..."));
    }
  });
  *signature += ") -> None";
  type.def(
      "__init__",
      [=](Spec* self, const nb::args& unnamed, const nb::kwargs& given) {
        if (unnamed.size() > 0) {
          std::string members;
          each(fields,
               [&](const auto& one) { members += (members.empty() ? "" : ", ") + std::string(one.name) + "=…"; });
          const std::string text = std::string("[") + name + "] takes its members by name, " + name + "(" + members +
                                   "), got " + nb::cast<std::string>(nb::repr(unnamed[0])) + " without one";
          throw nb::type_error(text.c_str());
        }
        new (self) Spec(build(nb::borrow<nb::dict>(given)));
      },
      nb::sig(signature->c_str()));
  // Signatures are kept as long as the module, which is for ever.
  const auto kept = [](const std::string& text) { return (new std::string(text))->c_str(); };
  const auto held = [](const std::string& taken) {  // sequences are held as tuples
    constexpr std::string_view sequence = "Sequence[";
    if (taken.compare(0, sequence.size(), sequence) != 0) return taken;
    return "tuple[" + taken.substr(sequence.size(), taken.size() - sequence.size() - 1) + ", ...]";
  };
  (type.def_prop_ro(
       field.name, [member = field.member](const Spec& self) { return Member<T>::to(self.*member); },
       nb::for_getter(nb::sig(kept(std::string("def ") + field.name + "(self) -> " + held(Member<T>::name()))))),
   ...);
  type.def("__repr__", [=](const Spec& self) {
    std::string text = std::string(name) + "(";
    each(fields, [&]<class M>(const Field<Spec, M>& f) {
      if (text.back() != '(') text += ", ";
      text += std::string(f.name) + "=" + nb::cast<std::string>(nb::repr(Member<M>::to(self.*f.member)));
    });
    return text + ")";
  });
  type.def(
      "__eq__",
      [](const Spec& self, nb::handle other) {
        return nb::isinstance<Spec>(other) && self == nb::cast<const Spec&>(other);
      },
      nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  type.def(
      "__hash__", [](nb::handle self) { return nb::hash(nb::repr(self)); }, nb::sig("def __hash__(self) -> int"));
  type.def(
      "to_dict",
      [=](const Spec& self) {
        nb::dict all;
        all["type"] = name;
        each(fields, [&]<class M>(const Field<Spec, M>& f) { all[f.name] = plain(Member<M>::to(self.*f.member)); });
        return all;
      },
      nb::sig("def to_dict(self) -> dict[str, Any]"),
      "The members in plain Python types, and the type's name: what JSON can hold.");
  type.def_static(
      "from_dict",
      [=](const nb::dict& given) {
        nb::dict members;
        for (auto [key, value] : given) {
          if (nb::cast<std::string>(key) != "type") {
            members[key] = unplain(value);
          } else if (!value.equal(nb::str(name))) {
            throw nb::value_error(("[" + std::string(name) + ".from_dict] type: must be '" + name + "', got " +
                                   nb::cast<std::string>(nb::repr(value)))
                                      .c_str());
          }
        }
        return build(members);
      },
      nb::arg("members"), nb::sig(kept(std::string("def from_dict(members: dict[str, Any]) -> ") + name)),
      "The spec that to_dict() came from.");
  type.def(
      "replace",
      [=](nb::handle self, const nb::kwargs& given) {
        nb::dict members;
        each(fields, [&](const auto& one) { members[one.name] = self.attr(one.name); });
        for (auto [key, value] : given) members[key] = value;
        return build(members);
      },
      nb::sig(kept(std::string("def replace(self, **changes: Any) -> ") + name)), "A copy with some members changed.");
  copies_are_itself(type);
  type.def(
      "__reduce__",
      [](nb::handle self) { return made_by("spec", nb::handle(self.type()), nb::object(self.attr("to_dict")())); },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  return type;
}

}  // namespace bearing::python
