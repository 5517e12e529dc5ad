#pragma once

#include <nanobind/nanobind.h>

// Calls whose arguments nanobind does not take.

namespace bearing::python {

namespace nb = nanobind;

/// From here on all functions and methods of the module refuse such arguments as this library refuses any: by the
/// function's name and the argument's, with what it must be. A right call takes as long as before.
void name_wrong_arguments(const nb::module_& m);

}  // namespace bearing::python
