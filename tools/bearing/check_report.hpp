#pragma once

#include <bearing/properties.hpp>
#include <string>
#include <vector>

#include "inspect_options.hpp"

namespace bearing::tool {

/// An encoding's measured properties, and what is often said of it.
struct CheckReport {
  Subject subject;
  inspect::SpecimenOptions size = {};
  inspect::Specimen specimen = {};
  std::vector<inspect::Property> properties = {};
  std::vector<inspect::Claim> claims = {};
};

/// What inspect::check() measures, as words for a command line.
std::vector<std::string> property_names();

/// Measures an encoding at its size (measured_size()), which the report says. Throws UsageError for what the library
/// refuses. A progress line stands on a terminal.
CheckReport check_subject(Subject subject, const SizeOptions& sizes, const Executor& on);

}  // namespace bearing::tool
