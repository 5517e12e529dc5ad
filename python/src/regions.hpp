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

/// A DistanceBand; one without limits for None. Throws TypeError for anything else.
Band band_given(nanobind::handle given, const Argument& argument);

/// A band as text, as for regions; no text is a band without limits.
std::string text_of(const Band& band);
Band band_of(std::string_view text);

/// Regions as text, which a program that JAX compiled keeps: the same numbers come back.
std::string text_of(const std::vector<Region>& regions);
std::vector<Region> regions_of(std::string_view text);

}  // namespace bearing::python
