#pragma once

#include <array>
#include <bearing/description.hpp>
#include <concepts>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

// Between the types of C++ and Value, both ways.

namespace bearing::describe {

/// A view of numbers that lie row by row.
template <class T, std::size_t Rank>
View<T, static_cast<int>(Rank)> row_major(T* data, const std::array<Index, Rank>& shape) {
  return std::apply([data](auto... extent) { return dense(data, extent...); }, shape);
}

/// The words of an enumeration, in the order of its values: specialise with `static constexpr const char* all[] = {…}`.
template <class E>
struct Words;

/// ValueOf<T>: to(const T&) → Value, from(const Value&) → T for a value of type(), and type().
template <class T>
struct ValueOf {  // a record
  static Value to(const T& value) { return Record::of(value); }
  static T from(const Value& value) { return *std::get<Record>(value).template as<T>(); }
  static ValueType type() { return {.kind = Kind::record, .records = {typeid(T)}}; }
};

template <>
struct ValueOf<bool> {
  static Value to(bool value) { return value; }
  static bool from(const Value& value) { return std::get<bool>(value); }
  static ValueType type() { return {.kind = Kind::truth}; }
};

template <std::integral T>
struct ValueOf<T> {
  static Value to(T value) { return static_cast<Index>(value); }
  static T from(const Value& value) { return static_cast<T>(std::get<Index>(value)); }
  static ValueType type() { return {.kind = Kind::whole}; }
};

template <std::floating_point T>
struct ValueOf<T> {
  static Value to(T value) { return static_cast<double>(value); }
  static T from(const Value& value) {
    if (const Index* whole = std::get_if<Index>(&value)) return static_cast<T>(*whole);
    return static_cast<T>(std::get<double>(value));
  }
  static ValueType type() { return {.kind = Kind::number}; }
};

/// A value of an enumeration, as its number among the words, and back.
Value word_value(std::span<const char* const> words, std::size_t number);
std::size_t number_of_word(std::span<const char* const> words, const Value& value);
ValueType word_type(std::span<const char* const> words);

template <class E>
requires std::is_enum_v<E>
struct ValueOf<E> {
  static Value to(E value) { return word_value(Words<E>::all, static_cast<std::size_t>(value)); }
  static E from(const Value& value) { return static_cast<E>(number_of_word(Words<E>::all, value)); }
  static ValueType type() { return word_type(Words<E>::all); }
};

template <>
struct ValueOf<std::string> {
  static Value to(const std::string& value) { return value; }
  static std::string from(const Value& value) { return std::get<std::string>(value); }
  static ValueType type() { return {.kind = Kind::word}; }
};

template <>
struct ValueOf<Tensor> {
  static Value to(const Tensor& value) { return value; }
  static Tensor from(const Value& value) { return std::get<Tensor>(value); }
  static ValueType type() { return {.kind = Kind::tensor}; }
};

template <>
struct ValueOf<Value> {
  static Value to(const Value& value) { return value; }
  static Value from(const Value& value) { return value; }
  static ValueType type() { return {.kind = Kind::tensor}; }
};

template <class T>
struct ValueOf<Required<T>> {
  static Value to(const Required<T>& value) { return ValueOf<T>::to(value); }
  static Required<T> from(const Value& value) { return ValueOf<T>::from(value); }
  static ValueType type() { return ValueOf<T>::type(); }
};

template <class T>
struct ValueOf<std::optional<T>> {
  static Value to(const std::optional<T>& value) { return value ? ValueOf<T>::to(*value) : Value{}; }
  static std::optional<T> from(const Value& value) {
    if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
    return ValueOf<T>::from(value);
  }
  static ValueType type() {
    ValueType type = ValueOf<T>::type();
    type.optional = true;
    return type;
  }
};

template <class T>
struct ValueOf<std::vector<T>> {
  static Value to(const std::vector<T>& values) {
    Values all;
    for (const T& value : values) all.push_back(ValueOf<T>::to(value));
    return all;
  }
  static std::vector<T> from(const Value& value) {
    std::vector<T> all;
    for (const Value& one : std::get<Values>(value)) all.push_back(ValueOf<T>::from(one));
    return all;
  }
  static ValueType type() { return {.kind = Kind::list, .items = {ValueOf<T>::type()}}; }
};

/// A place in a grid, or the like: a list of two.
template <class T>
struct ValueOf<std::pair<T, T>> {
  static Value to(const std::pair<T, T>& pair) {
    return Values{ValueOf<T>::to(pair.first), ValueOf<T>::to(pair.second)};
  }
  static std::pair<T, T> from(const Value& value) {
    const Values& two = std::get<Values>(value);
    return {ValueOf<T>::from(two[0]), ValueOf<T>::from(two[1])};
  }
  static ValueType type() { return {.kind = Kind::list, .items = {ValueOf<T>::type(), ValueOf<T>::type()}}; }
};

/// One of several records.
template <class... T>
struct ValueOf<std::variant<T...>> {
  static Value to(const std::variant<T...>& value) {
    return std::visit([](const auto& one) -> Value { return Record::of(one); }, value);
  }
  static std::variant<T...> from(const Value& value) {
    const Record& record = std::get<Record>(value);
    std::optional<std::variant<T...>> found;
    ((record.as<T>() != nullptr ? void(found = *record.as<T>()) : void()), ...);
    return found.value();
  }
  static ValueType type() { return {.kind = Kind::record, .records = {typeid(T)...}}; }
};

template <class T>
inline constexpr bool is_required = false;
template <class T>
inline constexpr bool is_required<Required<T>> = true;

/// How a record's member of some type is read and written where it lies: one table for all members of that type.
struct MemberAccess {
  ValueType (*type)();
  Value (*get)(const void* member);
  void (*set)(void* member, const Value& value);
  bool required;
};
template <class M>
struct AccessTo {
  static Value get(const void* member) { return ValueOf<M>::to(*static_cast<const M*>(member)); }
  static void set(void* member, const Value& value) { *static_cast<M*>(member) = ValueOf<M>::from(value); }
  static constexpr MemberAccess access{ValueOf<M>::type, get, set, is_required<M>};
};

}  // namespace bearing::describe
