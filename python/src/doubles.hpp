#pragma once

#include <nanobind/nanobind.h>

#include "arrays.hpp"

namespace bearing::python {

/// Anything that NumPy takes for numbers, as float64: these functions are for looking at encodings, not for speed.
inline Array doubles(nb::handle from, const Argument& argument) {
  check_array(from, argument);
  try {
    return Array(nb::object(nb::module_::import_("numpy").attr("asarray")(from, "float64")), argument);
  } catch (const nb::python_error&) {
    argument.fail("numbers", class_of(from) + (nb::hasattr(from, "dtype") ? " of " + type_text(from) : ""));
  }
}

}  // namespace bearing::python
