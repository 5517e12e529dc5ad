#pragma once

#include <nanobind/nanobind.h>

#include <bearing/description.hpp>
#include <span>
#include <string>
#include <vector>

// Functions that the library describes, and the arguments of a call.

namespace bearing::python {

namespace nb = nanobind;

/// An argument of a constructor or function, as it was given.
struct GivenArgument {
  const char* name;
  nb::object value;
  bool by_caller = false;  ///< also where it is None
};

/// What a constructor or function was called with, in the order of `names`; None where the caller gave nothing. Those
/// after the first `unnamed` must be given by name.
std::vector<GivenArgument> arguments_of(const char* function, std::span<const char* const> names, const nb::args& args,
                                        const nb::kwargs& given, std::size_t unnamed = SIZE_MAX);

enum class FunctionKind { plain, method, maker };
/// Binds a function, in a module or in the class of a type of records. Of several with one name, that is called whose
/// first argument fits.
void def_function(nb::handle scope, const FunctionInfo& info, FunctionKind kind, bool others_follow = false);

}  // namespace bearing::python
