#pragma once

#include <bearing/properties.hpp>
#include <string>
#include <vector>

#include "inspect_options.hpp"

namespace bearing::tool {

/// Encodings measured side by side, and what is often said of them.
struct CompareReport {
  inspect::SpecimenOptions size;
  std::vector<inspect::Comparison> rows = {};
  std::vector<inspect::SpecimenOptions> sizes = {};  ///< of each row
  std::vector<inspect::Claim> claims = {};
  /// An encoding that cannot serve the size, and why.
  struct LeftOut {
    std::string text, why;
  };
  std::vector<LeftOut> left_out = {};
};

/// Whether all rows were measured at one size: the report's.
bool has_one_size(const CompareReport& report);

/// The table of them; where sizes differ, with a column for each number of a size.
std::vector<std::string> compare_headings(const CompareReport& report);
std::vector<std::vector<std::string>> compare_rows(const CompareReport& report);

/// Measures them all at one size: what is given, else that of the first model, else the default; another model has its
/// own. A progress line stands on a terminal.
CompareReport compare_subjects(const std::vector<Subject>& subjects, const SizeOptions& options, const Executor& on);

}  // namespace bearing::tool
