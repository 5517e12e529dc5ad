#pragma once

#include <bearing/description.hpp>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "members.hpp"

// Between Python's objects and the values of descriptions.

namespace bearing::python {

/// Throws TypeError, or ValueError for a word that is none of the type's.
Value value_of(nb::handle from, const ValueType& type, const Place& at);

/// Sequences become tuples. Arrays become those of that kind.
nb::object object_of(const Value& value, ArrayKind kind = ArrayKind::numpy);

/// What signatures call a type that a function returns.
std::string result_type(const FunctionInfo& function);
/// "name: type = default" of an argument or a member.
std::string signature_of(const std::string& name, const ValueType& type, const std::optional<Value>& otherwise);

/// Whole numbers of any shape, copied.
Tensor whole_numbers(nb::handle from, const Argument& argument);
/// Numbers in tuples of tuples.
nb::object nested(const Tensor& tensor);

/// The text of a docstring with what it says of items, one by one.
struct DocumentedItem {
  const std::string &name, &text;
};
std::string with_items(std::string text, const std::vector<DocumentedItem>& items);

/// A text that is kept as long as the module, which is for ever.
inline const char* kept(std::string text) { return (new std::string(std::move(text)))->c_str(); }

}  // namespace bearing::python
