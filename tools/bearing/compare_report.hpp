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

/// What tells the rows' sizes apart: nothing, their length, or heads, dim and length; headings, and a row's numbers.
std::vector<std::string> size_headings(const CompareReport& report);
std::vector<std::string> size_cells(const CompareReport& report, std::size_t row);
/// "8 heads of 64, length 512, seed 1", or that each has its own.
std::string sizes_text(const CompareReport& report);

/// The table of them; where sizes differ, with columns for them.
std::vector<std::string> compare_headings(const CompareReport& report);
std::vector<std::vector<std::string>> compare_rows(const CompareReport& report);

/// Measures them all at one size: what is given, else that of the first model, else the default; another model has its
/// own. A progress line stands on a terminal.
CompareReport compare_subjects(const std::vector<Subject>& subjects, const SizeOptions& options, const Executor& on);

}  // namespace bearing::tool
