#pragma once

#include <nanobind/nanobind.h>

#include <bearing/regions.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "memory.hpp"

namespace bearing::python {

/// Those of a spec, or of a list of Region; none for None. Throws TypeError for anything else.
std::vector<Region> regions_given(nanobind::handle given, const Argument& argument);

/// Regions as text, which a program that JAX compiled keeps: the same numbers come back.
std::string text_of(const std::vector<Region>& regions);
std::vector<Region> regions_of(std::string_view text);

}  // namespace bearing::python
