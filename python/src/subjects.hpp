#pragma once

#include <nanobind/nanobind.h>

#include <bearing/figures.hpp>
#include <vector>

#include "memory.hpp"

// What is measured and drawn: an encoding in every way to say one, or with numbers of its own.

namespace bearing::python {

/// Those that text, a spec, a table, an encoding with its numbers, a module, a Model or a config says: more than one of
/// a model alone. Numbers are copied. Throws TypeError for what says none.
std::vector<inspect::Subject> subjects_of(nb::handle from, const Argument& argument);
/// The same for an argument that is one of them. Throws ConfigError for a model with several.
inspect::Subject subject_of(nb::handle from, const Argument& argument);

}  // namespace bearing::python
